#include "bigmac/measured/clocks.h"

#include "bigmac/simulate/simulate.h"
#include "tests/measured/support.h"

namespace bigmac {
namespace {

MeasuredStep simulated(const Step& step, const Costs& costs) {
  MeasuredStep measured;
  measured.schedule = make_schedule(step, costs);
  measured.timeline = simulate(measured.schedule, costs);
  measured.rank_steps.assign(size_t(step.ranks), measured.timeline.length());
  return measured;
}

void shift(MeasuredStep& step, const std::vector<double>& offsets) {
  for (size_t r = 0; r < offsets.size(); ++r)
    for (auto& slice : step.timeline.rows[r].operators) {
      slice.start += offsets[r];
      slice.end += offsets[r];
    }
}

Step random_step(Random& random) {
  Base base = kBases[size_t(integer(random, 0, 5))];
  return step_of_base(base, integer(random, 2, 7), chunks_of(base, 2).back(), integer(random, 1, 12));
}

TEST(Clocks, ThatAreOneFit) {
  Random random(kSeed);
  for (int round = 0; round < 50; ++round) {
    auto step = random_step(random);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, ": ", describe(step)));
    auto run = simulated(step, Costs{.latency = 0.25});
    auto clocks = compare_clocks(run);
    EXPECT_TRUE(clocks.comparable());
    EXPECT_GT(clocks.messages, 0);
    EXPECT_NEAR(clocks.least_gap, 0.25, 1e-9);
    EXPECT_FALSE(clocks.offsets);
  }
}

// Whatever the shift is, either nothing shows it, or it is mended to within what messages leave open.
TEST(Clocks, ThatAreShiftedAreMended) {
  Random random(kSeed);
  int mended = 0;
  for (int round = 0; round < 100; ++round) {
    auto step = random_step(random);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, ": ", describe(step)));
    auto run = simulated(step, Costs{.latency = uniform(random, 0, 0.5)});
    std::vector<double> offsets;
    for (int64_t r = 0; r < step.ranks; ++r) offsets.push_back(uniform(random, -1000, 1000));
    shift(run, offsets);
    auto clocks = compare_clocks(run);
    if (clocks.comparable()) continue;
    EXPECT_LT(clocks.least_gap, 0);
    ASSERT_TRUE(clocks.offsets);
    EXPECT_EQ((*clocks.offsets)[0], 0);
    auto timeline = run.timeline;
    shift_rows(run, *clocks.offsets);
    EXPECT_TRUE(compare_clocks(run).comparable());
    EXPECT_NEAR(run.timeline.rows[1].operators[0].start - timeline.rows[1].operators[0].start,
                (*clocks.offsets)[1], 1e-6);
    ++mended;
  }
  EXPECT_GT(mended, 80);
}

TEST(Clocks, OfMessagesWithTheSameLatencyBothWaysAreMendedExactly) {
  auto run = simulated(backbone_step(4, 1, 8), Costs{.latency = 0.5});
  shift(run, {0, 3, -70, 1000});
  auto clocks = compare_clocks(run);
  ASSERT_TRUE(clocks.offsets);
  const double back[] = {0, -3, 70, -1000};
  for (size_t r = 0; r < 4; ++r) EXPECT_NEAR((*clocks.offsets)[r], back[r], 0.5) << r;
}

TEST(Clocks, ThatDriftCannotBeMended) {
  auto run = simulated(backbone_step(3, 1, 12), Costs{});
  for (auto& slice : run.timeline.rows[1].operators) {
    slice.start *= 1.5;
    slice.end *= 1.5;
  }
  auto clocks = compare_clocks(run);
  EXPECT_GT(clocks.conflicts, 0);
  EXPECT_FALSE(clocks.offsets);
}

TEST(Clocks, NameTheLatestMessage) {
  auto run = simulated(backbone_step(2, 1, 2), Costs{});
  // Rank 1's clock is 1.5 late against rank 0's: its backward of 0 ends at 5.5, and is needed at 4.
  shift(run, {0, 1.5});
  auto clocks = compare_clocks(run);
  EXPECT_EQ(clocks.messages, 4);
  EXPECT_EQ(clocks.conflicts, 2);
  EXPECT_NEAR(clocks.least_gap, -1.5, 1e-9);
  EXPECT_EQ(clocks.from.rank, 1);
  EXPECT_EQ(clocks.to.rank, 0);
  EXPECT_EQ(clocks.to.op.phase, Phase::backward);
}

TEST(Clocks, OfOneRankHaveNothingToCompare) {
  auto clocks = compare_clocks(simulated(backbone_step(1, 1, 4), Costs{}));
  EXPECT_EQ(clocks.messages, 0);
  EXPECT_EQ(clocks.least_gap, 0);
  EXPECT_TRUE(clocks.comparable());
}

TEST(Clocks, OfPrimusPp8FitInIteration7AndNotInTheFirstTwo) {
  if (!std::filesystem::is_directory(kPrimus)) GTEST_SKIP() << "no data folder " << kPrimus;
  auto measurement = read_measured({kPrimus});
  auto seventh = compare_clocks(step_named(measurement, "7"));
  EXPECT_EQ(seventh.messages, 2 * 7 * 16);
  EXPECT_TRUE(seventh.comparable());
  EXPECT_NEAR(seventh.least_gap * 1e3, 0.32, 0.01);
  for (const char* name : {"1", "2"})
    EXPECT_FALSE(compare_clocks(step_named(measurement, name)).comparable());
}

}  // namespace
}  // namespace bigmac
