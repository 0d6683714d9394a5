#include "bigmac/timeline/picture.h"

#include <gtest/gtest.h>

#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// One operator of each kind, a unit of time each, on two ranks.
struct Drawn {
  Schedule schedule;
  Timeline timeline{.start = 0, .end = 6, .rows = std::vector<Timeline::Row>(2)};

  Drawn() {
    Step step = nested(step_of_base(Base::zb_v, 2, 2, 4), true, true);
    schedule = make_schedule(step);
    auto& first = timeline.rows[0].operators;
    for (auto op : {encoder_forward(0), backbone_forward(0, 3), backbone(Phase::input, 1, 3),
                    backbone(Phase::weight, 1, 3), encoder_backward(0)})
      first.push_back({op, double(first.size()), double(first.size()) + 1});
    timeline.rows[1].operators = {{generate(5), 4, 6}};
  }
};

TEST(Picture, DrawsABoxForEveryOperatorAndALegendOfTheKindsThatRan) {
  Drawn drawn;
  auto svg = to_svg(drawn.schedule, drawn.timeline, "P=2");
  EXPECT_EQ(svg.find("<svg "), 0u);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  EXPECT_EQ(count(svg, "<rect "), 1 + 2 + 6 + 7u);  // page, rows, operators, legend
  for (const char* kind : {"LLM forward", "LLM backward", "LLM weight gradient", "encoder forward",
                           "encoder backward", "generator", "rank 0", "rank 1", "idle"})
    EXPECT_EQ(count(svg, kind), 1u) << kind;
  // Every kind has a colour of its own, in its box and in the legend.
  for (const char* fill : {"#56b4e9", "#009e73", "#0072b2", "#f0e442", "#e69f00", "#cc79a7"})
    EXPECT_EQ(count(svg, concat("fill=\"", fill)), 2u) << fill;
  EXPECT_EQ(count(svg, "fill-opacity"), 2u);  // the second chunk's
}

TEST(Picture, LeavesKindsThatDidNotRunOutOfTheLegend) {
  Drawn drawn;
  drawn.timeline.rows[1].operators.clear();
  EXPECT_FALSE(contains(to_svg(drawn.schedule, drawn.timeline, ""), "generator"));
}

TEST(Picture, EscapesItsTitle) {
  Drawn drawn;
  auto svg = to_svg(drawn.schedule, drawn.timeline, "a < b & c");
  EXPECT_TRUE(contains(svg, "a &lt; b &amp; c"));
  EXPECT_FALSE(contains(svg, "a < b"));
}

TEST(Picture, OfAnEmptyTimelineIsStillAPicture) {
  Drawn drawn;
  drawn.timeline = {};
  auto svg = to_svg(drawn.schedule, drawn.timeline, "nothing");
  EXPECT_TRUE(contains(svg, "nothing"));
  EXPECT_FALSE(contains(svg, "nan"));
  EXPECT_FALSE(contains(svg, "inf"));
}

}  // namespace
}  // namespace bigmac
