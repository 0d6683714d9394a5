#include <gtest/gtest.h>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/disttrain.h"
#include "bigmac/schedule/make.h"
#include "bigmac/simulate/simulate.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

double step_time(const Schedule& schedule, const Costs& costs) {
  return simulate(schedule, costs).length();
}

Step with_arrangement(Step step, Arrangement arrangement) {
  step.arrangement = arrangement;
  return step;
}

// Random bases, counts, items and modules.
Step random_step(Random& random) {
  Base base = kBases[integer(random, 0, 5)];
  auto chunks = chunks_of(base, 4);
  Step step =
      step_of_base(base, integer(random, 1, 8),
                   chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))], integer(random, 1, 30));
  int64_t encoders = integer(random, 0, 2), generators = integer(random, encoders == 0 ? 1 : 0, 2);
  for (int64_t n = 0; n < encoders + generators; ++n)
    step.modules.push_back({concat("module", n), n < encoders ? Module::encoder : Module::generator,
                            random_items(random, step.microbatches, uniform(random, 0, 2), 5)});
  step.generator_unit = integer(random, 0, step.ranks);
  return step;
}

// Stages that differ by an order of magnitude, or cost nothing, in every other step.
Costs random_costs(Random& random, const Step& step) {
  Costs costs{.forward = {uniform(random, 0.5, 2)}, .backward = {uniform(random, 1, 4)}};
  if (integer(random, 0, 1) == 0) {
    costs.forward.clear();
    costs.backward.clear();
    for (int64_t s = 0; s < step.stages(); ++s) {
      auto layers = double(integer(random, 0, 9));
      costs.forward.push_back(layers);
      costs.backward.push_back(2 * layers);
    }
  }
  for (size_t n = 0; n < step.modules.size(); ++n)
    costs.modules.push_back({uniform(random, 0, 2), uniform(random, 0, 4)});
  if (integer(random, 0, 2) == 0) costs.latency = uniform(random, 0, 0.5);
  return costs;
}

TEST(Baselines, AreCompleteAndRunToTheirEndForRandomSteps) {
  Random random(kSeed);
  for (int round = 0; round < 1500; ++round) {
    Step step = random_step(random);
    Costs costs = random_costs(random, step);
    for (auto arrangement :
         {Arrangement::three_phase, Arrangement::optimus, Arrangement::megatron, Arrangement::disttrain}) {
      step.arrangement = arrangement;
      SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(step)));
      if (arrangement == Arrangement::disttrain && step.ranks < 3) continue;
      auto schedule = make_schedule(step, costs);
      for (auto sends : {Sends::buffered, Sends::blocking})
        ASSERT_EQ(check(schedule, sends), std::vector<std::string>{});
      if (arrangement == Arrangement::disttrain) continue;
      ASSERT_TRUE(Oracle(schedule).complete());
      ASSERT_FALSE(Oracle(schedule).deadlocks());
    }
  }
}

// An encoder adds e to F and 2e to B of the first stage: published step times.
TEST(Megatron, TakesTheReferenceTimesWithAnEncoderInTheFirstStage) {
  Step step = with_arrangement(nested_step(4, 1, 8, true, false), Arrangement::megatron);
  for (auto [cost, expected] : {std::pair{0.0, 33.0}, {0.5, 40.5}, {1.0, 51.0}, {2.0, 72.0}})
    EXPECT_DOUBLE_EQ(step_time(make_schedule(step), {.modules = {{cost, 2 * cost}}}), expected);
}

TEST(Megatron, TakesAsLongAsABackboneWhoseOuterStagesCostMore) {
  Random random(kSeed);
  for (int round = 0; round < 100; ++round) {
    int64_t ranks = integer(random, 2, 6), microbatches = integer(random, 1, 20);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " P=", ranks, " M=", microbatches));
    Step step = with_arrangement(nested_step(ranks, 1, microbatches, true, true), Arrangement::megatron);
    double e = uniform(random, 0, 3), g = uniform(random, 0, 3);
    Costs outer{.forward = std::vector<double>(size_t(ranks), 1),
                .backward = std::vector<double>(size_t(ranks), 2)};
    outer.forward.front() += e;
    outer.backward.front() += 2 * e;
    outer.backward.back() += 3 * g;
    EXPECT_NEAR(step_time(make_schedule(step), {.modules = {{e, 2 * e}, {g, 2 * g}}}),
                step_time(make_schedule(without_nesting(step)), outer), 1e-9);
  }
}

TEST(Megatron, KeepsTheBackbonesOrder) {
  for (Base base : kBases) {
    Step step = with_arrangement(nested(step_of_base(base, 4, chunks_of(base, 2).back(), 10), true, true),
                                 Arrangement::megatron);
    EXPECT_EQ(rows_of(strip(make_schedule(step))), rows_of(make_schedule(without_nesting(step))));
  }
}

// With one rank for the encoder and one for the generator it is the 1F1B of as many stages as ranks.
TEST(Disttrain, IsOneF1BThroughAllModules) {
  Random random(kSeed);
  for (int round = 0; round < 100; ++round) {
    int64_t ranks = integer(random, 3, 8), microbatches = integer(random, 1, 20);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " P=", ranks, " M=", microbatches));
    Step step = with_arrangement(nested_step(ranks, 1, microbatches, true, true), Arrangement::disttrain);
    Costs costs{.modules = {{uniform(random, 0, 3), uniform(random, 0, 3)},
                            {uniform(random, 0, 3), uniform(random, 0, 3)}}};
    auto schedule = disttrain_schedule(step, {1, ranks - 2, 1});
    double share = double(ranks) / double(ranks - 2);
    Costs chained{.forward = std::vector<double>(size_t(ranks), share),
                  .backward = std::vector<double>(size_t(ranks), 2 * share)};
    chained.forward.front() = costs.modules[0].forward;
    chained.backward.front() = costs.modules[0].backward;
    chained.forward.back() = costs.modules[1].forward;
    chained.backward.back() = costs.modules[1].backward;
    EXPECT_NEAR(step_time(schedule, costs_for_stages(step, schedule.step.stages(), costs)),
                step_time(make_schedule(without_nesting(step)), chained), 1e-9);
  }
}

TEST(Disttrain, SharesTheItemsOfAMicrobatchAmongTheEncodersRanks) {
  Step step = with_arrangement(backbone_step(4, 1, 2), Arrangement::disttrain);
  step.modules.push_back({"image", Module::encoder, {{0, 5}, {0, 3}, {0, 2}, {1, 1}}});
  auto schedule = disttrain_schedule(step, {2, 2, 0});
  ASSERT_EQ(schedule.shares.list.size(), 3u);
  EXPECT_EQ(item_list(schedule, schedule.shares.list[0]), "0.0");
  EXPECT_EQ(item_list(schedule, schedule.shares.list[1]), "0.1 0.2");
  EXPECT_EQ(item_list(schedule, schedule.shares.list[2]), "1.0");
  EXPECT_EQ(schedule.shares.list[1].rank, 1);
  EXPECT_EQ(schedule.row(2)[0], backbone_forward(0, 0));
}

TEST(Disttrain, FindsTheBestSplit) {
  Random random(kSeed);
  for (int round = 0; round < 60; ++round) {
    Step step = random_step(random);
    step.ranks = integer(random, 3, 8);
    step.generator_unit = 0;
    step.arrangement = Arrangement::disttrain;
    Costs costs = random_costs(random, step);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(step)));
    auto time_of = [&](const RankSplit& split) {
      return step_time(disttrain_schedule(step, split), costs_for_stages(step, split.backbone, costs));
    };
    double found = time_of(best_split(step, costs)), best = found;
    for (int64_t e = 0; e < step.ranks; ++e)
      for (int64_t g = 0; e + g < step.ranks; ++g)
        if (RankSplit split{e, step.ranks - e - g, g}; !refusal([&] { disttrain_schedule(step, split); }))
          best = std::min(best, time_of(split));
    EXPECT_NEAR(found, best, 1e-9 * best);
  }
}

TEST(Disttrain, NeedsARankForEachKindOfModule) {
  Step step = with_arrangement(nested_step(2, 1, 4, true, true), Arrangement::disttrain);
  EXPECT_EQ(refusal([&] { make_schedule(step); }),
            "[disttrain] needs a rank for each of 3 kinds of module, got P=2 V=1 M=4; take P=3 or more");
  step.ranks = 4;
  EXPECT_TRUE(contains(refusal([&] {
                         disttrain_schedule(step, {0, 3, 1});
                       }).value_or(""),
                       "the split 0/3/1 does not give each module a part of P=4 ranks"));
}

TEST(ThreePhase, HoldsEveryItemUntilTheBackbonesWorkIsDone) {
  Step step = with_arrangement(nested_step(4, 2, 16, true, false), Arrangement::three_phase);
  auto schedule = make_schedule(step);
  for (const auto& row : rows_of(schedule)) {
    auto backbone_begins =
        std::find_if(row.begin(), row.end(), [](const auto& op) { return op.module == Module::backbone; });
    EXPECT_EQ(backbone_begins - row.begin(), 4);
    EXPECT_EQ(row.back().module, Module::encoder);
  }
  for (const auto& peak : peak_live(schedule)) EXPECT_EQ(peak.units[0], 4);
}

TEST(Optimus, IsNeverLongerThanThreePhases) {
  Random random(kSeed);
  for (int round = 0; round < 500; ++round) {
    Step step = random_step(random);
    std::erase_if(step.modules, [](const auto& module) { return module.kind == Module::generator; });
    Costs costs = random_costs(random, step);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(step)));
    double optimus = step_time(make_schedule(with_arrangement(step, Arrangement::optimus), costs), costs);
    double phases = step_time(make_schedule(with_arrangement(step, Arrangement::three_phase), costs), costs);
    EXPECT_LE(optimus, phases * (1 + 1e-9));
  }
}

TEST(Optimus, FillsTheBackbonesBubblesAndHoldsAShareOfAllMicrobatches) {
  Step step = backbone_step(8, 2, 32);
  step.arrangement = Arrangement::optimus;
  NestedModule image{"image", Module::encoder, {}};
  for (uint32_t m = 0; m < 32; ++m)
    for (int n = 0; n < 16; ++n) image.items.push_back({m, 1});
  step.modules = {image};
  Costs costs{.modules = {{0.5, 1}}};
  auto optimus = make_schedule(step, costs);
  auto report_of = [&](const Schedule& schedule) {
    return report(schedule, costs, simulate(schedule, costs));
  };
  double ours = report_of(optimus).makespan;
  double phases = report_of(make_schedule(with_arrangement(step, Arrangement::three_phase), costs)).makespan;
  EXPECT_LT(ours, phases);
  // All four units, but for what a bubble let go in time.
  double most = 0;
  for (const auto& peak : peak_live(optimus)) most = std::max(most, peak.units[0]);
  EXPECT_GE(most, 3.5);
}

TEST(Optimus, RunsAGeneratorBetweenAllForwardsAndAllBackwards) {
  Step step = with_arrangement(nested_step(4, 1, 12, true, true), Arrangement::optimus);
  auto schedule = make_schedule(step, {.modules = {{0.5, 1}, {2, 4}}});
  for (const auto& row : rows_of(schedule)) {
    auto generates =
        std::find_if(row.begin(), row.end(), [](const auto& op) { return op.phase == Phase::generate; });
    for (auto op = row.begin(); op != row.end(); ++op) {
      if (op->module != Module::backbone) continue;
      EXPECT_EQ(op->phase == Phase::forward, op < generates);
    }
  }
  for (const auto& peak : peak_live(schedule)) EXPECT_EQ(peak.in_flight, 12);
}

}  // namespace
}  // namespace bigmac
