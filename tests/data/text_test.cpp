#include "bigmac/data/text.h"

#include "tests/data/support.h"

namespace bigmac::data {
namespace {

TEST(Text, EveryNameOfTheListSurvivesTheRoundTrip) {
  SKIP_WITHOUT(kEmojiListPath, "unicode-data");
  for (const auto& emoji : read_emoji_list()) EXPECT_EQ(decode(encode(emoji.name)), emoji.name);
}

TEST(Text, TokensAreTheUtf8Bytes) {
  EXPECT_EQ(encode("añ"), (std::vector<int64_t>{'a', 0xC3, 0xB1}));
  EXPECT_EQ(decode({'a', 0xC3, 0xB1}), "añ");
  EXPECT_EQ(decode(encode("o’clock \U0001F600 中")), "o’clock \U0001F600 中");
  EXPECT_EQ(encode("").size(), 0u);
}

TEST(Text, DecodingStopsAtTheEndAndLeavesSpecialTokensOut) {
  EXPECT_EQ(decode({kPicture, kPicture, 'c', 'a', kPad, 't', 263, kEnd, 's'}), "cat");
  EXPECT_EQ(decode({kEnd, 'a'}), "");
}

TEST(Text, EachInvalidByteBecomesAQuestionMark) {
  EXPECT_EQ(decode({0xFF, 'a'}), "?a");
  EXPECT_EQ(decode({0xC3}), "?");                       // cut off
  EXPECT_EQ(decode({0xC3, 'a'}), "?a");                 // no continuation
  EXPECT_EQ(decode({0xB1, 0xB1}), "??");                // continuation only
  EXPECT_EQ(decode({0xC0, 0xAF}), "??");                // overlong
  EXPECT_EQ(decode({0xE0, 0x80, 0xAF}), "???");         // overlong
  EXPECT_EQ(decode({0xED, 0xA0, 0x80}), "???");         // surrogate
  EXPECT_EQ(decode({0xF4, 0x90, 0x80, 0x80}), "????");  // beyond U+10FFFF
  EXPECT_EQ(decode({0xF0, 0x9F, 0x98}), "???");
}

TEST(Text, ControlCharactersAreNeverPrinted) {
  EXPECT_EQ(decode({'a', 0x1B, '[', 'm', '\n', 0, 0x7F}), "a?[m???");
  EXPECT_EQ(decode({0xC2, 0x9B, 'b'}), "?b");  // U+009B, a control sequence introducer
  for (int64_t token = 0; token < 256; ++token)
    for (unsigned char byte : decode({token})) EXPECT_GE(byte, 0x20);
}

TEST(Text, ATokenOutsideTheVocabularyIsRefused) {
  EXPECT_CONTAINS(message_of([] { decode({264}); }), "token 264 is outside the vocabulary 0..263");
  EXPECT_THROW(decode({-1}), InvalidInput);
}

}  // namespace
}  // namespace bigmac::data
