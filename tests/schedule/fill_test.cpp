// nested-fill: how near the limit it comes, and what must hold for every base, P, V, M, items and costs.
#include <gtest/gtest.h>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/fill.h"
#include "bigmac/schedule/make.h"
#include "bigmac/schedule/nest.h"
#include "bigmac/simulate/simulate.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

struct Case {
  Step step;
  Costs costs;
};

// Equal items, an encoder of 0.5 / 1.0 of the backbone's forward a microbatch; with `generator` as many items
// of one that takes as long as the backbone's forward.
Case equal_case(int64_t ranks, int64_t chunks, int64_t microbatches, int64_t items, bool generator = false) {
  Case c{backbone_step(ranks, chunks, microbatches), {}};
  c.step.arrangement = Arrangement::nested_fill;
  double forward = double(ranks * chunks);
  auto add = [&](const char* name, Module kind, ModuleCosts costs) {
    NestedModule module{name, kind, {}};
    for (int64_t m = 0; m < microbatches; ++m)
      module.items.insert(module.items.end(), size_t(items), {uint32_t(m), 1});
    c.step.modules.push_back(module);
    c.costs.modules.push_back({costs.forward / double(items), costs.backward / double(items)});
  };
  add("image", Module::encoder, {0.5 * forward, forward});
  if (generator) add("picture", Module::generator, {forward, 0});
  return c;
}

double length(const Schedule& schedule, const Costs& costs) {
  return Oracle(schedule).length(Reckoned(schedule, costs), costs.latency);
}

double most_units(const Schedule& schedule) {
  double most = 0;
  for (const auto& peak : peak_live(schedule))
    for (double units : peak.units) most = std::max(most, units);
  return most;
}

struct Target {
  int64_t ranks, chunks, microbatches, items;
  double ratio;
};

class FillTargets : public testing::TestWithParam<Target> {};

TEST_P(FillTargets, AreMetWithinFourUnits) {
  auto [ranks, chunks, microbatches, items, ratio] = GetParam();
  auto [step, costs] = equal_case(ranks, chunks, microbatches, items);
  Schedule schedule = make_schedule(step, costs);
  auto limit = report(schedule, costs, simulate(schedule, costs)).lower_bound;
  EXPECT_LE(length(schedule, costs) / limit, ratio + 1e-9);
  EXPECT_LE(most_units(schedule), 4 + 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Equal, FillTargets,
    testing::Values(Target{8, 2, 32, 16, 1.005}, Target{8, 2, 64, 16, 1.005}, Target{4, 2, 16, 16, 1.005},
                    Target{16, 2, 64, 16, 1.01}, Target{8, 2, 16, 16, 1.03}, Target{4, 1, 16, 16, 1.03},
                    Target{8, 2, 32, 4, 1.04}, Target{8, 2, 64, 4, 1.04}, Target{4, 2, 16, 4, 1.04},
                    Target{16, 2, 64, 4, 1.04}, Target{8, 2, 16, 4, 1.06}, Target{4, 1, 16, 4, 1.06}),
    [](const testing::TestParamInfo<Target>& test) {
      const Target& of = test.param;
      return concat("P", of.ranks, "V", of.chunks, "M", of.microbatches, "items", of.items);
    });

TEST(Fill, FillsTheBubblesWithGeneratorItemsToo) {
  auto [step, costs] = equal_case(8, 2, 32, 16, true);
  Schedule schedule = fill_schedule(step, costs);
  auto limit = report(schedule, costs, simulate(schedule, costs)).lower_bound;
  EXPECT_LE(length(schedule, costs) / limit, 1.01);
  EXPECT_GE(length(nested_schedule(step, costs), costs) / limit, 1.05);
}

TEST(Fill, HasOneShareForEachItemInOrderOfModuleUnitAndRank) {
  auto [step, costs] = equal_case(4, 2, 8, 3, true);
  step.generator_unit = 2;
  Schedule schedule = fill_schedule(step, costs);
  ASSERT_TRUE(schedule.units.empty());
  ASSERT_EQ(schedule.shares.list.size(), 2u * 8 * 3);
  auto key = [](const Share& share) { return std::tuple(share.module, share.unit, share.rank); };
  for (size_t i = 0; i < schedule.shares.list.size(); ++i) {
    const Share& share = schedule.shares.list[i];
    EXPECT_EQ(share.count, 1u);
    if (i > 0) {
      EXPECT_LE(key(schedule.shares.list[i - 1]), key(share));
    }
  }
  EXPECT_EQ(schedule.shares.list.back().unit, 3);
}

TEST(Fill, HoldsNoMoreThanTheUnitsThatTheStepAsksFor) {
  for (int64_t warmup : {2, 3, 5}) {
    auto [step, costs] = equal_case(4, 1, 32, 4);
    step.modules[0].warmup_units = warmup;
    EXPECT_LE(most_units(fill_schedule(step, costs)), double(warmup + 1) + 1e-9) << "W=" << warmup;
  }
}

TEST(Fill, RefusesAWarmupThatNestingRefuses) {
  auto [step, costs] = equal_case(4, 2, 16, 1);
  step.modules[0].warmup_units = 1;
  auto message = refusal([&, step = step, costs = costs] { fill_schedule(step, costs); });
  ASSERT_TRUE(message);
  EXPECT_TRUE(contains(*message, "warm-up units (W) of 'image'")) << *message;
}

TEST(Fill, TakesTheNestedTableWhereItIsTheBest) {
  auto [step, costs] = equal_case(8, 4, 64, 1);
  Schedule schedule = fill_schedule(step, costs), nested = nested_schedule(step, costs);
  EXPECT_LE(length(schedule, costs), length(nested, costs));
  if (!schedule.units.empty()) {
    EXPECT_EQ(schedule, nested);
    EXPECT_EQ(schedule.step.arrangement, Arrangement::nested_fill);
  }
}

TEST(Fill, TakesItemsThatCostNothing) {
  auto [step, costs] = equal_case(4, 2, 8, 2, true);
  costs.modules = {{0, 0}, {0, 0}};
  EXPECT_EQ(check(fill_schedule(step, costs), Sends::blocking), std::vector<std::string>{});
  costs.forward = costs.backward = {0};
  EXPECT_EQ(check(fill_schedule(step, costs), Sends::blocking), std::vector<std::string>{});
}

TEST(Fill, TakesOneItemThatIsAsLargeAsAllOthers) {
  auto [step, costs] = equal_case(4, 2, 16, 4);
  step.modules[0].items[17].size = 63;
  Schedule schedule = fill_schedule(step, costs);
  EXPECT_EQ(check(schedule, Sends::blocking), std::vector<std::string>{});
  EXPECT_LE(most_units(schedule), 4 + 1e-9);
}

// Items of up to twelve a microbatch, a third of the microbatches without any, one in twenty much larger.
std::vector<Item> random_sizes(Random& random, int64_t microbatches) {
  int64_t kind = integer(random, 0, 3), most = integer(random, 1, 12);
  std::lognormal_distribution<double> log_normal(0, uniform(random, 0, 2));
  std::vector<Item> items;
  for (int64_t m = 0; m < microbatches; ++m) {
    if (integer(random, 0, 2) == 0) continue;
    for (int64_t n = integer(random, 0, most); n > 0; --n) {
      double size = 1;
      if (kind == 1) size = double(integer(random, 1, 3));
      if (kind == 2) size = log_normal(random);
      if (kind == 3) size = integer(random, 0, 19) == 0 ? 20 : 0.3;
      items.push_back({uint32_t(m), size});
    }
  }
  return items;
}

Case random_case(Random& random) {
  Base base = kBases[size_t(integer(random, 0, 5))];
  auto chunks = chunks_of(base, 4);
  int64_t ranks = integer(random, 0, 9) > 0 ? integer(random, 1, 8) : integer(random, 9, 16);
  Step step = step_of_base(base, ranks, chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))],
                           integer(random, 1, integer(random, 0, 2) > 0 ? 36 : 10));
  if (base == Base::interleaved && integer(random, 0, 2) == 0)
    step.group = integer(random, ranks, std::max(ranks, step.microbatches));
  step.arrangement = Arrangement::nested_fill;
  int64_t encoders = integer(random, 0, 3),
          generators = integer(random, 0, 2) > 0 ? 0 : integer(random, 1, 2);
  for (int64_t n = 0; n < std::max<int64_t>(encoders + generators, 1); ++n)
    step.modules.push_back({concat("module ", n), n < encoders ? Module::encoder : Module::generator,
                            random_sizes(random, step.microbatches)});
  freeze_some(random, step, 4);
  step.generator_unit = integer(random, 0, ranks);
  step.spread = integer(random, 0, 5) > 0;
  Costs costs;
  if (integer(random, 0, 2) > 0) costs = random_stage_costs(random, step);
  costs.modules.clear();
  for (size_t n = 0; n < step.modules.size(); ++n) {
    double work = integer(random, 0, 9) == 0 ? 0 : uniform(random, 0.01, 0.3) * double(ranks);
    costs.modules.push_back({work, work * uniform(random, 0, 3)});
  }
  if (integer(random, 0, 3) == 0) costs.latency = uniform(random, 0, 2);
  return {step, costs};
}

void expect_backbone_rows_of_the_base(const Schedule& schedule) {
  auto turn = schedule.step.has(Module::generator) ? Turn::behind_generator : Turn::at_once;
  EXPECT_EQ(rows_of(strip(schedule)), rows_of(base_table(without_nesting(schedule.step), turn)));
}

void expect_safe(const Schedule& schedule) {
  for (auto sends : {Sends::buffered, Sends::blocking}) {
    Oracle oracle(schedule, sends);
    ASSERT_TRUE(oracle.complete());
    EXPECT_FALSE(oracle.deadlocks()) << name(sends);
    EXPECT_EQ(check(schedule, sends), std::vector<std::string>{}) << name(sends);
  }
}

void expect_memory_bounded(const Schedule& schedule, const Costs& costs) {
  auto warmup = warmup_units(schedule.step, costs);
  auto peaks = peak_live(schedule);
  for (size_t rank = 0; rank < peaks.size(); ++rank)
    for (size_t n = 0; n < warmup.size(); ++n)
      EXPECT_LE(peaks[rank].units[n], double(warmup[n] + 1) * (1 + 1e-8))
          << "rank " << rank << " module " << n;
}

// Shards of the random steps, so that they run side by side.
class RandomFills : public testing::TestWithParam<int> {};
constexpr int kShards = 8;

TEST_P(RandomFills, AreSafeLeanAndNeverSlowerThanNested) {
  uint64_t seed = from_environment("BIGMAC_FUZZ_SEED", kSeed);
  uint64_t cases = from_environment("BIGMAC_FUZZ_CASES", 2000);
  for (uint64_t n = uint64_t(GetParam()); n < cases; n += kShards) {
    Random random(seed + n);
    auto [step, costs] = random_case(random);
    SCOPED_TRACE(concat("again with BIGMAC_FUZZ_SEED=", seed + n, " BIGMAC_FUZZ_CASES=1: ", describe(step)));
    Schedule schedule = fill_schedule(step, costs);
    expect_safe(schedule);
    expect_backbone_rows_of_the_base(schedule);
    expect_memory_bounded(schedule, costs);
    EXPECT_LE(simulate(schedule, costs).end, simulate(nested_schedule(step, costs), costs).end);
    if (n / kShards % 8 == 0) {
      EXPECT_EQ(fill_schedule(step, costs), schedule);
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, RandomFills, testing::Range(0, kShards));

}  // namespace
}  // namespace bigmac
