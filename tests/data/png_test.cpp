#include "bigmac/data/png.h"

#include "tests/data/support.h"

namespace bigmac::data {
namespace {

Picture pattern(int64_t height, int64_t width) {
  Picture picture(height, width);
  for (size_t i = 0; i < picture.bytes.size(); ++i) picture.bytes[i] = static_cast<uint8_t>(i * 37 + i / 256);
  return picture;
}

TEST(Png, APictureSurvivesTheRoundTrip) {
  Folder folder;
  for (auto [height, width] : {std::pair{1, 1}, {5, 3}, {64, 200}}) {
    auto picture = pattern(height, width);
    write_png(folder / "picture.png", picture);
    auto read = read_png(folder / "picture.png");
    EXPECT_EQ(read.height, height);
    EXPECT_EQ(read.width, width);
    EXPECT_EQ(read.bytes, picture.bytes);
  }
  EXPECT_EQ(folder.files(), 1u) << "a temporary file was left behind";
}

TEST(Png, AFailedWriteNamesThePathAndTheReasonAndLeavesNothing) {
  Folder folder;
  auto message = message_of<Failure>([&] { write_png(folder / "none/picture.png", pattern(2, 2)); });
  EXPECT_CONTAINS(message, folder / "none/picture.png");
  EXPECT_CONTAINS(message, "No such file or directory");

  std::filesystem::create_directory(folder / "picture.png");
  message = message_of<Failure>([&] { write_png(folder / "picture.png", pattern(2, 2)); });
  EXPECT_CONTAINS(message, folder / "picture.png");
  EXPECT_CONTAINS(message, "directory");
  EXPECT_EQ(folder.files(), 1u) << "a temporary file was left behind";
  EXPECT_THROW(write_png(folder / "empty.png", Picture()), InvalidInput);
}

TEST(Png, AnUnreadableFileNamesThePathAndTheReason) {
  Folder folder;
  EXPECT_CONTAINS(message_of([&] { read_png(folder / "none.png"); }), folder / "none.png");
  auto path = folder.write("no.png", "no picture at all");
  auto message = message_of([&] { read_png(path); });
  EXPECT_CONTAINS(message, path);
  EXPECT_CONTAINS(message, "PNG");

  write_png(folder / "cut.png", pattern(40, 40));
  std::filesystem::resize_file(folder / "cut.png", 200);
  EXPECT_CONTAINS(message_of([&] { read_png(folder / "cut.png"); }), folder / "cut.png");
}

TEST(Grid, PicturesAreScaledAndSeparatedByWhite) {
  Picture black(2, 2, 0), grey(2, 2, 100);
  auto grid = picture_grid({{black, grey}, {grey}}, {}, {.scale = 3, .gap = 1});
  EXPECT_EQ(grid.height, 1 + 6 + 1 + 6 + 1);
  EXPECT_EQ(grid.width, 1 + 6 + 1 + 6 + 1);
  for (int64_t row = 0; row < grid.height; ++row)
    for (int64_t column = 0; column < grid.width; ++column) {
      bool gap = row % 7 == 0 || column % 7 == 0, left = column < 7, top = row < 7;
      int expected = gap ? 255 : left ? (top ? 0 : 100) : (top ? 100 : 255);
      for (int64_t channel = 0; channel < 3; ++channel) ASSERT_EQ(grid.at(channel, row, column), expected);
    }
}

TEST(Grid, LabelsAreWrittenUnderTheirPictures) {
  SKIP_WITHOUT(kLabelFontPath, "fonts-dejavu-core");
  Picture white(32, 32);
  auto bare = picture_grid({{white, white}}),
       labelled = picture_grid({{white, white}}, {{"", "a piñata: very long name"}});
  EXPECT_GT(labelled.height, bare.height);
  EXPECT_EQ(labelled.width, bare.width);
  int ink_left = 0, ink_right = 0;
  for (int64_t row = 0; row < labelled.height; ++row)
    for (int64_t column = 0; column < labelled.width; ++column)
      (column < labelled.width / 2 ? ink_left : ink_right) += labelled.at(0, row, column) < 128;
  EXPECT_EQ(ink_left, 0);
  EXPECT_GT(ink_right, 100);
  EXPECT_CONTAINS(message_of([&] { picture_grid({{white}}, {{"x"}}, {.label_font = "/nowhere.ttf"}); }),
                  "/nowhere.ttf");
}

TEST(Grid, WrongInputIsRefused) {
  EXPECT_THROW(picture_grid({}), InvalidInput);
  EXPECT_THROW(picture_grid({{}, {}}), InvalidInput);
  EXPECT_THROW(picture_grid({{Picture(2, 2)}}, {}, {.scale = 0}), InvalidInput);
  EXPECT_CONTAINS(message_of([] { picture_grid({{Picture(2, 2), Picture(2, 3)}}); }), "2x2 and 2x3");
}

}  // namespace
}  // namespace bigmac::data
