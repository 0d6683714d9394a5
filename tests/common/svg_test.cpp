#include "bigmac/common/svg.h"

#include <gtest/gtest.h>

#include <locale>

namespace bigmac {
namespace {

const std::string kReplaced = "\xEF\xBF\xBD";

TEST(XmlEscaped, ReplacesWhatMarkupIsMadeOf) {
  EXPECT_EQ(xml_escaped("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
  EXPECT_EQ(xml_escaped(""), "");
}

TEST(XmlEscaped, KeepsUtf8) {
  for (const char* text : {"größe", "図", "\xF0\x9F\x98\x80", "\xEF\xBF\xBD"})
    EXPECT_EQ(xml_escaped(text), text);
}

TEST(XmlEscaped, ReplacesControlBytesAndWhatIsNotUtf8) {
  EXPECT_EQ(xml_escaped("a\x01"
                        "b\n"),
            "a" + kReplaced + "b" + kReplaced);
  EXPECT_EQ(xml_escaped(std::string_view("\0x", 2)), kReplaced + "x");
  EXPECT_EQ(xml_escaped("\xff<"), kReplaced + "&lt;");
  EXPECT_EQ(xml_escaped("\xC3"), kReplaced);                                  // cut off
  EXPECT_EQ(xml_escaped("\xC0\x80"), kReplaced + kReplaced);                  // too long a form
  EXPECT_EQ(xml_escaped("\xED\xA0\x80"), kReplaced + kReplaced + kReplaced);  // a surrogate
  EXPECT_EQ(xml_escaped("\xEF\xBF\xBF"), kReplaced + kReplaced + kReplaced);  // U+FFFF
  EXPECT_EQ(xml_escaped("\xF4\x90\x80\x80"), kReplaced + kReplaced + kReplaced + kReplaced);
}

struct Commas : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Svg, WritesNumbersTheSameInEveryLocale) {
  auto drawn = [] {
    Svg svg(1200, 400);
    svg.text(1234.5, 0.25, "x", "end", 11, "fill=\"#000000\"");
    svg.line(1, 2, 3000, 4, "stroke=\"#000000\"");
    return svg.finish();
  };
  auto expected = drawn();
  auto before = std::locale::global(std::locale(std::locale::classic(), new Commas));
  auto actual = drawn();
  std::locale::global(before);
  EXPECT_EQ(actual, expected);
  EXPECT_NE(expected.find("x=\"1234.50\" y=\"0.25\""), std::string::npos);
}

}  // namespace
}  // namespace bigmac
