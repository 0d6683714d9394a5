#include "bigmac/simulate/simulate.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/nest.h"
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
  }
  costs.encoder_forward = uniform(random, 0, 4);
  costs.encoder_backward = uniform(random, 0, 4);
  costs.generator_forward = uniform(random, 0, 4);
  costs.generator_backward = uniform(random, 0, 4);
  costs.latency = uniform(random, 0, 1);
  return costs;
}

Step random_step(Random& random) {
  int64_t ranks = integer(random, 1, 6), chunks = integer(random, 1, 4);
  Step step = nested_step(ranks, chunks, ranks * integer(random, 1, 6), integer(random, 0, 3) > 0,
                          integer(random, 0, 3) > 0);
  keep_a_random_half(random, step.encoder);
  keep_a_random_half(random, step.generator);
  step.arrangement = Arrangement(integer(random, 0, 2));
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

TEST(Simulate, GivesThePublishedStepsOfBothBases) {
  for (auto [ranks, microbatches] : {std::pair<int64_t, int64_t>{4, 8}, {8, 64}, {16, 128}, {32, 256}}) {
    double P = double(ranks), M = double(microbatches);
    EXPECT_EQ(step_of(backbone_step(ranks, 1, microbatches), {}), 3 * (M + P - 1));
    EXPECT_EQ(step_of(backbone_step(ranks, 2, microbatches), {}), 6 * M + 3 * (P - 1));
  }
}

TEST(Simulate, StartsEveryOperatorWhenTheOracleSays) {
  Random random(kSeed);
  for (int round = 0; round < 500; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    Costs nominal = random_costs(random, step), costs = random_costs(random, step);
    auto schedule = make_schedule(step, nominal);
    auto duration = [&](int rank, const Operator& op) {
      size_t stage = size_t(op.chunk * step.ranks + rank);
      bool backward = op.phase == Phase::backward;
      if (op.module == Module::backbone) return (backward ? costs.backward : costs.forward)[stage];
      if (op.module == Module::encoder) return backward ? costs.encoder_backward : costs.encoder_forward;
      return costs.generator_forward + costs.generator_backward;
    };
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
  auto crossed = make_table(step, rows);
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

TEST(Costs, OfAWrongLengthAreRefusedWithBothCounts) {
  Step step = backbone_step(2, 2, 4);
  for (size_t length : {0, 2, 3, 5})
    for (bool forward : {true, false}) {
      Costs costs;
      (forward ? costs.forward : costs.backward).assign(length, 1.0);
      for (auto message : {refusal([&] { simulate(make_schedule(step), costs); }),
                           refusal([&] { make_schedule(nested_step(2, 2, 4, true, false), costs); })}) {
        ASSERT_TRUE(message) << length;
        EXPECT_TRUE(contains(*message, forward ? "backbone forward" : "backbone backward")) << *message;
        EXPECT_TRUE(contains(*message, "4 stages")) << *message;
        EXPECT_TRUE(contains(*message, concat("got ", length))) << *message;
      }
    }
}

TEST(Costs, ThatAreNegativeOrNotFiniteAreRefusedByName) {
  Step step = backbone_step(2, 1, 4);
  for (double bad : {-1.0, -1e-300, std::nan(""), HUGE_VAL, -HUGE_VAL})
    for (int which = 0; which < 7; ++which) {
      Costs costs{.forward = {1, 1}, .backward = {2, 2}};
      const char* names[] = {"backbone forward",  "backbone backward",  "encoder forward", "encoder backward",
                             "generator forward", "generator backward", "latency"};
      double* fields[] = {&costs.forward[1],       &costs.backward[0],       &costs.encoder_forward,
                          &costs.encoder_backward, &costs.generator_forward, &costs.generator_backward,
                          &costs.latency};
      *fields[which] = bad;
      auto message = refusal([&] { simulate(make_schedule(step), costs); });
      ASSERT_TRUE(message) << names[which] << " " << bad;
      EXPECT_TRUE(contains(*message, names[which])) << *message;
    }
}

TEST(Costs, OfZeroMakeAStepOfZero) {
  auto step = report_of(nested_step(2, 2, 4, true, true), {.forward = {0}, .backward = {0}});
  EXPECT_EQ(step.makespan, 0);
  EXPECT_EQ(step.idle_over_total, 0);
  EXPECT_EQ(step.idle_over_busy, 0);
}

TEST(Report, GivesBothDefinitionsOfTheBubble) {
  auto step = report_of(backbone_step(8, 1, 32), {.forward = {1}, .backward = {1}});
  EXPECT_EQ(step.makespan, 78);
  EXPECT_NEAR(step.idle_over_total, 7.0 / 39, 1e-12);
  EXPECT_NEAR(step.idle_over_busy, 7.0 / 32, 1e-12);
}

TEST(Report, IdealIsThePlainBaseAndTheNestedWorkSpreadOverTheRanks) {
  Random random(kSeed);
  for (int round = 0; round < 300; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    Costs costs = random_costs(random, step);
    auto reported = report_of(step, costs);
    bool nests = step.arrangement != Arrangement::llm_only;
    double work = 0;
    for (size_t m = 0; nests && m < size_t(step.microbatches); ++m) {
      if (step.has_encoder() && step.encoder[m]) work += costs.encoder_forward + costs.encoder_backward;
      if (step.has_generator() && step.generator[m])
        work += costs.generator_forward + costs.generator_backward;
    }
    double plain = step_of(without_nesting(step), costs);
    double ideal = plain + work / double(step.ranks);
    EXPECT_NEAR(reported.ideal, ideal, 1e-9 * ideal);
    EXPECT_NEAR(reported.ratio_to_ideal(), reported.makespan / ideal, 1e-9);
  }
}

TEST(Report, LowerBoundIsTheWorkPerRankOrTheLongestChainAndNeverAboveTheStep) {
  Random random(kSeed);
  for (int round = 0; round < 500; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    Costs costs = random_costs(random, step);
    auto reported = report_of(step, costs);
    EXPECT_LE(reported.lower_bound, reported.makespan * (1 + 1e-9));
    // A microbatch's way: encoder, up the stages, generator, down the stages, encoder.
    bool nests = step.arrangement != Arrangement::llm_only;
    double work = 0, longest = 0;
    for (int64_t m = 0; m < step.microbatches; ++m) {
      bool encodes = nests && step.has_encoder() && step.encoder[size_t(m)];
      bool generates = nests && step.has_generator() && step.generator[size_t(m)];
      double own = 0, hops = step.ranks > 1 ? 2 * double(step.stages() - 1) : 0;
      for (int64_t s = 0; s < step.stages(); ++s) own += costs.forward[size_t(s)] + costs.backward[size_t(s)];
      if (encodes) {
        own += costs.encoder_forward + costs.encoder_backward;
        hops += m % step.ranks == 0 ? 0 : 2;
      }
      if (generates) {
        own += costs.generator_forward + costs.generator_backward;
        hops += m % step.ranks == step.ranks - 1 ? 0 : 2;
      }
      work += own;
      longest = std::max(longest, own + hops * costs.latency);
    }
    double expected = std::max(work / double(step.ranks), longest);
    EXPECT_NEAR(reported.lower_bound, expected, 1e-9 * expected);
  }
}

TEST(Report, RanksAreBusyWithTheirOperatorsAndIdleTheRest) {
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    Costs costs = random_costs(random, step);
    auto schedule = make_schedule(step, costs);
    auto reported = report(schedule, costs, simulate(schedule, costs));
    double busy = 0, idle = 0;
    for (const auto& time : reported.times) {
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
  }
}

TEST(Report, CountsWarmUpUnitsOnlyOfAnEncoderThatIsNested) {
  EXPECT_EQ(report_of(nested_step(2, 2, 16, true, false), {}).warmup_units, 3);
  EXPECT_EQ(report_of(nested_step(2, 2, 4, true, false), {}).warmup_units, 2);
  EXPECT_EQ(report_of(nested_step(2, 2, 16, false, true), {}).warmup_units, 0);
  EXPECT_EQ(report_of(without_nesting(nested_step(2, 2, 16, true, true)), {}).warmup_units, 0);
}

TEST(Report, AsJsonHoldsEveryField) {
  auto reported = report_of(nested_step(8, 2, 64, true, true), {.encoder_forward = 0.5,
                                                                .encoder_backward = 1,
                                                                .generator_forward = 2,
                                                                .generator_backward = 4,
                                                                .latency = 0});
  auto json = nlohmann::ordered_json::parse(to_json(reported));
  std::vector<std::string> keys, rank_keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"makespan", "ideal", "ratio_to_ideal", "lower_bound",
                                            "idle_over_total", "idle_over_busy", "warmup_units", "ranks"}));
  EXPECT_EQ(json["makespan"], 465);
  EXPECT_EQ(json["ideal"], 465);
  EXPECT_EQ(json["ratio_to_ideal"], 1);
  EXPECT_EQ(json["lower_bound"], reported.lower_bound);
  EXPECT_EQ(json["idle_over_total"], reported.idle_over_total);
  EXPECT_EQ(json["idle_over_busy"], reported.idle_over_busy);
  EXPECT_EQ(json["warmup_units"], 3);
  ASSERT_EQ(json["ranks"].size(), 8);
  for (const auto& [key, value] : json["ranks"][0].items()) rank_keys.push_back(key);
  EXPECT_EQ(rank_keys, (std::vector<std::string>{"rank", "busy", "idle", "peak_encoder_units",
                                                 "peak_generator_units", "peak_backbone_in_flight"}));
  for (size_t rank = 0; rank < 8; ++rank) {
    const auto& on_rank = json["ranks"][rank];
    EXPECT_EQ(on_rank["rank"], rank);
    EXPECT_EQ(on_rank["busy"], 8 * 1.5 + 8 * 6.0 + 64 * 2 * 3.0);
    EXPECT_EQ(on_rank["idle"], 465 - on_rank["busy"].get<double>());
    EXPECT_EQ(on_rank["peak_encoder_units"], 3);
    EXPECT_EQ(on_rank["peak_generator_units"], 1);
    EXPECT_EQ(on_rank["peak_backbone_in_flight"], 31 - 2 * int(rank));
  }
}

}  // namespace
}  // namespace bigmac
