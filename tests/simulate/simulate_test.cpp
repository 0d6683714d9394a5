#include "bigmac/simulate/simulate.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

double step_of(const Step& step, const Costs& costs) {
  return simulate(make_schedule(step, costs), costs).length();
}

StepReport report_of(const Step& step, const Costs& costs) {
  auto schedule = make_schedule(step, costs);
  return report(schedule, costs, simulate(schedule, costs));
}

Costs random_costs(Random& random, const Step& step) {
  Costs costs{.forward = {}, .backward = {}};
  for (int64_t s = 0; s < step.stages(); ++s) {
    costs.forward.push_back(uniform(random, 0, 3));
    costs.backward.push_back(uniform(random, 0, 3));
    costs.weight.push_back(uniform(random, 0, costs.backward.back()));
  }
  for (size_t n = 0; n < step.modules.size(); ++n)
    costs.modules.push_back({uniform(random, 0, 4), uniform(random, 0, 4)});
  costs.latency = uniform(random, 0, 1);
  return costs;
}

Step random_step(Random& random) {
  Base base = kBases[size_t(integer(random, 0, 5))];
  auto chunks = chunks_of(base, 4);
  int64_t ranks = integer(random, 1, 6);
  Step step = step_of_base(base, ranks, chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))],
                           integer(random, 1, 5 * ranks));
  step = nested(step, integer(random, 0, 3) > 0, integer(random, 0, 3) > 0);
  if (integer(random, 0, 1) == 1) step.modules.push_back({"audio", Module::encoder, {}});
  for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
  step.generator_unit = integer(random, 0, ranks);
  step.arrangement = std::array{Arrangement::nested, Arrangement::three_phase,
                                Arrangement::llm_only}[size_t(integer(random, 0, 2))];
  return step;
}

TEST(Simulate, GivesThePublishedStepsOf1f1b) {
  struct Case {
    int64_t ranks, microbatches;
    double step, idle_over_total;
  };
  for (const auto& c :
       {Case{4, 1, 12, 0.7500}, Case{4, 3, 18, 0.5000}, Case{4, 10, 39, 0.2308}, Case{6, 3, 24, 0.6250},
        Case{8, 8, 45, 0.4667}, Case{8, 32, 117, 0.1795}, Case{4, 64, 201, 0.0448}}) {
    auto step = report_of(backbone_step(c.ranks, 1, c.microbatches), {});
    EXPECT_EQ(step.makespan, c.step) << "P=" << c.ranks << " M=" << c.microbatches;
    EXPECT_NEAR(step.idle_over_total, c.idle_over_total, 5e-5) << "P=" << c.ranks << " M=" << c.microbatches;
  }
}

TEST(Simulate, GivesThePublishedStepsWithLatency) {
  EXPECT_EQ(step_of(backbone_step(4, 1, 8), {.latency = 0}), 33);
  EXPECT_EQ(step_of(backbone_step(4, 1, 8), {.latency = 0.5}), 41);
  EXPECT_EQ(step_of(backbone_step(8, 1, 32), {.latency = 0.25}), 134);
}

TEST(Simulate, GivesThePublishedStepsOfUnevenStages) {
  EXPECT_EQ(step_of(backbone_step(4, 1, 8), {.forward = {1, 2, 1, 1}, .backward = {2, 4, 2, 2}}), 53);
  for (auto [encoder, expected] : {std::pair{0.0, 33.0}, {0.5, 40.5}, {1.0, 51.0}, {2.0, 72.0}}) {
    Costs costs{.forward = {1 + encoder, 1, 1, 1}, .backward = {2 + 2 * encoder, 2, 2, 2}};
    EXPECT_EQ(step_of(backbone_step(4, 1, 8), costs), expected) << "e=" << encoder;
  }
}

TEST(Simulate, GivesThePublishedStepsOfEveryBase) {
  for (auto [ranks, microbatches] : {std::pair<int64_t, int64_t>{4, 8}, {8, 64}, {16, 128}, {32, 256}}) {
    double P = double(ranks), M = double(microbatches);
    EXPECT_EQ(step_of(backbone_step(ranks, 1, microbatches), {}), 3 * (M + P - 1));
    EXPECT_EQ(step_of(backbone_step(ranks, 2, microbatches), {}), 6 * M + 3 * (P - 1));
    EXPECT_EQ(step_of(step_of_base(Base::gpipe, ranks, 1, microbatches), {}), 3 * (M + P - 1));
    EXPECT_EQ(step_of(step_of_base(Base::zb_h1, ranks, 1, microbatches), {}), 3 * M + (P - 1));
    EXPECT_EQ(step_of(step_of_base(Base::zb_v, ranks, 2, microbatches), {}), 6 * M + (P - 1));
    EXPECT_EQ(step_of(step_of_base(Base::dualpipe_v, ranks, 2, microbatches), {}), 6 * M + (P - 1));
  }
}

TEST(Simulate, StartsEveryOperatorWhenTheOracleSays) {
  Random random(kSeed);
  for (int round = 0; round < 1000; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    Costs nominal = random_costs(random, step), costs = random_costs(random, step);
    auto schedule = make_schedule(step, nominal);
    Reckoned duration(schedule, costs);
    auto starts = Oracle(schedule).starts(duration, costs.latency);
    auto timeline = simulate(schedule, costs);
    EXPECT_EQ(timeline.start, 0);
    EXPECT_NEAR(timeline.end, starts.back(), 1e-9 * starts.back());
    ASSERT_EQ(timeline.rows.size(), size_t(step.ranks));
    for (int rank = 0; rank < step.ranks; ++rank) {
      const auto& slices = timeline.rows[size_t(rank)].operators;
      auto row = schedule.row(rank);
      ASSERT_EQ(slices.size(), row.size());
      EXPECT_TRUE(timeline.rows[size_t(rank)].intervals.empty());
      for (size_t p = 0; p < row.size(); ++p) {
        EXPECT_EQ(slices[p].op, row[p]);
        EXPECT_NEAR(slices[p].start, starts[size_t(schedule.row_begin[rank]) + p], 1e-9 * starts.back());
        EXPECT_NEAR(slices[p].end - slices[p].start, duration(rank, row[p]), 1e-9 * starts.back());
      }
    }
    if (HasFailure()) return;
  }
}

TEST(Simulate, RefusesATableWithADeadlockInTheCheckersWords) {
  Step step = nested_step(2, 1, 4, true, false);
  auto schedule = make_schedule(step);
  auto rows = rows_of(schedule);
  std::swap(*std::find(rows[0].begin(), rows[0].end(), backbone_forward(0, 1)),
            *std::find(rows[0].begin(), rows[0].end(), backbone_backward(0, 1)));
  auto crossed = make_table(step, rows, schedule.shares);
  crossed.units = schedule.units;
  auto message = refusal([&] { simulate(crossed, {}); });
  ASSERT_TRUE(message);
  EXPECT_TRUE(contains(*message, "deadlock")) << *message;
  EXPECT_TRUE(contains(*message, "rank 0 position")) << *message;
  EXPECT_TRUE(contains(*message, "backbone B chunk 0 microbatch 1")) << *message;
}

TEST(Simulate, RefusesATableThatMissesWhatAnOperatorNeeds) {
  Step step = backbone_step(2, 1, 2);
  auto rows = rows_of(make_schedule(step));
  std::erase(rows[0], backbone_forward(0, 1));
  auto message = refusal([&] { simulate(make_table(step, rows), {}); });
  ASSERT_TRUE(message);
  EXPECT_TRUE(contains(*message, "rank 0 misses backbone F chunk 0 microbatch 1")) << *message;
}

TEST(Simulate, RefusesCostsThatDoNotFitTheStep) {
  auto message = refusal([] { step_of(backbone_step(2, 2, 4), {.forward = {1, 1}}); });
  ASSERT_TRUE(message);
  EXPECT_TRUE(contains(*message, "backbone forward needs 1 value or one for each of 4 stages, got 2"))
      << *message;
}

TEST(Report, OfCostsOfZeroIsAStepOfZero) {
  auto step = report_of(nested_step(2, 2, 4, true, true), {.forward = {0}, .backward = {0}});
  EXPECT_EQ(step.makespan, 0);
  EXPECT_EQ(step.idle_over_total, 0);
  EXPECT_EQ(step.idle_over_busy, 0);
  EXPECT_EQ(step.lower_bound, 0);
  EXPECT_EQ(step.ratio_to_lower_bound(), 1);
}

TEST(Report, GivesTheSameBubbleForGPipeAnd1f1bByBothDefinitions) {
  for (Base base : {Base::gpipe, Base::one_f_one_b}) {
    auto step = report_of(step_of_base(base, 8, 1, 32), {.forward = {1}, .backward = {1}});
    EXPECT_EQ(step.makespan, 78);
    EXPECT_NEAR(step.idle_over_total, 7.0 / 39, 1e-12);
    EXPECT_NEAR(step.idle_over_busy, 7.0 / 32, 1e-12);
  }
}

TEST(Report, IdealIsThePlainBaseAndTheNestedWorkSpreadOverTheRanks) {
  Random random(kSeed);
  for (int round = 0; round < 500; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    Costs costs = random_costs(random, step);
    auto reported = report_of(step, costs);
    double work = 0;
    for (size_t n = 0; step.arrangement != Arrangement::llm_only && n < step.modules.size(); ++n)
      for (const auto& item : step.modules[n].items)
        work += item.size * (costs.modules[n].forward + costs.modules[n].backward);
    auto base = make_schedule(without_nesting(step));
    double ideal = Oracle(base).length(Reckoned(base, costs), costs.latency) + work / double(step.ranks);
    ASSERT_TRUE(reported.ideal);
    EXPECT_NEAR(*reported.ideal, ideal, 1e-9 * ideal);
    EXPECT_NEAR(*reported.ratio_to_ideal(), reported.makespan / ideal, 1e-9);
  }
}

TEST(Report, HasNoIdealForATableThatWasNotMadeFromABase) {
  auto schedule = make_schedule(backbone_step(2, 1, 4));
  schedule.step.base = Base::custom;
  auto reported = report(schedule, {}, simulate(schedule, {}));
  EXPECT_FALSE(reported.ideal);
  EXPECT_FALSE(reported.ratio_to_ideal());
  EXPECT_EQ(reported.makespan, 15);
  auto json = nlohmann::json::parse(to_json(reported));
  EXPECT_FALSE(json.contains("ideal"));
  EXPECT_FALSE(json.contains("ratio_to_ideal"));
}

TEST(Report, LowerBoundIsTheWorkPerRankOrTheLongestChainAndNeverAboveTheStep) {
  Random random(kSeed);
  int chains = 0, works = 0;
  for (int round = 0; round < 1000; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    Costs costs = random_costs(random, step);
    auto schedule = make_schedule(step, costs);
    auto reported = report(schedule, costs, simulate(schedule, costs));
    Reckoned duration(schedule, costs);
    double work = 0;
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (const auto& op : schedule.row(rank)) work += duration(rank, op);
    work /= double(step.ranks);
    double chain = Oracle(schedule).longest_chain(duration, costs.latency);
    double expected = std::max(work, chain);
    EXPECT_NEAR(reported.lower_bound, expected, 1e-9 * expected);
    EXPECT_LE(reported.lower_bound, reported.makespan * (1 + 1e-9));
    EXPECT_NEAR(reported.ratio_to_lower_bound(), reported.makespan / expected, 1e-9);
    ++(chain > work ? chains : works);
  }
  EXPECT_GT(chains, 100);
  EXPECT_GT(works, 100);
}

// By hand: one item of each kind, P=2, V=1, M=1, a hop of 0.25. EF 1, F 1 + 1 with a hop, G 5 on rank 0 with
// a hop there and back, B 2 + 2 with a hop, EB 3.
TEST(Report, LowerBoundOfOneMicrobatchIsItsWholeWay) {
  Step step = nested_step(2, 1, 1, true, true);
  Costs costs{.modules = {{1, 3}, {2, 3}}, .latency = 0.25};
  auto reported = report_of(step, costs);
  EXPECT_DOUBLE_EQ(reported.lower_bound, 1 + 2 + 5 + 4 + 3 + 4 * 0.25);
  EXPECT_DOUBLE_EQ(reported.makespan, reported.lower_bound);
}

// The gradient goes down by way of I alone: F 1 + 1, I 1 + 1, W 1 behind.
TEST(Report, LowerBoundOfASplitBackwardGoesByWayOfTheInputGradients) {
  EXPECT_DOUBLE_EQ(report_of(step_of_base(Base::zb_h1, 2, 1, 1), {}).lower_bound, 5);
  EXPECT_DOUBLE_EQ(report_of(backbone_step(2, 1, 1), {}).lower_bound, 6);
}

TEST(Report, RanksAreBusyWithTheirOperatorsAndIdleTheRest) {
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    Costs costs = random_costs(random, step);
    auto schedule = make_schedule(step, costs);
    auto reported = report(schedule, costs, simulate(schedule, costs));
    Reckoned duration(schedule, costs);
    double busy = 0, idle = 0;
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      const auto& time = reported.times[size_t(rank)];
      double work = 0;
      for (const auto& op : schedule.row(rank)) work += duration(rank, op);
      EXPECT_NEAR(time.busy, work, 1e-9 * reported.makespan);
      EXPECT_NEAR(time.busy + time.idle, reported.makespan, 1e-9 * reported.makespan);
      EXPECT_EQ(time.wait, 0);
      EXPECT_EQ(time.transfer, 0);
      EXPECT_GE(time.idle, -1e-9 * reported.makespan);
      busy += time.busy;
      idle += time.idle;
    }
    EXPECT_NEAR(reported.idle_over_total, idle / (busy + idle), 1e-9);
    EXPECT_NEAR(reported.idle_over_busy, idle / busy, 1e-9);
    EXPECT_EQ(reported.peaks, peak_live(schedule));
    ASSERT_EQ(reported.modules.size(), step.modules.size());
    for (size_t n = 0; n < step.modules.size(); ++n) EXPECT_EQ(reported.modules[n], step.modules[n].name);
  }
}

TEST(Report, AsJsonHoldsEveryField) {
  auto reported = report_of(nested_step(8, 2, 64, true, true), {.modules = {{0.5, 1}, {2, 4}}});
  auto json = nlohmann::ordered_json::parse(to_json(reported));
  std::vector<std::string> keys, rank_keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"makespan", "ideal", "ratio_to_ideal", "lower_bound",
                                            "ratio_to_lower_bound", "idle_over_total", "idle_over_busy",
                                            "bubble_over_total", "transfer_over_total", "order_over_total",
                                            "ranks"}));
  EXPECT_EQ(json["makespan"], 465);
  EXPECT_EQ(json["ideal"], 465);
  EXPECT_EQ(json["ratio_to_ideal"], 1);
  EXPECT_EQ(json["lower_bound"], reported.lower_bound);
  EXPECT_EQ(json["ratio_to_lower_bound"], 465 / reported.lower_bound);
  EXPECT_EQ(json["idle_over_total"], reported.idle_over_total);
  EXPECT_EQ(json["idle_over_busy"], reported.idle_over_busy);
  EXPECT_EQ(json["bubble_over_total"], reported.shares.bubble);
  EXPECT_EQ(json["transfer_over_total"], 0);
  EXPECT_EQ(json["order_over_total"], 0);
  ASSERT_EQ(json["ranks"].size(), 8);
  for (const auto& [key, value] : json["ranks"][0].items()) rank_keys.push_back(key);
  EXPECT_EQ(rank_keys, (std::vector<std::string>{"rank", "busy", "transfer", "order", "wait", "idle",
                                                 "peak_units", "peak_in_flight"}));
  for (size_t rank = 0; rank < 8; ++rank) {
    const auto& on_rank = json["ranks"][rank];
    EXPECT_EQ(on_rank["rank"], rank);
    EXPECT_EQ(on_rank["busy"], 8 * 1.5 + 8 * 6.0 + 64 * 2 * 3.0);
    EXPECT_EQ(on_rank["idle"], 465 - on_rank["busy"].get<double>());
    EXPECT_EQ(on_rank["peak_units"], (nlohmann::ordered_json{{"image", 3.0}, {"picture", 1.0}}));
    EXPECT_EQ(on_rank["peak_in_flight"], 31 - 2 * int(rank));
  }
}

}  // namespace
}  // namespace bigmac
