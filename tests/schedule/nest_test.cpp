#include "bigmac/schedule/nest.h"

#include <gtest/gtest.h>

#include <limits>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/make.h"
#include "bigmac/simulate/simulate.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

std::vector<std::string> all_problems(const Schedule& schedule) {
  auto problems = check(schedule);
  for (auto& problem : check(schedule, Sends::blocking)) problems.push_back(std::move(problem));
  return problems;
}

const std::vector<std::string> kNone;

// The W that the refusal of a step names; nullopt where it is taken.
std::optional<int64_t> least_warmup_named(const Step& step, const Costs& nominal = {}) {
  auto message = refusal([&] { make_schedule(step, nominal); });
  if (!message) return std::nullopt;
  const std::string before = "' must be at least ";
  auto found = message->find(before);
  if (found == std::string::npos || !contains(*message, "warm-up units (W) of 'image'")) {
    ADD_FAILURE() << "names no W: " << *message;
    return std::nullopt;
  }
  return std::stoll(message->substr(found + before.size()));
}

// Every base with P 1..8, V up to 4 and some M.
template <class Visit>
void for_each_step(bool encoder, bool generator, Visit&& visit) {
  for (Base base : kBases)
    for (int64_t ranks = 1; ranks <= 8; ++ranks)
      for (int64_t chunks : chunks_of(base, 4))
        for (int64_t microbatches : {ranks - 1, ranks, 2 * ranks + 1, 3 * ranks, 5 * ranks - 2, 8 * ranks}) {
          if (microbatches < 1) continue;
          Step step = nested(step_of_base(base, ranks, chunks, microbatches), encoder, generator);
          SCOPED_TRACE(describe(step));
          visit(step);
          if (testing::Test::HasFailure()) return;
        }
}

// What is left of the table, timed.
class LeftAlone {
 public:
  LeftAlone(const Schedule& schedule, const Costs& costs)
      : left_(strip(schedule)), reckoned_(left_, costs), starts_(Oracle(left_).starts(reckoned_)) {}

  double length() const { return starts_.back(); }
  const Schedule& schedule() const { return left_; }
  double start(int rank, int64_t position) const { return starts_[size_t(left_.row_begin[rank] + position)]; }
  double end(int rank, int64_t position) const {
    return start(rank, position) + reckoned_(rank, left_.row(rank)[position]);
  }

  int64_t position(int rank, const Operator& op) const {
    auto row = left_.row(rank);
    return std::find(row.begin(), row.end(), op) - row.begin();
  }
  // Of B, or of I where the backward is split.
  int64_t position_of_gradient(int rank, int64_t chunk, int64_t m) const {
    auto row = left_.row(rank);
    int64_t whole = position(rank, backbone_backward(chunk, m));
    return whole < int64_t(row.size()) ? whole : position(rank, backbone(Phase::input, chunk, m));
  }

 private:
  Schedule left_;
  Reckoned reckoned_;
  std::vector<double> starts_;
};

// How many backbone operators stand before a unit's place.
int64_t backbone_before(const Schedule& schedule, const Unit& unit, int rank) {
  auto row = schedule.row(rank);
  return std::count_if(row.begin(), row.begin() + unit.place[rank],
                       [](const Operator& op) { return op.module == Module::backbone; });
}

// docs/schedule.md: encoder F of unit 0 before everything; of units u < W at need(u) - lead; encoder B of u,
// and encoder F of u + W right behind, when the last B of stage 0 for u has ended.
TEST(Nesting, PutsEncoderUnitsAtTheirMomentsOfTheBackbonesOwnTimeline) {
  Random random(kSeed);
  for_each_step(true, false, [&](Step step) {
    auto costs = random_stage_costs(random, step);
    int64_t ahead = 3;
    step.modules[0].warmup_units = ahead;
    if (auto least = least_warmup_named(step, costs)) step.modules[0].warmup_units = ahead = *least;
    auto schedule = make_schedule(step, costs);
    LeftAlone left(schedule, costs);
    const double margin = 1e-9 * left.length();
    for (const auto& unit : schedule.units) {
      bool warm_up = unit.phase == Phase::forward && unit.index < ahead;
      int64_t awaited = unit.phase == Phase::forward && !warm_up ? unit.index - ahead : unit.index;
      int64_t last = std::min((awaited + 1) * step.ranks, step.microbatches);
      double done = 0, needed = HUGE_VAL;
      for (int64_t m = awaited * step.ranks; m < last; ++m) {
        done = std::max(done, left.end(0, left.position_of_gradient(0, 0, m)));
        needed = std::min(needed, left.start(0, left.position(0, backbone_forward(0, m))));
      }
      double moment = !warm_up ? done : unit.index == 0 ? 0 : needed - longest_backbone(costs);
      for (int rank = 0; rank < schedule.ranks(); ++rank) {
        int64_t before = backbone_before(schedule, unit, rank);
        // Cuts move for blocking sends, those of the warm-up earlier and the others later.
        if (warm_up && before > 0) {
          EXPECT_LT(left.start(rank, before - 1), moment + margin) << "unit " << unit.index;
        } else if (!warm_up && before < int64_t(left.schedule().row(rank).size())) {
          EXPECT_GT(left.start(rank, before), moment - margin) << "unit " << unit.index;
        }
      }
    }
  });
}

// docs/schedule.md: G(u) when the last F of the last stage for unit u has ended.
TEST(Nesting, PutsGeneratorUnitsBehindTheLastForwardAndBeforeTheFirstBackwardOfTheLastStage) {
  Random random(kSeed);
  for_each_step(false, true, [&](Step step) {
    for (int64_t size : {step.ranks, int64_t{1}}) {
      step.generator_unit = size;
      auto costs = random_stage_costs(random, step);
      auto schedule = make_schedule(step, costs);
      LeftAlone left(schedule, costs);
      auto rank = int(rank_in_words(step, step.stages() - 1));
      int64_t chunk = step.chunks - 1;
      for (const auto& unit : schedule.units) {
        int64_t before = backbone_before(schedule, unit, rank), first = unit.index * size,
                first_back = INT64_MAX;
        double done = 0;
        for (int64_t m = first; m < std::min(first + size, step.microbatches); ++m) {
          int64_t forward = left.position(rank, backbone_forward(chunk, m));
          EXPECT_LT(forward, before);
          done = std::max(done, left.end(rank, forward));
          first_back = std::min(first_back, left.position_of_gradient(rank, chunk, m));
        }
        EXPECT_LE(before, first_back);
        // Cuts move later for blocking sends; only one that would pass the first B is brought back.
        if (before < first_back)
          for (int other = 0; other < step.ranks; ++other) {
            int64_t cut = backbone_before(schedule, unit, other);
            if (cut < int64_t(left.schedule().row(other).size())) {
              EXPECT_GE(left.start(other, cut), done - 1e-9 * left.length()) << "rank " << other;
            }
          }
      }
    }
  });
}

TEST(Nesting, LeavesOutUnitsAndOperatorsThatHaveNoItems) {
  for (Base base : kBases) {
    Step step = nested(step_of_base(base, 3, chunks_of(base, 2).back(), 14), true, true);
    step.modules[0].items = {{0, 1}, {4, 1}, {4, 2}, {13, 1}};  // units 0, 1 and 4 of 5
    step.modules[1].items = {{6, 1}};
    auto schedule = make_schedule(step);
    SCOPED_TRACE(describe(step));
    EXPECT_EQ(all_problems(schedule), kNone);
    std::vector<std::pair<int32_t, int64_t>> units;
    for (const auto& unit : schedule.units)
      if (unit.phase != Phase::backward) units.emplace_back(unit.module, unit.index);
    std::sort(units.begin(), units.end());
    EXPECT_EQ(units, (std::vector<std::pair<int32_t, int64_t>>{{0, 0}, {0, 1}, {0, 4}, {1, 2}}));
    EXPECT_EQ(std::count_if(schedule.operators.begin(), schedule.operators.end(),
                            [](const Operator& op) { return op.module != Module::backbone; }),
              2 * 4 + 1);
  }
}

TEST(Nesting, OfAStepOfTextAloneIsTheBase) {
  for (Base base : kBases) {
    Step step = nested(step_of_base(base, 4, chunks_of(base, 2).back(), 9), true, false);
    step.modules[0].items.clear();
    auto schedule = make_schedule(step);
    EXPECT_EQ(rows_of(schedule), rows_of(make_schedule(step_of_base(base, 4, step.chunks, 9))))
        << describe(step);
    EXPECT_TRUE(schedule.units.empty());
    EXPECT_EQ(all_problems(schedule), kNone);
  }
}

TEST(Nesting, IsSafeWithCostsOfZeroAndOfAnySize) {
  Random random(kSeed);
  for (Base base : kBases)
    for (double scale : {0.0, 1e-300, 1.0, 1e300})
      for (double latency : {0.0, 1e-300, 1.0, 1e9, 1e300})
        for (int round = 0; round < 20; ++round) {
          int64_t ranks = integer(random, 1, 6);
          auto chunks = chunks_of(base, 3);
          Step step = nested(
              step_of_base(base, ranks, chunks[size_t(round) % chunks.size()], integer(random, 1, 6 * ranks)),
              round % 4 > 0, round % 4 != 1);
          auto nominal = random_stage_costs(random, step);
          nominal.latency = latency;
          nominal.weight.clear();
          for (auto* list : {&nominal.forward, &nominal.backward})
            for (double& cost : *list) cost = integer(random, 0, 2) == 0 ? 0 : cost * scale;
          SCOPED_TRACE(concat(describe(step), " scale=", scale, " latency=", latency, " round=", round));
          EXPECT_EQ(all_problems(make_schedule(step, nominal)), kNone);
          if (HasFailure()) return;
        }
}

// Steps in which a cut, moved later for blocking sends, passes what needs a later unit's forward or
// generator.
TEST(Nesting, PutsAUnitBeforeOneWhoseCutWasMovedPastWhatNeedsIt) {
  for (uint64_t seed : {1086, 1593, 2113, 2557, 2637, 2741, 3219, 3971, 4223, 4406, 4862, 5151}) {
    Random random(seed);
    int64_t ranks = integer(random, 2, 8), chunks = integer(random, 2, 4);
    Step step = step_of_base(Base::interleaved, ranks, chunks, integer(random, 3 * ranks, 7 * ranks));
    step.group = integer(random, ranks, 2 * ranks);
    step = nested(step, true, true);
    step.generator_unit = integer(random, 1, ranks);
    auto costs = random_stage_costs(random, step);
    for (auto* list : {&costs.forward, &costs.backward})
      for (double& cost : *list) cost = std::pow(cost, 4);
    costs.weight.clear();
    for (bool trained : {true, false}) {
      step.modules[0].trained = trained;
      SCOPED_TRACE(concat("seed ", seed, " ", describe(step)));
      EXPECT_EQ(all_problems(make_schedule(step, costs)), kNone);
    }
  }
}

TEST(Nesting, IsSafeWhereWeightGradientsTakeNothingOrEverything) {
  Random random(kSeed);
  for (Base base : {Base::zb_h1, Base::zb_v, Base::dualpipe_v})
    for (int round = 0; round < 200; ++round) {
      int64_t ranks = integer(random, 1, 6);
      Step step = nested(step_of_base(base, ranks, chunks_of(base, 2).back(), integer(random, 1, 6 * ranks)),
                         round % 3 > 0, round % 3 < 2);
      auto nominal = random_stage_costs(random, step);
      for (size_t s = 0; s < nominal.weight.size(); ++s)
        nominal.weight[s] = integer(random, 0, 1) == 0 ? 0 : nominal.backward[s];
      SCOPED_TRACE(concat(describe(step), " round=", round));
      EXPECT_EQ(all_problems(make_schedule(step, nominal)), kNone);
      if (HasFailure()) return;
    }
}

TEST(Nesting, GivesTheReferenceTableOfTheDesign) {
  struct Row {
    int64_t ranks, chunks, microbatches;
    double backbone, with_encoder, with_both;
  };
  for (const auto& row :
       {Row{4, 1, 16, 57, 63, 87}, Row{4, 2, 32, 201, 213, 261}, Row{8, 2, 64, 405, 417, 465},
        Row{8, 4, 64, 789, 801, 849}, Row{4, 4, 64, 777, 801, 897}}) {
    auto length = [&](bool encoder, bool generator) {
      Step step = nested_step(row.ranks, row.chunks, row.microbatches, encoder, generator);
      SCOPED_TRACE(describe(step));
      Costs costs;
      if (encoder) costs.modules.push_back({0.5, 1});
      if (generator) costs.modules.push_back({2, 4});
      return simulate(make_schedule(step, costs), costs).length();
    };
    EXPECT_EQ(length(false, false), row.backbone);
    EXPECT_EQ(length(true, false), row.with_encoder);
    EXPECT_EQ(length(true, true), row.with_both);
  }
}

TEST(Nesting, HoldsThePublishedNumberOfForwardsInFlight) {
  auto in_flight = [](bool generator) {
    return peak_live(make_schedule(nested_step(8, 2, 64, true, generator)))[0].in_flight;
  };
  EXPECT_EQ(in_flight(false), 23);
  EXPECT_EQ(in_flight(true), 31);
}

TEST(Nesting, HoldsFewerForwardsInFlightTheSmallerTheGeneratorsUnit) {
  for (Base base : kBases) {
    if (base == Base::gpipe) continue;
    int64_t chunks = chunks_of(base, 2).back();
    auto in_flight = [&](int64_t unit) {
      Step step = nested(step_of_base(base, 8, chunks, 64), true, unit > 0);
      step.generator_unit = unit;
      return peak_live(make_schedule(step))[0].in_flight;
    };
    for (int64_t unit : {1, 2, 4, 8})
      EXPECT_EQ(in_flight(unit), is_v_shaped(base) ? 2 * (8 + unit) : in_flight(0) + unit)
          << name(base) << " k=" << unit;
  }
}

TEST(WarmUpUnits, TooFewAreRefusedWithTheLeastWhichThenWorks) {
  for (bool generator : {false, true})
    for_each_step(true, generator, [](Step step) {
      auto& ahead = step.modules[0].warmup_units;
      ahead = 1;
      int64_t least = least_warmup_named(step).value_or(1);
      int64_t units = (step.microbatches + step.ranks - 1) / step.ranks;
      EXPECT_LE(least, step.base == Base::gpipe ? units : 3);
      for (ahead = 1; ahead < least; ++ahead) EXPECT_EQ(least_warmup_named(step), least);
      for (; ahead <= least + 2; ++ahead) {
        auto schedule = make_schedule(step);
        EXPECT_EQ(all_problems(schedule), kNone);
        for (const auto& peak : peak_live(schedule)) EXPECT_LE(peak.units[0], double(ahead));
      }
    });
}

// With one unit fewer, the encoder of some unit u would come behind the encoder backward of unit u - W, and
// so, on rank 0 itself, behind the first forward that needs it.
TEST(WarmUpUnits, TheLeastNamedIsTheLeastThatCanRun) {
  for (bool generator : {false, true})
    for_each_step(true, generator, [](Step step) {
      step.modules[0].warmup_units = 1;
      int64_t least = least_warmup_named(step).value_or(1);
      LeftAlone base(
          base_table(without_nesting(step), step.modules.size() > 1 ? Turn::behind_generator : Turn::at_once),
          {});
      int64_t units = (step.microbatches + step.ranks - 1) / step.ranks;
      auto can_run = [&](int64_t ahead) {
        for (int64_t u = ahead; u < units; ++u) {
          int64_t first = INT64_MAX, last = 0;
          for (int64_t m = u * step.ranks; m < std::min((u + 1) * step.ranks, step.microbatches); ++m)
            first = std::min(first, base.position(0, backbone_forward(0, m)));
          for (int64_t m = (u - ahead) * step.ranks; m < (u - ahead + 1) * step.ranks; ++m)
            last = std::max(last, base.position_of_gradient(0, 0, m));
          if (last > first) return false;
        }
        return true;
      };
      int64_t expected = 1;
      while (!can_run(expected)) ++expected;
      EXPECT_EQ(least, expected);
    });
}

TEST(WarmUpUnits, AreThreeOrTheLeastWhereNoneAreAskedFor) {
  for (bool generator : {false, true})
    for_each_step(true, generator, [](Step step) {
      auto table = make_schedule(step);
      step.modules[0].warmup_units = 1;
      step.modules[0].warmup_units = std::max<int64_t>(3, least_warmup_named(step).value_or(1));
      EXPECT_EQ(rows_of(table), rows_of(make_schedule(step)));
    });
}

TEST(WarmUpUnits, TwoAreEnoughForOneChunkWithoutAGenerator) {
  for (Base base : {Base::one_f_one_b, Base::zb_h1})
    for (int64_t ranks = 1; ranks <= 8; ++ranks)
      for (int64_t microbatches = 1; microbatches <= 8 * ranks; ++microbatches) {
        Step step = nested(step_of_base(base, ranks, 1, microbatches), true, false);
        step.modules[0].warmup_units = 2;
        EXPECT_EQ(all_problems(make_schedule(step)), kNone) << describe(step);
      }
}

TEST(WarmUpUnits, AreEachEncodersOwnAndTheRefusalNamesWhose) {
  Step step = nested_step(4, 2, 32, true, true);
  step.modules.push_back(one_item_each("audio", Module::encoder, 32));
  step.modules[0].warmup_units = 5;
  step.modules[2].warmup_units = 3;
  auto schedule = make_schedule(step);
  EXPECT_EQ(all_problems(schedule), kNone);
  for (const auto& peak : peak_live(schedule)) EXPECT_EQ(peak.units, (std::vector<double>{5, 1, 3}));
  step.modules[2].warmup_units = 1;
  auto message = refusal([&] { make_schedule(step); });
  ASSERT_TRUE(message);
  for (const char* part :
       {"(W) of 'audio'", "at least 3", "P=4 V=2 M=32 G=4", "'interleaved'", "and a generator", "got 1"})
    EXPECT_TRUE(contains(*message, part)) << *message;
}

TEST(WarmUpUnits, AsManyAsTheStepHasAreTakenWhereMoreAreAsked) {
  Step step = nested_step(2, 2, 8, true, false);
  step.modules[0].warmup_units = 4;
  auto all = make_schedule(step);
  step.modules[0].warmup_units = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(make_schedule(step).operators, all.operators);
}

TEST(ThreePhase, RunsAllEncodersBeforeAndAllTheirBackwardsBehindTheBackbone) {
  for (Base base : kBases) {
    Step step = nested(step_of_base(base, 2, chunks_of(base, 2).back(), 8), true, true);
    step.arrangement = Arrangement::three_phase;
    step.modules[0].warmup_units = 1;  // does not matter here
    SCOPED_TRACE(describe(step));
    auto schedule = make_schedule(step);
    EXPECT_EQ(all_problems(schedule), kNone);
    EXPECT_TRUE(Oracle(schedule).complete());
    for (int rank = 0; rank < 2; ++rank) {
      auto row = schedule.row(rank);
      for (int u = 0; u < 4; ++u) {  // share 2u + r is unit u's on rank r
        EXPECT_EQ(row[size_t(u)], encoder_forward(2 * u + rank));
        EXPECT_EQ(row[row.size() - 4 + size_t(u)], encoder_backward(2 * u + rank));
      }
      EXPECT_EQ(peak_live(schedule)[rank].units, (std::vector<double>{4, 1}));
    }
  }
}

TEST(ThreePhase, HoldsMoreEncoderUnitsTheMoreMicrobatches) {
  for (int64_t units : {2, 8, 32}) {
    Step step = nested_step(4, 2, 4 * units, true, false);
    step.arrangement = Arrangement::three_phase;
    for (const auto& peak : peak_live(make_schedule(step))) EXPECT_EQ(peak.units[0], double(units));
  }
}

}  // namespace
}  // namespace bigmac
