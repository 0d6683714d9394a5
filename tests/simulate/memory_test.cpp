#include "bigmac/simulate/memory.h"

#include <gtest/gtest.h>

#include <chrono>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/spread.h"
#include "tests/simulate/memory_support.h"

namespace bigmac {
namespace {

TEST(Memory, IsWhatAllThatIsHeldAddsUpToAtEveryMoment) {
  Random random(kSeed);
  std::map<Arrangement, int> seen;
  for (int round = 0; round < 560; ++round) {
    Arrangement arrangement = kArrangements[round % 7];
    auto schedule = random_table(random, arrangement, {.modules = {{1, 2}}});
    if (!schedule || schedule->operators.size() > 300) continue;
    ++seen[arrangement];
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(schedule->step)));
    // Sometimes operators take no time at all, and much happens at the same moment.
    Costs costs = integer(random, 0, 3) == 0 ? Costs{.forward = {1}, .backward = {1}, .weight = {0}}
                                             : random_costs_of(random, schedule->step, 0);
    auto timeline = random_timeline(random, *schedule, costs);
    Bytes bytes = random_bytes(random, schedule->step);
    MemoryReference reference(*schedule, timeline, bytes);
    auto peaks = peak_memory(*schedule, timeline, bytes);
    ASSERT_EQ(int(peaks.size()), schedule->ranks());
    for (int rank = 0; rank < schedule->ranks(); ++rank) {
      auto points = memory_over_time(*schedule, timeline, bytes, rank);
      ASSERT_FALSE(points.empty());
      EXPECT_EQ(points[0].time, timeline.start);
      size_t point = 0;
      double peak = 0;
      for (double time : reference.moments(rank)) {
        while (point + 1 < points.size() && points[point + 1].time <= time) ++point;
        double expected = reference.at(rank, time);
        EXPECT_NEAR(points[point].bytes, expected, 1e-7);
        peak = std::max(peak, expected);
      }
      EXPECT_EQ(point + 1, points.size());
      for (size_t p = 1; p < points.size(); ++p) EXPECT_GT(points[p].time, points[p - 1].time);
      const auto& memory = peaks[size_t(rank)];
      EXPECT_NEAR(memory.peak, peak, 1e-7);
      EXPECT_NEAR(memory.constant,
                  bytes.constant[size_t(rank)][0].bytes + bytes.constant[size_t(rank)][1].bytes, 1e-9);
      EXPECT_NEAR(reference.at(rank, memory.peak_time), peak, 1e-7);
      for (double time : reference.moments(rank)) {
        if (time >= memory.peak_time) break;
        EXPECT_LT(reference.at(rank, time), peak);
      }
      std::optional<Operator> runs;
      for (const auto& slice : timeline.rows[size_t(rank)].operators)
        if (slice.start <= memory.peak_time && memory.peak_time < slice.end) runs = slice.op;
      EXPECT_EQ(memory.at, runs);
    }
    if (HasFailure()) return;
  }
  for (auto arrangement : kArrangements) EXPECT_GT(seen[arrangement], 20) << name(arrangement);
}

TEST(Memory, HoldersAddUpToWhatIsHeld) {
  Random random(kSeed);
  int checked = 0;
  for (int round = 0; round < 210; ++round) {
    auto schedule = random_table(random, kArrangements[round % 7], {.modules = {{1, 2}}});
    if (!schedule) continue;
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(schedule->step)));
    auto timeline = random_timeline(random, *schedule, random_costs_of(random, schedule->step, 0));
    Bytes bytes = random_bytes(random, schedule->step);
    for (int rank = 0; rank < schedule->ranks(); ++rank) {
      auto points = memory_over_time(*schedule, timeline, bytes, rank);
      for (int draw = 0; draw < 10; ++draw) {
        const auto& point = points[size_t(integer(random, 0, int64_t(points.size()) - 1))];
        auto holders = holders_at(*schedule, timeline, bytes, rank, point.time);
        double sum = 0;
        std::set<std::string> names;
        for (size_t i = 0; i < holders.size(); ++i) {
          sum += holders[i].bytes;
          names.insert(holders[i].what);
          EXPECT_GT(holders[i].bytes, 0);
          if (i > 0) {
            EXPECT_LE(holders[i].bytes, holders[i - 1].bytes);
          }
        }
        EXPECT_EQ(names.size(), holders.size());
        EXPECT_NEAR(sum, point.bytes, 1e-7);
        ++checked;
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 1000);
}

TEST(Memory, CountsChunkForwardsAndItemsAsPeakLiveDoes) {
  Random random(kSeed);
  int compared = 0;
  for (int round = 0; round < 700; ++round) {
    auto schedule = random_table(random, kArrangements[round % 7], {.modules = {{1, 2}}});
    if (!schedule) continue;
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(schedule->step)));
    auto timeline = random_timeline(random, *schedule, random_costs_of(random, schedule->step, 0.01));
    auto live = peak_live(*schedule);
    auto stages = peak_memory(*schedule, timeline, {.stage = {1}});
    for (size_t rank = 0; rank < live.size(); ++rank)
      EXPECT_EQ(stages[rank].peak, double(live[rank].in_flight));
    if (schedule->shares.list.empty()) continue;
    // peak_live counts in the largest share that a rank has of a spread unit.
    auto unit = unit_sizes(schedule->step, spread(schedule->step));
    for (size_t n = 0; n < schedule->step.modules.size(); ++n) {
      Bytes bytes{.item = std::vector<double>(schedule->step.modules.size(), 0)};
      bytes.item[n] = 1;
      auto items = peak_memory(*schedule, timeline, bytes);
      for (size_t rank = 0; rank < live.size(); ++rank)
        EXPECT_NEAR(items[rank].peak, live[rank].units[n] * unit[n], 1e-9);
      ++compared;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, 300);
}

TEST(Memory, Of1f1bIsOneMicrobatchLessOnEachRank) {
  auto schedule = make_schedule(backbone_step(8, 1, 16));
  auto timeline = simulate(schedule, {});
  Bytes bytes{.constant = {{{"parameters", 10}}}, .stage = {2}};
  auto memory = peak_memory(schedule, timeline, bytes);
  for (size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(memory[rank].constant, 10);
    EXPECT_EQ(memory[rank].peak, 10 + 2.0 * double(8 - rank));
    EXPECT_EQ(memory[rank].at, backbone_forward(0, 7 - int64_t(rank)));
    EXPECT_EQ(memory[rank].peak_time, 7);  // the last warm-up forwards all start together
  }
}

// A split backward keeps the activations, and what recompute brought back, until the weight gradient.
TEST(Memory, OfASplitBackwardIsHeldToTheWeightGradient) {
  Step step = step_of_base(Base::zb_h1, 1, 1, 1);
  auto schedule = make_table(
      step, {{backbone_forward(0, 0), backbone(Phase::input, 0, 0), backbone(Phase::weight, 0, 0)}});
  auto points = memory_over_time(schedule, simulate(schedule, {}),
                                 {.stage = {10}, .stage_work = {5}, .forward_work = {2}}, 0);
  std::vector<std::pair<double, double>> found;
  found.reserve(points.size());
  for (const auto& point : points) found.emplace_back(point.time, point.bytes);
  EXPECT_EQ(found, (std::vector<std::pair<double, double>>{{0, 12}, {1, 15}, {3, 0}}));
}

double peak_of_items(Arrangement arrangement, int64_t microbatches) {
  Step step = nested_step(4, 1, microbatches, true, false);
  step.arrangement = arrangement;
  Costs costs{.modules = {{0.5, 1}}};
  auto schedule = make_schedule(step, costs);
  double peak = 0;
  for (const auto& memory :
       peak_memory(schedule, simulate(schedule, costs), {.stage = {1}, .item = {1}, .item_out = {0.1}}))
    peak = std::max(peak, memory.peak);
  return peak;
}

TEST(Memory, StaysFlatWithNestingAndGrowsWithTheMicrobatchesElsewhere) {
  double flat = peak_of_items(Arrangement::nested, 16);
  for (int64_t microbatches : {32, 64, 128, 256}) {
    EXPECT_DOUBLE_EQ(peak_of_items(Arrangement::nested, microbatches), flat) << "M=" << microbatches;
    for (auto arrangement : {Arrangement::three_phase, Arrangement::optimus})
      EXPECT_GT(peak_of_items(arrangement, microbatches),
                peak_of_items(arrangement, microbatches / 2) + double(microbatches) / 16)
          << name(arrangement) << " M=" << microbatches;
  }
}

// P=2 M=2, each rank encodes one image: activations of 3, an output and a gradient of 4. Outputs lie on rank
// 0 from 1 to the end of their forwards there, gradients from the end of rank 0's backwards with the encoder.
// Between the stages 7: on rank 1 until the forward has ended, on rank 0 until the backward has.
TEST(Memory, OfWhatIsHandedOverLiesWithTheReceiver) {
  Step step = nested_step(2, 1, 2, true, false);
  step.modules[0].items = {{0, 1}, {1, 1}};
  auto rows = std::vector<std::vector<Operator>>{
      {encoder_forward(0), backbone_forward(0, 0), backbone_forward(0, 1), backbone_backward(0, 0),
       backbone_backward(0, 1), encoder_backward(0)},
      {encoder_forward(1), backbone_forward(0, 0), backbone_backward(0, 0), backbone_forward(0, 1),
       backbone_backward(0, 1), encoder_backward(1)}};
  step.base = Base::custom;
  auto schedule = make_table(step, rows, spread(step));
  Costs costs{.modules = {{1, 1}}};
  auto timeline = simulate(schedule, costs);
  // EF 0-1 on both; rank 0: F 1-2, 2-3, B 5-7, 8-10, EB 10-11; rank 1: F 2-3, B 3-5, F 5-6, B 6-8, EB 10-11.
  Bytes bytes{.item = {3}, .item_out = {4}, .boundary = 7};
  auto points_of = [&](int rank) {
    std::vector<std::pair<double, double>> points;
    for (const auto& point : memory_over_time(schedule, timeline, bytes, rank))
      points.push_back({point.time, point.bytes});
    return points;
  };
  using Points = std::vector<std::pair<double, double>>;
  EXPECT_EQ(points_of(0),
            (Points{{0, 3}, {1, 11}, {2, 7}, {3, 3}, {5, 10}, {7, 7}, {8, 14}, {10, 7}, {11, 0}}));
  EXPECT_EQ(points_of(1), (Points{{0, 3}, {2, 10}, {6, 3}, {10, 7}, {11, 0}}));
}

// EF 0-1 on both ranks, then the backbone as above: rank 0 F 1-2, 2-3, B 5-7, 8-10. Of activations 3 an item
// while the encoder's forward runs, of its output 4 on rank 0 until the microbatch's forward has ended there.
TEST(Memory, OfAFrozenEncoderIsItsOutputAloneOnceItHasRun) {
  Step step = nested_step(2, 1, 2, true, false);
  step.modules[0].trained = false;
  auto schedule = make_schedule(step);
  auto timeline = simulate(schedule, {.modules = {{1, 1}}});
  EXPECT_EQ(timeline.length(), 10);
  Bytes bytes{.item = {3}, .item_work = {100}, .item_out = {4}};
  auto points_of = [&](int rank) {
    std::vector<std::pair<double, double>> points;
    for (const auto& point : memory_over_time(schedule, timeline, bytes, rank))
      points.push_back({point.time, point.bytes});
    return points;
  };
  using Points = std::vector<std::pair<double, double>>;
  EXPECT_EQ(points_of(0), (Points{{0, 3}, {1, 8}, {2, 4}, {3, 0}}));
  EXPECT_EQ(points_of(1), (Points{{0, 3}, {1, 0}}));
  auto holders = holders_at(schedule, timeline, bytes, 0, 1.5);
  EXPECT_EQ(holders, (std::vector<Holder>{{"image outputs", 8}}));
}

// (M * V + P - 1)(f + b) for equal chunks, and the same memory as few microbatches take.
TEST(LongAccumulation, IsSimulatedInFullAndQuickly) {
  constexpr int64_t kMicrobatches = 32768;
  for (int64_t chunks : {1, 2}) {
    Bytes bytes{.stage = {1}, .boundary = 0.125};
    auto few = make_schedule(backbone_step(8, chunks, 64));
    auto expected = peak_memory(few, simulate(few, {}), bytes);
    auto schedule = make_schedule(backbone_step(8, chunks, kMicrobatches));
    auto began = std::chrono::steady_clock::now();
    auto timeline = simulate(schedule, {});
    auto memory = peak_memory(schedule, timeline, bytes);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    EXPECT_EQ(timeline.length(), double(kMicrobatches * chunks + 8 - 1) * 3);
    for (size_t rank = 0; rank < 8; ++rank) EXPECT_EQ(memory[rank].peak, expected[rank].peak);
    EXPECT_LT(took.count(), 5) << "takes some hundredths of a second in a release build";
  }
  Step step = nested_step(8, 1, kMicrobatches, true, false);
  Costs costs{.modules = {{0.5, 1}}};
  auto schedule = make_schedule(step, costs);
  auto timeline = simulate(schedule, costs, Links{});
  EXPECT_EQ(timeline.length(), double(kMicrobatches + 8 - 1) * 3 + double(kMicrobatches) / 8 * 1.5);
  for (const auto& memory : peak_memory(schedule, timeline, {.item = {1}})) EXPECT_LE(memory.peak, 3);
}

}  // namespace
}  // namespace bigmac
