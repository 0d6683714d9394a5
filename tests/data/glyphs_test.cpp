#include <array>

#include "bigmac/data/label.h"
#include "tests/data/support.h"

namespace bigmac::data {
namespace {

std::array<double, 3> mean_colour(const Picture& picture) {
  std::array<double, 3> mean{};
  for (int64_t channel = 0; channel < 3; ++channel) {
    for (int64_t row = 0; row < picture.height; ++row)
      for (int64_t column = 0; column < picture.width; ++column)
        mean[static_cast<size_t>(channel)] += picture.at(channel, row, column);
    mean[static_cast<size_t>(channel)] /= static_cast<double>(picture.height * picture.width);
  }
  return mean;
}

TEST(Glyphs, ARedHeartIsMostlyRedOnWhite) {
  SKIP_WITHOUT_EMOJI();
  auto heart = EmojiFont().render(U"\u2764\uFE0F", 32);
  ASSERT_TRUE(heart);
  EXPECT_EQ(heart->height, 32);
  EXPECT_EQ(heart->width, 32);
  EXPECT_EQ(heart->bytes.size(), 3u * 32 * 32);
  EXPECT_GT(heart->at(0, 16, 16), 180);
  EXPECT_LT(heart->at(1, 16, 16), 100);
  EXPECT_LT(heart->at(2, 16, 16), 100);
  for (int64_t channel = 0; channel < 3; ++channel) {
    EXPECT_EQ(heart->at(channel, 31, 0), 255);
    EXPECT_EQ(heart->at(channel, 31, 31), 255);
  }
}

TEST(Glyphs, SkinTonesOfOneEmojiDiffer) {
  SKIP_WITHOUT_EMOJI();
  EmojiFont font;
  std::vector<std::vector<uint8_t>> hands;
  for (char32_t tone : {U'\0', U'\U0001F3FB', U'\U0001F3FC', U'\U0001F3FD', U'\U0001F3FE', U'\U0001F3FF'}) {
    std::u32string hand = U"\U0001F44B";
    if (tone != 0) hand += tone;
    auto picture = font.render(hand, 32);
    ASSERT_TRUE(picture);
    for (const auto& other : hands) EXPECT_NE(picture->bytes, other);
    hands.push_back(picture->bytes);
  }
}

TEST(Glyphs, FlagsFamiliesKeycapsAndTagSequencesAreOneGlyph) {
  SKIP_WITHOUT_EMOJI();
  EmojiFont font;
  std::u32string man = U"\U0001F468", woman = U"\U0001F469", girl = U"\U0001F467", join = U"\u200D";
  for (const auto& sequence :
       {std::u32string(U"\U0001F1EB\U0001F1F7"), man + join + woman + join + girl,
        std::u32string(U"#\uFE0F\u20E3"),
        std::u32string(U"\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F")}) {
    auto glyph = font.glyph(sequence);
    ASSERT_TRUE(glyph);
    EXPECT_NE(glyph, font.glyph(sequence.substr(0, 1)));
    EXPECT_TRUE(font.render(sequence, 16));
  }
  EXPECT_NE(font.glyph(U"\U0001F1EB\U0001F1F7"), font.glyph(U"\U0001F1E9\U0001F1EA"));
}

TEST(Glyphs, ASequenceThatTheFontWouldDrawAsSeveralGlyphsHasNone) {
  SKIP_WITHOUT_EMOJI();
  EmojiFont font;
  EXPECT_FALSE(font.glyph(U""));
  EXPECT_FALSE(font.glyph(U"\uFE0F"));
  EXPECT_FALSE(font.glyph(U"\u4E2D"));                      // not in the font
  EXPECT_FALSE(font.glyph(U"\U0001F600\U0001F600"));        // two faces
  EXPECT_FALSE(font.glyph(U"\U0001F600\u200D\U0001F697"));  // no such joined emoji
  EXPECT_FALSE(font.render(U"\U0001F600\U0001F600", 32));
}

TEST(Glyphs, TheMeanColourDoesNotDependOnTheSide) {
  SKIP_WITHOUT_EMOJI();
  EmojiFont font;
  auto fine = mean_colour(*font.render(U"\U0001F600", 136));
  for (int64_t side : {1, 7, 16, 32, 64, 200}) {
    auto mean = mean_colour(*font.render(U"\U0001F600", side));
    for (size_t channel = 0; channel < 3; ++channel) EXPECT_NEAR(mean[channel], fine[channel], 0.75) << side;
  }
}

TEST(Glyphs, ASideOutsideItsRangeIsRefused) {
  SKIP_WITHOUT_EMOJI();
  EmojiFont font;
  EXPECT_CONTAINS(message_of([&] { font.render(U"\U0001F600", 0); }),
                  "side is 0 pixels; it must be from 1 to 1024");
  EXPECT_THROW(font.render(U"\U0001F600", 1025), InvalidInput);
}

TEST(Glyphs, AMissingFontNamesItsPathAndThePackage) {
  auto message = message_of([] { EmojiFont("/nowhere/Emoji.ttf"); });
  EXPECT_CONTAINS(message, "/nowhere/Emoji.ttf");
  EXPECT_CONTAINS(message, "fonts-noto-color-emoji");
}

TEST(Glyphs, AFileThatIsNoFontIsRefusedByName) {
  Folder folder;
  auto path = folder.write("emoji.ttf", "no font");
  auto message = message_of([&] { EmojiFont font(path); });
  EXPECT_CONTAINS(message, path);
  EXPECT_CONTAINS(message, "is not a font");
}

TEST(Glyphs, AFontWithoutColourBitmapsIsRefusedByName) {
  SKIP_WITHOUT(kLabelFontPath, "fonts-dejavu-core");
  auto message = message_of([] { EmojiFont font(kLabelFontPath); });
  EXPECT_CONTAINS(message, kLabelFontPath);
  EXPECT_CONTAINS(message, "no colour bitmaps");
  EXPECT_CONTAINS(message, "fonts-noto-color-emoji");
}

}  // namespace
}  // namespace bigmac::data
