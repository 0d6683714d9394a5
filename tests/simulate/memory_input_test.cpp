#include <gtest/gtest.h>

#include "tests/simulate/memory_support.h"

namespace bigmac {
namespace {

TEST(Memory, RefusesBytesThatAreNegativeOrNotFinite) {
  auto schedule = make_schedule(nested_step(2, 1, 4, true, true));
  auto timeline = simulate(schedule, {});
  using Figure = double& (*)(Bytes&);
  const std::pair<const char*, Figure> figures[] = {
      {"parameters", [](Bytes& bytes) -> double& { return bytes.constant[1][0].bytes; }},
      {"a stage's activations", [](Bytes& bytes) -> double& { return bytes.stage[1]; }},
      {"what a stage's backward needs more", [](Bytes& bytes) -> double& { return bytes.stage_work[1]; }},
      {"what a stage's forward needs more", [](Bytes& bytes) -> double& { return bytes.forward_work[1]; }},
      {"an item's activations", [](Bytes& bytes) -> double& { return bytes.item[1]; }},
      {"what an item's backward needs more", [](Bytes& bytes) -> double& { return bytes.item_work[1]; }},
      {"what an item hands over", [](Bytes& bytes) -> double& { return bytes.item_out[1]; }},
      {"what goes between stages", [](Bytes& bytes) -> double& { return bytes.boundary; }}};
  for (const auto& [what, figure] : figures)
    for (double bad : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
      Bytes bytes{.constant = {{}, {{"parameters", 1}}},
                  .stage = {1, 1},
                  .stage_work = {1, 1},
                  .forward_work = {1, 1},
                  .item = {1, 1},
                  .item_work = {1, 1},
                  .item_out = {1, 1}};
      EXPECT_FALSE(refusal([&] { peak_memory(schedule, timeline, bytes); }));
      figure(bytes) = bad;
      for (const auto& message : {refusal([&] { peak_memory(schedule, timeline, bytes); }),
                                  refusal([&] { memory_over_time(schedule, timeline, bytes, 0); }),
                                  refusal([&] { holders_at(schedule, timeline, bytes, 0, 0); }),
                                  refusal([&] { explain_out_of_memory(schedule, timeline, bytes, 1); })}) {
        ASSERT_TRUE(message) << what << " " << bad;
        EXPECT_TRUE(contains(*message, concat("[memory] ", what, " must be a finite number of at least 0")))
            << *message;
      }
    }
  for (double bad : {-1.0, std::nan("")}) {
    auto message = refusal([&] { explain_out_of_memory(schedule, timeline, {}, bad); });
    ASSERT_TRUE(message);
    EXPECT_TRUE(contains(*message, "the limit must be")) << *message;
  }
}

TEST(Memory, RefusesListsOfAWrongLengthAndRanksThatAreNotThere) {
  auto schedule = make_schedule(nested_step(4, 1, 4, true, true));
  auto timeline = simulate(schedule, {});
  auto expect = [&](const Bytes& bytes, const std::string& text) {
    auto message = refusal([&] { peak_memory(schedule, timeline, bytes); });
    ASSERT_TRUE(message) << text;
    EXPECT_TRUE(contains(*message, text)) << *message;
  };
  std::vector<double> three(3, 1);
  expect({.constant = {{}, {}, {}}},
         "constant holders need 1 list or one for each of 4 ranks, or none, got 3");
  expect({.stage = three}, "a stage's activations needs 1 value or one for each of 4 stages, got 3");
  expect({.stage = {}}, "for each of 4 stages, got 0");
  expect({.stage_work = three}, "what a stage's backward needs more needs 1 value");
  expect({.forward_work = three}, "what a stage's forward needs more needs 1 value");
  expect({.item = three}, "an item's activations needs 1 value or one for each of 2 encoders and generators");
  expect({.item_work = three}, "what an item's backward needs more needs 1 value");
  expect({.item_out = three}, "what an item hands over needs 1 value");
  for (int rank : {-1, 4}) {
    for (const auto& message : {refusal([&] { memory_over_time(schedule, timeline, {}, rank); }),
                                refusal([&] { holders_at(schedule, timeline, {}, rank, 0); })}) {
      ASSERT_TRUE(message);
      EXPECT_TRUE(contains(*message, concat("there is no rank ", rank, "; the step has 0 to 3"))) << *message;
    }
  }
}

TEST(Memory, RefusesATimelineThatIsNotOfTheSchedule) {
  auto schedule = make_schedule(backbone_step(4, 1, 8));
  auto timeline = simulate(schedule, {});
  auto expect = [&](const Timeline& other, const std::string& text) {
    auto message = refusal([&] { peak_memory(schedule, other, {}); });
    ASSERT_TRUE(message) << text;
    EXPECT_TRUE(contains(*message, text)) << *message;
  };
  expect(simulate(make_schedule(backbone_step(3, 1, 8)), {}), "the timeline has 3 ranks, the schedule has 4");
  expect(simulate(make_schedule(step_of_base(Base::gpipe, 4, 1, 8)), {}),
         "rank 0, position 4: ran backbone F chunk 0 microbatch 4 where the schedule has backbone B chunk 0 "
         "microbatch 0");
  auto shorter = timeline;
  shorter.rows[2].operators.pop_back();
  expect(shorter, "the timeline of rank 2 has 15 operators, the schedule has 16");
  auto back = timeline;
  std::swap(back.rows[1].operators[3].start, back.rows[1].operators[3].end);
  expect(back, "rank 1, position 3");
  auto no_number = timeline;
  no_number.rows[3].operators[0].start = std::nan("");
  expect(no_number, "rank 3, position 0");
  auto missing = make_table(backbone_step(1, 1, 1), {{backbone_backward(0, 0)}});
  Timeline ran{.start = 0, .end = 1, .rows = {{{{backbone_backward(0, 0), 0, 1}}, {}}}};
  auto message = refusal([&] { peak_memory(missing, ran, {.stage = {1}}); });
  ASSERT_TRUE(message);
  EXPECT_TRUE(contains(*message, "misses backbone F chunk 0 microbatch 0")) << *message;
}

}  // namespace
}  // namespace bigmac
