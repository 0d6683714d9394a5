#include "bigmac/measured/replay.h"

#include "bigmac/schedule/base.h"
#include "bigmac/simulate/simulate.h"
#include "tests/measured/support.h"

namespace bigmac {
namespace {

// A step that ran `schedule` with these durations and `latency` seconds a message.
template <class Duration>
MeasuredStep measured(Schedule schedule, const Duration& duration, double latency = 0) {
  MeasuredStep step;
  Oracle oracle(schedule);
  auto starts = oracle.starts(duration, latency);
  step.timeline.end = starts.back();
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto& row = step.timeline.rows.emplace_back();
    for (int64_t n = schedule.row_begin[size_t(rank)]; n < schedule.row_begin[size_t(rank) + 1]; ++n) {
      const auto& op = schedule.operators[size_t(n)];
      row.operators.push_back({op, starts[size_t(n)], starts[size_t(n)] + duration(rank, op)});
    }
  }
  step.rank_steps.assign(step.timeline.rows.size(), starts.back());
  if (is_v_shaped(schedule.step.base))
    for (int64_t s = 0; s < schedule.step.ranks * schedule.step.chunks; ++s)
      schedule.step.stage_ranks.push_back(int32_t(rank_in_words(schedule.step, s)));
  schedule.step.base = Base::custom;
  schedule.units.clear();
  step.schedule = std::move(schedule);
  return step;
}

// Every operator as long as a draw of its own, the same for the same stage, phase and microbatch.
struct Drawn {
  uint64_t seed;
  double operator()(int rank, const Operator& op) const {
    uint64_t id = ((uint64_t(rank) * 8 + op.chunk) * 8 + uint64_t(op.phase)) * 4 + uint64_t(op.module);
    Random random(seed * 1000003 + id * 7919 + op.index);
    return uniform(random, 0.5, 2);
  }
};

Step random_step(Random& random) {
  Base base = kBases[size_t(integer(random, 0, 5))];
  auto chunks = chunks_of(base, 3);
  return step_of_base(base, integer(random, 1, 6),
                      chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))], integer(random, 1, 16));
}

TEST(Replay, OfEachDurationIsTheStepThatHadNoGaps) {
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    auto step = random_step(random);
    if (integer(random, 0, 1) == 0) {
      step = nested(step, true, integer(random, 0, 1) == 0);
      for (auto& module : step.modules) {
        module.items = random_items(random, step.microbatches, 1, 3);
        module.trained = module.kind == Module::generator || integer(random, 0, 2) > 0;
      }
    }
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, ": ", describe(step)));
    double latency = uniform(random, 0, 0.5);
    auto run = measured(make_schedule(step), Drawn{uint64_t(round)}, latency);
    EXPECT_NEAR(replay(run, Statistic::each, latency).length(), run.length(), 1e-9);
    EXPECT_LE(replay(run, Statistic::each).length(), run.length() + 1e-9);
    auto with_gaps = run;
    for (double& time : with_gaps.rank_steps) time *= 1.25;
    EXPECT_NEAR(error_of(replay(with_gaps, Statistic::each, latency).length(), with_gaps), -0.2, 1e-9);
  }
}

TEST(Replay, OfEachDurationInAnotherBaseIsThatBasesTableWithThem) {
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    auto step = random_step(random), other = step;
    Base base = kBases[size_t(integer(random, 0, 5))];
    auto chunks = chunks_of(base, 3);
    other.base = base;
    if (base == Base::dualpipe_v || base == Base::zb_v || is_v_shaped(step.base)) continue;
    other.chunks = step.chunks;
    if (std::find(chunks.begin(), chunks.end(), other.chunks) == chunks.end()) continue;
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, ": ", describe(step), " as ", name(base)));
    Drawn drawn{uint64_t(round)};
    auto run = measured(make_schedule(step), drawn);
    auto found = replay_as(run, other, Statistic::each);
    EXPECT_EQ(found.statistic, Statistic::each);
    // A backward that was measured whole is halved, and one in halves is their sum.
    auto in_halves = [](Base b) { return b == Base::zb_h1; };
    auto expected = [&](int rank, const Operator& op) {
      if (op.phase == Phase::forward || in_halves(base) == in_halves(step.base)) return drawn(rank, op);
      if (in_halves(base)) return drawn(rank, backbone_backward(op.chunk, op.index)) / 2;
      return drawn(rank, backbone(Phase::input, op.chunk, op.index)) +
             drawn(rank, backbone(Phase::weight, op.chunk, op.index));
    };
    EXPECT_NEAR(found.timeline.length(), Oracle(make_schedule(other)).starts(expected).back(), 1e-9);
  }
}

// Twice or three times as many chunks: each stage in so many equal parts, in the model's order.
TEST(Replay, CutsStagesInEqualParts) {
  for (int64_t parts : {2, 3})
    for (Base base : {Base::interleaved, Base::zb_v, Base::dualpipe_v, Base::gpipe}) {
      if (is_v_shaped(base) && parts != 2) continue;
      auto other = step_of_base(base, 4, parts, 12);
      SCOPED_TRACE(describe(other));
      Drawn drawn{7};
      auto run = measured(make_schedule(backbone_step(4, 1, 12)), drawn);
      auto found = replay_as(run, other, Statistic::each);
      auto part = [&](int rank, const Operator& op) {
        auto from = int(stage_in_words(other, rank, op.chunk) / parts);
        if (op.phase == Phase::forward) return drawn(from, backbone_forward(0, op.index)) / double(parts);
        double backward = drawn(from, backbone_backward(0, op.index)) / double(parts);
        return op.phase == Phase::backward ? backward : backward / 2;
      };
      EXPECT_NEAR(found.timeline.length(), Oracle(make_schedule(other)).starts(part).back(), 1e-9);
      expect_parts(found.notes.at(0), {concat("cut into ", parts, " equal parts")});
    }
}

TEST(Replay, OfEqualTimesTakesThePublishedSteps) {
  auto run = measured(make_schedule(backbone_step(4, 1, 8)),
                      [](int, const Operator& op) { return op.phase == Phase::forward ? 1.0 : 2.0; });
  auto as = [&](Base base, int64_t chunks, int64_t microbatches) {
    return replay_as(run, step_of_base(base, 4, chunks, microbatches), Statistic::each).timeline.length();
  };
  EXPECT_EQ(replay(run, Statistic::each).length(), 33);
  EXPECT_EQ(replay(run, Statistic::each, 0.5).length(), 41);
  EXPECT_EQ(closed_form(run).even, 33);
  EXPECT_EQ(*closed_form(run).slowest, 33);
  EXPECT_EQ(as(Base::one_f_one_b, 1, 64), 201);
  EXPECT_EQ(as(Base::zb_h1, 1, 8), 3 * 8 + 3);
  EXPECT_EQ(as(Base::interleaved, 2, 8), (8 * 2 + 3) * 1.5);
}

TEST(Replay, FallsBackToMeansWhereOtherOperatorsWereMeasured) {
  Drawn drawn{3};
  auto run = measured(make_schedule(nested_step(3, 1, 6, true, false)), drawn);
  auto more = replay_as(run, backbone_step(3, 1, 9), Statistic::each);
  EXPECT_EQ(more.statistic, Statistic::mean);
  expect_parts(more.notes.at(0), {"other microbatches", "mean times"});
  auto costs = fit_costs(run, Statistic::mean);
  costs.modules.clear();
  EXPECT_NEAR(more.timeline.length(), simulate(base_table(backbone_step(3, 1, 9)), costs).length(), 1e-9);
  auto filled = step_like(run);
  filled.arrangement = Arrangement::nested_fill;
  auto other = replay_as(run, filled, Statistic::each);
  EXPECT_EQ(other.statistic, Statistic::mean);
  costs = fit_costs(run, Statistic::mean);
  EXPECT_NEAR(other.timeline.length(), simulate(make_schedule(filled, costs), costs).length(), 1e-9);
}

TEST(Replay, RefusesStepsThatWereNotMeasured) {
  auto run = measured(make_schedule(nested_step(4, 2, 8, true, false)), Drawn{1});
  auto refused = [&](const std::function<void(Step&)>& how) {
    Step step = step_like(run);
    how(step);
    return refusal([&] { replay_as(run, step, Statistic::each); }).value_or("");
  };
  EXPECT_EQ(refused([](Step&) {}), "");
  expect_parts(refused([](Step& s) { s.ranks = 8; }), {"measured on P=4 ranks, got P=8"});
  expect_parts(refused([](Step& s) { s.chunks = 3; }), {"V=3 is no multiple of the V=2", "nearest: 4"});
  expect_parts(refused([](Step& s) { s.chunks = 1, s.base = Base::one_f_one_b; }),
               {"V=1 is no multiple", "nearest: 2"});
  expect_parts(refused([](Step& s) { s.modules[0].name = "audio"; }), {"must be the measured ones", "M=8"});
  expect_parts(refused([](Step& s) { s.modules[0].items.pop_back(); }), {"must be the measured ones"});
  expect_parts(refused([](Step& s) { s.arrangement = Arrangement::disttrain; }),
               {"disttrain has stages of its own"});
  expect_parts(refused([](Step& s) { s.group = 1; }), {"[interleaved]", "G=1"});
}

TEST(Replay, KnowsTheBaseThatRan) {
  for (Base base : kBases)
    for (int64_t ranks : {2, 4}) {
      auto step = step_of_base(base, ranks, chunks_of(base, 2).back(), 12);
      SCOPED_TRACE(describe(step));
      auto schedule = make_schedule(step);
      auto run = measured(schedule, Drawn{5});
      auto found = base_of(run);
      ASSERT_TRUE(found);
      // With V=2 GPipe's order may be another base's too, but no other is.
      EXPECT_EQ(rows_of(base_table(*found)), rows_of(schedule));
    }
  auto run = measured(make_schedule(backbone_step(3, 1, 6)), Drawn{5});
  std::swap(run.schedule.operators[0], run.schedule.operators[1]);
  EXPECT_FALSE(base_of(run));
}

// The parts add up to the step, and the operators to the replay where nothing else lies on another path.
TEST(Replay, DividesTheCriticalPath) {
  Random random(kSeed);
  for (int round = 0; round < 100; ++round) {
    auto step = random_step(random);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, ": ", describe(step)));
    auto run = measured(make_schedule(step), Drawn{uint64_t(round)}, uniform(random, 0, 0.3));
    auto parts = path_parts(run);
    EXPECT_NEAR(parts.operators + parts.rows + parts.messages + parts.ends, run.length(), 1e-9);
    EXPECT_NEAR(parts.ends, 0, 1e-9);
    EXPECT_LE(parts.operators, replay(run, Statistic::each).length() + 1e-9);
    auto without = measured(make_schedule(step), Drawn{uint64_t(round)});
    EXPECT_NEAR(path_parts(without).operators, without.length(), 1e-9);
  }
}

class PrimusReplay : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(kPrimus)) GTEST_SKIP() << "no data folder " << kPrimus;
    measurement_ = read_measured({kPrimus});
  }
  Measurement measurement_;
};

// FACTS: 3204.3 ms, -1.04 %; medians -2.1 %; the closed form -7.2 %.
TEST_F(PrimusReplay, OfIteration7IsWithinItsPublishedErrors) {
  const auto& step = step_named(measurement_, "7");
  auto each = replay(step, Statistic::each);
  EXPECT_NEAR(each.length() * 1e3, 3204.3, 0.05);
  EXPECT_NEAR(error_of(each.length(), step), -0.0104, 5e-5);
  EXPECT_LT(std::abs(error_of(each.length(), step)), 0.015);
  EXPECT_NEAR(error_of(replay(step, Statistic::median).length(), step), -0.021, 5e-4);
  EXPECT_NEAR(error_of(replay(step, Statistic::mean).length(), step), -0.021, 5e-4);
  EXPECT_NEAR(error_of(closed_form(step).even, step), -0.072, 5e-4);
  auto as = replay_as(step, step_of_base(Base::one_f_one_b, 8, 1, 16), Statistic::each);
  EXPECT_EQ(as.timeline.length(), each.length());
}

// The path's operators are the replay; 22.8 ms lie between operators of a rank and 10.1 between ranks.
TEST_F(PrimusReplay, OfIteration7LeavesOutTheGapsOfItsCriticalPath) {
  const auto& step = step_named(measurement_, "7");
  auto parts = path_parts(step);
  EXPECT_NEAR(parts.operators, replay(step, Statistic::each).length(), 1e-9);
  EXPECT_NEAR(parts.operators + parts.rows + parts.messages + parts.ends, step.length(), 1e-9);
  EXPECT_NEAR(parts.rows * 1e3, 22.8, 0.1);
  EXPECT_NEAR(parts.messages * 1e3, 10.1, 0.1);
}

TEST_F(PrimusReplay, IsWithin1Point5PercentForEveryIterationBehindTheWarmup) {
  for (const auto* step : behind_warmup(measurement_)) {
    double error = error_of(replay(*step, Statistic::each).length(), *step);
    EXPECT_LT(std::abs(error), 0.015) << step->name;
    EXPECT_LT(error, 0) << step->name;  // nothing but operators takes time
  }
  const auto& warmup = measurement_.steps[0];
  EXPECT_LT(error_of(replay(warmup, Statistic::each).length(), warmup), -0.1);
}

}  // namespace
}  // namespace bigmac
