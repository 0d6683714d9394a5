#include "bigmac/timeline/picture.h"

#include <gtest/gtest.h>

#include "bigmac/schedule/make.h"
#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/explain.h"
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

TEST(Picture, DrawsAPartOfAStep) {
  Drawn drawn;
  Recording recording{.name = {}, .schedule = drawn.schedule, .timeline = drawn.timeline};
  auto boxes = [&](double from, double to) {
    auto svg = to_svg(recording, {.from = from, .to = to});
    return count(svg, "<rect ") - 1 - 2 - 1 - count(svg, "LLM") - count(svg, "encoder") -
           count(svg, "generator");
  };
  EXPECT_EQ(boxes(0, 6), 6u);
  EXPECT_EQ(boxes(0, 1), 1u);
  EXPECT_EQ(boxes(0.5, 1.5), 2u);
  EXPECT_EQ(boxes(5, 6), 1u);
  for (auto [from, to] : {std::pair{-1.0, 2.0}, {2.0, 2.0}, {3.0, 2.0}, {0.0, 7.0}})
    EXPECT_EQ(refusal([&, from = from, to = to] { to_svg(recording, {.from = from, .to = to}); }),
              concat("[picture] from ", from, " to ", to, " is no part of a step of 6"));
}

TEST(Picture, OutlinesTheCriticalPathAndShowsTransfersAndWaitsForOrder) {
  auto schedule = make_schedule(step_of_base(Base::one_f_one_b, 2, 1, 2));
  Recording recording{.name = {}, .schedule = schedule, .timeline = simulate(schedule, Costs{})};
  auto plain = to_svg(recording);
  EXPECT_EQ(count(plain, "stroke=\"#000\""), 0u);
  EXPECT_EQ(count(to_svg(recording, {.critical_path = true}), "stroke=\"#000\""),
            critical_path(schedule, recording.timeline).size());
  EXPECT_EQ(count(plain, "transfer"), 0u);
  auto op = recording.timeline.rows[0].operators[0].op;
  recording.timeline.rows[0].intervals = {
      {Spent::transfer, 1, op, 3, 3.5}, {Spent::order, 1, op, 3.5, 3.6}, {Spent::wait, 1, op, 3.6, 4}};
  auto told = to_svg(recording);
  EXPECT_EQ(count(told, ">transfer<"), 1u);
  EXPECT_EQ(count(told, ">order of messages<"), 1u);
  EXPECT_EQ(count(told, "<rect "), count(plain, "<rect ") + 4);
}

// What is narrower than a pixel runs together, and what can be seen is still there.
TEST(Picture, OfManyOperatorsIsNoLargerThanWhatCanBeSeen) {
  auto schedule = make_schedule(step_of_base(Base::one_f_one_b, 4, 1, 20000));
  auto timeline = simulate(schedule, Costs{});
  Recording recording{.name = {}, .schedule = schedule, .timeline = timeline};
  auto svg = to_svg(recording);
  EXPECT_LT(count(svg, "<rect "), 4u * 3000);
  EXPECT_GT(count(svg, "<rect "), 4u * 200);
  auto part = to_svg(recording, {.from = 0, .to = 30});
  EXPECT_GT(count(part, "<text "), 20u);
}

TEST(Picture, HasAnAxisOfTime) {
  Drawn drawn;
  Recording recording{.name = {}, .schedule = drawn.schedule, .timeline = drawn.timeline};
  auto svg = to_svg(recording);
  for (int time = 0; time <= 6; ++time) EXPECT_TRUE(contains(svg, concat(">", time, "</text>"))) << time;
  EXPECT_FALSE(contains(svg, ">ms<"));
  recording.measured = true;
  EXPECT_TRUE(contains(to_svg(recording), ">s<"));
  for (auto& row : recording.timeline.rows)
    for (auto& slice : row.operators) slice.start *= 0.01, slice.end *= 0.01;
  recording.timeline.end = 0.06;
  svg = to_svg(recording);
  EXPECT_TRUE(contains(svg, ">ms<"));
  EXPECT_TRUE(contains(svg, ">60<"));
}

}  // namespace
}  // namespace bigmac
