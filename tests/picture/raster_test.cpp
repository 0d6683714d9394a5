#include "bigmac/picture/raster.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bigmac/common/error.h"
#include "tests/picture/decoded.h"

namespace bigmac {
namespace {

std::string svg_of(const std::string& attributes, const std::string& inside = "") {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + attributes + ">" + inside + "</svg>";
}

std::string error_of(const std::string& svg, double scale = 1) {
  try {
    png_of(svg, scale);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(PngOf, DrawsEveryPixelWhereItBelongs) {
  Decoded picture(png_of(svg_of("width=\"20\" height=\"10\"",
                                "<rect x=\"5\" y=\"2\" width=\"10\" height=\"4\" fill=\"#0072b2\"/>"),
                         2));
  ASSERT_EQ(picture.width, 40);
  ASSERT_EQ(picture.height, 20);
  for (int64_t y = 0; y < 20; ++y)
    for (int64_t x = 0; x < 40; ++x)
      EXPECT_EQ(picture.at(x, y), x >= 10 && x < 30 && y >= 4 && y < 12 ? 0x0072b2u : 0xffffffu)
          << x << " " << y;
}

TEST(PngOf, TakesItsSizeFromTheViewBoxWhereThereIsNoOther) {
  Decoded picture(png_of(svg_of("viewBox=\"0 0 30 7\""), 1.5));
  EXPECT_EQ(picture.width, 45);
  EXPECT_EQ(picture.height, 11);
}

TEST(PngOf, DrawsText) {
  Decoded picture(
      png_of(svg_of("viewBox=\"0 0 60 20\"",
                    "<text x=\"5\" y=\"15\" font-family=\"DejaVu Sans\" font-size=\"14\">MMM</text>")));
  EXPECT_GT(picture.count(0x000000), 60);
  EXPECT_EQ(picture.count(0x000000, 0, 8), 0);
}

TEST(PngOf, RefusesWhatIsNoSvg) {
  EXPECT_NE(error_of("").find("[png] not an SVG: "), std::string::npos);
  EXPECT_NE(error_of("<svg").find("[png] not an SVG: "), std::string::npos);
  EXPECT_NE(error_of("{}").find("[png] not an SVG: "), std::string::npos);
  EXPECT_NE(error_of("<html/>").find("[png] not an SVG: "), std::string::npos);
  EXPECT_NE(error_of(svg_of("width=\"9\" height=\"9\"", "<rect></svg>")).find("[png] not an SVG: "),
            std::string::npos);
  EXPECT_NE(error_of(svg_of("width=\"9\" height=\"9\"", "a & b")).find("[png] not an SVG: "),
            std::string::npos);
}

TEST(PngOf, RefusesSizesItCannotDraw) {
  EXPECT_EQ(error_of(svg_of("")), "[png] the SVG says neither width and height nor a viewBox");
  EXPECT_NE(error_of(svg_of("width=\"100000\" height=\"9\"")).find("100000 x 9 pixels is too large"),
            std::string::npos);
  EXPECT_NE(error_of(svg_of("width=\"30000\" height=\"30000\"")).find("too large"), std::string::npos);
  EXPECT_NE(error_of(svg_of("width=\"900\" height=\"400\""), 1e9).find("too large"), std::string::npos);
  EXPECT_NE(error_of(svg_of("width=\"0\" height=\"0\"")).find("has no pixels"), std::string::npos);
  for (double scale : {0.0, -1.0, double(NAN), double(INFINITY)})
    EXPECT_NE(error_of(svg_of("width=\"9\" height=\"9\""), scale).find("scale must be above 0"),
              std::string::npos);
}

TEST(PngOf, DoesNotReadOtherFiles) {
  auto with_file = svg_of("width=\"20\" height=\"20\" xmlns:xlink=\"http://www.w3.org/1999/xlink\"",
                          "<image width=\"20\" height=\"20\" xlink:href=\"file://" BIGMAC_SOURCE_DIR
                          "/docs/pictures.png\"/>");
  Decoded picture(png_of(with_file, 1));
  EXPECT_EQ(picture.count(0xffffff), 400);
}

}  // namespace
}  // namespace bigmac
