#include "bigmac/picture/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "bigmac/common/error.h"
#include "bigmac/picture/look.h"
#include "bigmac/picture/raster.h"
#include "tests/picture/decoded.h"

namespace bigmac {
namespace {

constexpr uint64_t kSeed = 20250611;
constexpr uint32_t kBlue = 0x0072b2, kVermillion = 0xd55e00, kLimitRed = 0xa00000;

// The paper's two curves, small.
Chart speed_and_memory() {
  Chart chart{.title = "understanding", .x_label = "samples a GPU", .log2_x = true};
  chart.panels = {
      {.y_label = "samples a second",
       .series = {{"nested", {{1, 10}, {2, 12}, {4, 13}, {8, 14}}},
                  {"optimus", {{1, 9}, {2, 11}}, {{4, "out of memory"}, {8, "out of memory"}}}}},
      {.y_label = "peak memory (GiB)",
       .series = {{"nested", {{1, 60}, {2, 60}, {4, 60}, {8, 60}}}, {"optimus", {{1, 55}, {2, 75}}}},
       .limit = ChartLimit{80, "memory limit 80 GiB"}}};
  return chart;
}

std::string error_of(const Chart& chart) {
  try {
    to_svg(chart);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Every attribute that is a coordinate lies in the picture, and none is nan or inf.
void expect_inside(const std::string& svg, const Chart& chart) {
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  std::regex coordinate(" (x|y|x1|x2|y1|y2|width|height)=\"([^\"]*)\"");
  for (std::sregex_iterator at(svg.begin(), svg.end(), coordinate), end; at != end; ++at) {
    double value = std::stod((*at)[2]), most = (*at)[1].str()[0] == 'x' ? chart.width : chart.height;
    if ((*at)[1] == "width") most = chart.width;
    EXPECT_GE(value, -0.01) << at->str();
    EXPECT_LE(value, most + 0.01) << at->str();
  }
}

TEST(Chart, ShowsTitlesLabelsNamesAndLimit) {
  auto svg = to_svg(speed_and_memory());
  EXPECT_EQ(count(svg, ">understanding<"), 1u);
  EXPECT_EQ(count(svg, ">samples a GPU<"), 2u);
  EXPECT_EQ(count(svg, ">samples a second<"), 1u);
  EXPECT_EQ(count(svg, ">peak memory (GiB)<"), 1u);
  EXPECT_EQ(count(svg, ">memory limit 80 GiB<"), 1u);
  EXPECT_EQ(count(svg, ">optimus: out of memory<"), 1u);
  EXPECT_EQ(count(svg, ">nested<"), 3u);  // in the legend, and at its line in both panels
  EXPECT_EQ(count(svg, ">optimus<"), 3u);
  for (const char* tick : {">1<", ">2<", ">4<", ">8<"}) EXPECT_GE(count(svg, tick), 2u) << tick;
  EXPECT_EQ(count(svg, "<polyline "), 2u + 4u);
}

TEST(Chart, DrawsEverySeriesInItsOwnColourInEachPanel) {
  Decoded picture(png_of(to_svg(speed_and_memory()), 2));
  ASSERT_EQ(picture.width, 1800);
  ASSERT_EQ(picture.height, 840);
  int64_t middle = picture.width / 2;
  EXPECT_GT(picture.count(kBlue, 0, middle), 1000);
  EXPECT_GT(picture.count(kBlue, middle, picture.width), 1000);
  EXPECT_GT(picture.count(kVermillion, 0, middle), 500);
  EXPECT_GT(picture.count(kVermillion, middle, picture.width), 300);
  EXPECT_EQ(picture.count(kLimitRed, 0, middle), 0);
  EXPECT_GT(picture.count(kLimitRed, middle, picture.width), 500);
  EXPECT_GT(picture.count(0xffffff), picture.width * picture.height / 2);
}

// The series' own polyline: the one behind the legend's.
std::vector<Place> line_of(const std::string& svg) {
  std::vector<Place> line;
  size_t start = svg.find("points=\"", svg.find("points=\"") + 1) + 8;
  std::istringstream text(svg.substr(start, svg.find('"', start) - start));
  char comma = 0;
  for (Place place; text >> place.x >> comma >> place.y;) line.push_back(place);
  return line;
}

TEST(Chart, PutsPointsWhereTheyBelong) {
  for (bool log2 : {false, true}) {
    Chart chart{.title = "", .x_label = "", .log2_x = log2, .panels = {{"", {{"a", {}}}}}};
    // Equally far from each other on its axis, the middle one's y a quarter of the way up.
    for (double part : {0.0, 1.0, 2.0})
      chart.panels[0].series[0].points.push_back(
          {log2 ? std::exp2(part) : part, part == 1 ? 10.0 : 20 * part});
    auto svg = to_svg(chart);
    auto line = line_of(svg);
    ASSERT_EQ(line.size(), 3u);
    EXPECT_GT(line[2].x - line[0].x, 600);
    EXPECT_GT(line[0].y - line[2].y, 200);
    EXPECT_NEAR(line[1].x, (line[0].x + line[2].x) / 2, 0.02);
    EXPECT_NEAR(line[1].y, line[0].y + (line[2].y - line[0].y) / 4, 0.02);
    Decoded picture(png_of(svg, 1));
    for (const auto& [x, y] : line) EXPECT_EQ(picture.at(int64_t(x), int64_t(y)), kBlue);
  }
}

TEST(Chart, JoinsPointsInTheOrderOfX) {
  Chart chart{.title = "", .x_label = "", .panels = {{"", {{"a", {{1, 1}, {2, 5}, {3, 2}}}}}}};
  auto svg = to_svg(chart);
  std::swap(chart.panels[0].series[0].points[0], chart.panels[0].series[0].points[2]);
  EXPECT_EQ(to_svg(chart), svg);
}

TEST(Chart, KeepsTheLookOfASeriesByItsName) {
  Chart chart = speed_and_memory();
  std::swap(chart.panels[1].series[0], chart.panels[1].series[1]);
  Decoded picture(png_of(to_svg(chart), 1));
  // `nested` is still blue: the flat line at 60 spans most of the second panel.
  EXPECT_GT(picture.count(kBlue, picture.width / 2, picture.width), 300);
}

TEST(Chart, DrawsACrossForEveryMark) {
  auto chart = speed_and_memory();
  auto crosses = [&] { return count(to_svg(chart), "m-4 -4l8 8m0 -8l-8 8"); };
  EXPECT_EQ(crosses(), 2u);
  chart.panels[0].series[1].points.clear();  // marks alone are enough
  chart.panels[0].series[1].marks.push_back({1, "no legal split"});
  EXPECT_EQ(crosses(), 3u);
  EXPECT_EQ(count(to_svg(chart), ">optimus: no legal split<"), 1u);
  expect_inside(to_svg(chart), chart);
}

TEST(Chart, StacksPanels) {
  auto chart = speed_and_memory();
  chart.stacked = true;
  chart.height = 640;
  auto svg = to_svg(chart);
  expect_inside(svg, chart);
  Decoded picture(png_of(svg, 1));
  EXPECT_EQ(picture.height, 640);
  int64_t last_red = 0, last_blue = 0;
  for (int64_t y = 0; y < picture.height; ++y)
    for (int64_t x = 0; x < picture.width; ++x) {
      if (picture.at(x, y) == kLimitRed) last_red = y;
      if (picture.at(x, y) == kBlue) last_blue = y;
    }
  EXPECT_GT(last_red, 320);
  EXPECT_GT(last_blue, last_red);
}

TEST(Chart, AlignsTheXAxesOfStackedPanels) {
  auto chart = speed_and_memory();
  chart.stacked = true;
  for (auto& point : chart.panels[1].series[0].points) point.y *= 1e6;  // wide tick labels, in one panel only
  chart.panels[1].limit.reset();
  auto svg = to_svg(chart);
  std::regex blue("points=\"([^,]*),[^\"]*\" fill=\"none\" stroke=\"#0072b2\"");
  std::vector<std::string> starts;
  for (std::sregex_iterator at(svg.begin(), svg.end(), blue), end; at != end; ++at)
    starts.push_back((*at)[1]);
  ASSERT_EQ(starts.size(), 3u);
  EXPECT_EQ(starts[1], starts[2]);
}

TEST(Chart, SurvivesNamesWithMarkupControlBytesAndUtf8) {
  auto chart = speed_and_memory();
  for (const char* name : {"<script>&\"'", "größe 図 \xF0\x9F\x98\x80", "\x01\xff\n", "", "]]>--"}) {
    chart.title = chart.x_label = chart.panels[0].y_label = chart.panels[0].series[0].name = name;
    chart.panels[1].limit->label = chart.panels[0].series[1].marks[0].text = name;
    auto svg = to_svg(chart);
    EXPECT_EQ(svg.find("<script"), std::string::npos);
    EXPECT_EQ(Decoded(png_of(svg, 1)).width, 900) << name;
  }
}

TEST(Chart, ShortensNamesThatDoNotFit) {
  auto chart = speed_and_memory();
  chart.title = std::string(500, 'W');
  chart.panels[0].series[0].name = std::string(300, 'x');
  auto svg = to_svg(chart);
  EXPECT_EQ(svg.find(std::string(200, 'x')), std::string::npos);
  EXPECT_NE(svg.find("WWW\xE2\x80\xA6<"), std::string::npos);
  expect_inside(svg, chart);
}

TEST(Chart, OfNothingOfOnePointAndOfEqualValuesIsStillAPicture) {
  Chart chart{.title = "t", .x_label = "x", .panels = {{.y_label = "y"}}};
  EXPECT_EQ(count(to_svg(chart), ">no data<"), 1u);
  for (bool log2 : {false, true}) {
    chart.log2_x = log2;
    for (std::vector<ChartPoint> points : {std::vector<ChartPoint>{},
                                           {{4, 2}},
                                           {{4, 0}},
                                           {{4, -2}},
                                           {{1, 5}, {2, 5}, {3, 5}},
                                           {{3, 1}, {3, 2}}}) {
      chart.panels = {{"y", {{"a", points}}}};
      auto svg = to_svg(chart);
      expect_inside(svg, chart);
      Decoded picture(png_of(svg, 1));
      EXPECT_GT(picture.count(kBlue), 50);
      EXPECT_EQ(count(svg, ">no data<"), points.empty() ? 1u : 0u);
    }
  }
}

TEST(Chart, HoldsAnyMagnitudesAndCountsOfSeries) {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> exponent(-305, 299.9), part(-1, 1);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", trial " << trial);
    Chart chart{.title = "t", .x_label = "x", .log2_x = trial % 2 == 0};
    chart.stacked = trial % 4 < 2;
    chart.width = 240 + double(random() % 1000);
    chart.height = 300 + double(random() % 800);
    chart.panels.resize(1 + random() % 2);
    for (auto& panel : chart.panels) {
      size_t series = random() % 9;
      for (size_t n = 0; n < series; ++n) {
        panel.series.push_back({concat("s", n)});
        size_t points = random() % 6;
        for (size_t k = 0; k < points; ++k) {
          double x = part(random) * std::pow(10, exponent(random)),
                 y = part(random) * std::pow(10, exponent(random));
          panel.series[n].points.push_back({chart.log2_x ? std::abs(x) + 1e-300 : x, y});
        }
      }
      if (random() % 2) panel.limit = ChartLimit{part(random) * 1e300, "limit"};
    }
    auto svg = to_svg(chart);
    expect_inside(svg, chart);
    EXPECT_LT(svg.size(), 200000u);
    EXPECT_TRUE(trial % 10 != 0 || Decoded(png_of(svg, 1)).width == int64_t(std::ceil(chart.width)));
  }
}

TEST(Chart, NamesTheSeriesAndPointThatItRefuses) {
  for (double bad : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    auto chart = speed_and_memory();
    chart.panels[1].series[1].points[1].y = bad;
    EXPECT_NE(error_of(chart).find(
                  "[chart] series 'optimus' of panel 'peak memory (GiB)', point 1: y must be finite, got "),
              std::string::npos);
    chart = speed_and_memory();
    chart.panels[0].series[0].points[3].x = bad;
    EXPECT_NE(error_of(chart).find("series 'nested' of panel 'samples a second', point 3: x must be finite"),
              std::string::npos);
    chart = speed_and_memory();
    chart.panels[0].series[1].marks[1].x = bad;
    EXPECT_NE(error_of(chart).find("series 'optimus' of panel 'samples a second', mark 1: x must be finite"),
              std::string::npos);
    chart = speed_and_memory();
    chart.panels[1].limit->y = bad;
    EXPECT_NE(
        error_of(chart).find("limit 'memory limit 80 GiB' of panel 'peak memory (GiB)': y must be finite"),
        std::string::npos);
  }
  auto chart = speed_and_memory();
  chart.panels[0].series[0].points[0].y = 1e301;
  EXPECT_NE(error_of(chart).find("point 0: y must be within +-1e+300, got 1e+301"), std::string::npos);
  for (double x : {0.0, -1.0}) {
    chart = speed_and_memory();
    chart.panels[0].series[0].points[0].x = x;
    EXPECT_NE(error_of(chart).find("point 0: x must be above 0 on a log2 axis, got "), std::string::npos);
    chart.log2_x = false;
    EXPECT_EQ(error_of(chart), "no error");
  }
}

TEST(Chart, RefusesNoPanelsEqualNamesAndImpossibleSizes) {
  Chart empty;
  EXPECT_EQ(error_of(empty), "[chart] needs at least one panel, got none");
  auto chart = speed_and_memory();
  chart.panels[0].series[1].name = "nested";
  EXPECT_NE(error_of(chart).find("series 'nested' of panel 'samples a second' stands there twice"),
            std::string::npos);
  for (double size : {0.0, -900.0, 100.0, 10001.0, double(NAN), double(INFINITY)}) {
    chart = speed_and_memory();
    chart.width = size;
    EXPECT_NE(error_of(chart).find("[chart] width must be from 240 to 10000 pixels"), std::string::npos)
        << size;
    chart = speed_and_memory();
    chart.height = size;
    EXPECT_NE(error_of(chart).find("[chart] height must be from 160 to 10000 pixels"), std::string::npos)
        << size;
  }
}

TEST(Looks, DifferInColourMarkerAndDashTogether) {
  std::set<std::string> seen;
  for (size_t n = 0; n < 105; ++n) {
    auto look = look_of(n);
    EXPECT_TRUE(seen.insert(concat(look.colour, look.dash, look.marker)).second) << n;
  }
  for (size_t n = 0; n < 7; ++n)
    for (size_t m = 0; m < n; ++m) {
      EXPECT_NE(look_of(n).colour, look_of(m).colour);
      EXPECT_TRUE(look_of(n).marker != look_of(m).marker || look_of(n).dash != look_of(m).dash)
          << n << " " << m;
    }
}

}  // namespace
}  // namespace bigmac
