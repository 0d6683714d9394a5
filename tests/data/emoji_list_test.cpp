#include <set>

#include "tests/data/support.h"

namespace bigmac::data {
namespace {

TEST(EmojiList, EntriesKeepTheirCodePointsAndNames) {
  Folder folder;
  auto list = read_emoji_list(folder.write("list.txt",
                                           "# comment\n\n"
                                           "1F600  ; fully-qualified # \U0001F600 E1.0 grinning face\n"
                                           "263A FE0F ; fully-qualified # x E0.6 smiling: Face\r\n"
                                           "263A ; unqualified # x E0.6 smiling face\n"
                                           "0023 FE0F 20E3 ; fully-qualified # x E0.6 keycap: #\n"));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].codepoints, U"\U0001F600");
  EXPECT_EQ(list[0].name, "grinning face");
  EXPECT_EQ(list[0].file_stem, "1f600");
  EXPECT_EQ(list[1].name, "smiling: Face");
  EXPECT_EQ(list[1].file_stem, "263a-fe0f");
  EXPECT_EQ(list[2].codepoints, (std::u32string{0x23, 0xFE0F, 0x20E3}));
  EXPECT_EQ(list[2].name, "keycap: #");
  EXPECT_EQ(list[2].file_stem, "0023-fe0f-20e3");
}

TEST(EmojiList, TheInstalledListHoldsAsManyEntriesAsItSays) {
  SKIP_WITHOUT(kEmojiListPath, "unicode-data");
  size_t said = 0;
  std::ifstream file(kEmojiListPath);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("# fully-qualified : ")) said = std::stoul(line.substr(20));
  auto list = read_emoji_list();
  EXPECT_GE(list.size(), 3500u);
  EXPECT_EQ(list.size(), said);
  std::set<std::string> names, stems;
  for (const auto& emoji : list) {
    names.insert(emoji.name);
    stems.insert(emoji.file_stem);
  }
  EXPECT_EQ(names.size(), list.size());
  EXPECT_EQ(stems.size(), list.size());
  EXPECT_TRUE(names.contains("piñata"));
  EXPECT_TRUE(stems.contains("1f468-200d-1f373"));
}

TEST(EmojiList, AMalformedLineIsNamedWithWhatIsWrongAndWhatIsExpected) {
  struct Case {
    const char* line;
    const char* wrong;
  };
  const Case cases[] = {
      {"1F600 fully-qualified # x E1.0 face", "no ';'"},
      {"; fully-qualified # x E1.0 face", "no code points"},
      {"1F6G0 ; fully-qualified # x E1.0 face", "'1F6G0' is not a hexadecimal code point"},
      {"110000 ; fully-qualified # x E1.0 face", "'110000' is not a hexadecimal code point"},
      {"D800 ; fully-qualified # x E1.0 face", "'D800' is not a hexadecimal code point"},
      {"1F600 ; fully-qualified x E1.0 face", "no '#'"},
      {"1F600 ; qualified # x E1.0 face", "unknown status 'qualified'"},
      {"1F600 ; unqualified # x face", "'face' is not a version"},
      {"1F600 ; fully-qualified # x E1.0", "no name"},
      {"1F600 ; fully-qualified #", "'' is not a version"},
  };
  Folder folder;
  for (const auto& [line, wrong] : cases) {
    auto path = folder.write("list.txt",
                             "# comment\n1F603 ; fully-qualified # x E1.0 face\n" + std::string(line) + "\n");
    auto message = message_of([&] { read_emoji_list(path); });
    EXPECT_CONTAINS(message, path + ":3: ");
    EXPECT_CONTAINS(message, wrong);
    EXPECT_CONTAINS(message, "expected 'code points ; status # emoji Eversion name'");
  }
}

TEST(EmojiList, AMissingListNamesItsPathAndThePackage) {
  auto message = message_of([] { read_emoji_list("/nowhere/emoji-test.txt"); });
  EXPECT_CONTAINS(message, "/nowhere/emoji-test.txt");
  EXPECT_CONTAINS(message, "unicode-data");
}

TEST(EmojiList, AListWithoutEntriesIsRefused) {
  Folder folder;
  auto message = message_of([&] { read_emoji_list(folder.write("list.txt", "# nothing\n")); });
  EXPECT_CONTAINS(message, "no fully-qualified emoji");
  EXPECT_THROW(read_emoji_list("/tmp"), InvalidInput);
}

}  // namespace
}  // namespace bigmac::data
