#include "tests/analysis/support.h"

namespace bigmac {
namespace {

constexpr int kRounds = 60;

struct Case {
  Schedule schedule;
  Timeline timeline;
  std::string words;
};

Timeline random_timeline(Random& random, const Schedule& schedule, double noise) {
  Costs costs{.modules = {{0.5, 1}}};
  int64_t stages = schedule.step.stages();
  if (integer(random, 0, 1)) {
    costs.forward.clear();
    costs.backward.clear();
    for (int64_t s = 0; s < stages; ++s) {
      costs.forward.push_back(uniform(random, 0.5, 2));
      costs.backward.push_back(uniform(random, 1, 4));
    }
  }
  if (integer(random, 0, 1)) {
    Durations durations(schedule, costs);
    std::vector<double> factors;
    return timed(
        schedule,
        [&](int rank, const Operator& op) {
          uint64_t seed = (uint64_t(op.index) << 24) ^ (uint64_t(op.chunk) << 12) ^
                          (uint64_t(op.phase) << 8) ^ (uint64_t(op.module) << 4) ^ uint64_t(rank);
          Random own(seed);
          return durations(rank, op) * uniform(own, 1 - noise, 1 + noise);
        },
        uniform(random, 0, 0.3));
  }
  Links links{.exchange = Exchange(integer(random, 0, 2)),
              .inside = {0.1, 0.01},
              .between = {0.3, 0.02},
              .stage_bytes = 5};
  if (integer(random, 0, 1))
    for (int64_t r = 0; r < schedule.step.ranks; ++r) links.node_of_rank.push_back(int32_t(r / 2));
  links.item_bytes = {1};
  return simulate(schedule, costs, links);
}

Case random_case(Random& random) {
  Base base = kBases[size_t(integer(random, 0, 5))];
  auto chunks = chunks_of(base, 3);
  auto step =
      step_of_base(base, integer(random, 1, 5),
                   chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))], integer(random, 1, 12));
  bool encoder = integer(random, 0, 2) > 0, generator = integer(random, 0, 2) == 0;
  if (encoder || generator) {
    step = nested(step, encoder, generator);
    constexpr Arrangement kArrangements[] = {Arrangement::nested, Arrangement::nested_fill,
                                             Arrangement::three_phase, Arrangement::optimus,
                                             Arrangement::megatron};
    step.arrangement = kArrangements[size_t(integer(random, 0, 4))];
    for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
  }
  auto schedule = make_schedule(step, module_costs(0.5, 1));
  auto timeline = random_timeline(random, schedule, 0.5);
  return {schedule, timeline, describe(step)};
}

TEST(StepModel, GivesTheRecordedTimelineAgain) {
  Random random(kSeed);
  for (int round = 0; round < kRounds; ++round) {
    auto [schedule, timeline, words] = random_case(random);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, ": ", words));
    auto model = model_of(schedule, timeline);
    auto ends = run(model);
    for (size_t i = 0; i < model.count(); ++i) {
      ASSERT_NEAR(ends[i], model.slices[i].end, 1e-9) << describe(schedule, model.slices[i].op);
      ASSERT_GE(model.own[i], 0);
    }
    EXPECT_NEAR(length_of(model), timeline.length(), 1e-9);
  }
}

TEST(Analysis, PartsAddUpToTheStep) {
  Random random(kSeed + 1);
  for (int round = 0; round < kRounds; ++round) {
    auto [schedule, timeline, words] = random_case(random);
    SCOPED_TRACE(concat("seed ", kSeed + 1, " round ", round, ": ", words));
    auto analysis = analyse(recorded(schedule, timeline));
    const auto& causes = analysis.causes;
    double sum = causes.operators + causes.ramp + causes.ends;
    for (const auto& finding : causes.findings) sum += finding.cost;
    EXPECT_NEAR(sum, 1, 1e-9) << all_of(analysis);
    double idle = 0;
    for (const auto& time : analysis.ranks) {
      EXPECT_NEAR(time.busy + time.transfer + time.order + time.wait + time.idle, timeline.length(), 1e-9);
      EXPECT_GE(time.idle, 0);
      idle += time.order + time.wait + time.idle;
    }
    double waits = 0;
    for (const auto& group : analysis.waits) waits += group.share;
    EXPECT_NEAR(waits, idle / (timeline.length() * double(schedule.ranks())), 1e-6);
    double path = 0;
    for (const auto& part : analysis.path.parts) path += part.share;
    EXPECT_NEAR(path, 1, 1e-9);
    const auto& gap = analysis.gap;
    EXPECT_NEAR(gap.operators + gap.links + gap.between + gap.order + gap.ends, gap.difference(), 1e-9);
    EXPECT_NEAR(gap.order, 0, 1e-9);
    EXPECT_LE(analysis.base_bubble, std::max(0.0, causes.ramp));
  }
}

// Nothing is slower than its like, and nothing is late: no accusation, at any counts, with a little noise.
TEST(Analysis, AccusesNothingInAnEvenStep) {
  Random random(kSeed + 2);
  for (int round = 0; round < kRounds; ++round) {
    int64_t ranks = integer(random, 2, 6), chunks = integer(random, 1, 3);
    auto step = backbone_step(ranks, chunks, ranks * integer(random, 3, 6));
    bool encoder = integer(random, 0, 2) > 0, generator = integer(random, 0, 2) == 0;
    if (encoder || generator) step = nested(step, encoder, generator);
    auto costs = module_costs(0.5, 1);
    auto schedule = make_schedule(step, costs);
    SCOPED_TRACE(concat("seed ", kSeed + 2, " round ", round, ": ", describe(step)));
    Durations durations(schedule, costs);
    auto timeline = timed(schedule, [&](int rank, const Operator& op) {
      return durations(rank, op) * uniform(random, 0.98, 1.02);
    });
    auto analysis = analyse(recorded(schedule, timeline));
    for (const auto& finding : analysis.causes.findings)
      EXPECT_LT(finding.cost, kLeastCost) << all_of(analysis);
    EXPECT_TRUE(analysis.verdict.starts_with("no rank, stage, link or item stands out")) << all_of(analysis);
    EXPECT_GT(analysis.base_bubble, 0);
  }
}

TEST(Analysis, KnowsWhatTheStepWasRunAs) {
  for (auto arrangement : {Arrangement::nested, Arrangement::three_phase, Arrangement::megatron})
    for (bool generator : {false, true}) {
      auto step = nested_step(4, 2, 16, true, generator);
      step.arrangement = arrangement;
      Costs costs{.modules = {{0.5, 1}}};
      auto schedule = make_schedule(step, costs);
      auto found = analyse(recorded(schedule, simulate(schedule, costs))).suggestions;
      EXPECT_EQ(found.arrangement, name(arrangement)) << generator;
      EXPECT_EQ(found.base, "interleaved") << generator;
    }
}

TEST(Suggestion, GainsWhatTheSimulatorSays) {
  auto step = nested_step(4, 1, 16, true, false);
  step = with_items(step, 8);
  step.arrangement = Arrangement::three_phase;
  auto costs = module_costs(0.5, 1);
  auto schedule = make_schedule(step, costs);
  auto timeline = simulate(schedule, costs);
  auto found = analyse(recorded(schedule, timeline)).suggestions;
  EXPECT_NEAR(found.own, timeline.length(), 1e-9);
  auto expect = [&](Change change, const Step& other, const Costs& with) {
    double length = simulate(make_schedule(other, with), with).length();
    auto at = std::find_if(found.list.begin(), found.list.end(), [&](const auto& s) {
      return s.change == change && std::abs(s.step - length) < 1e-9;
    });
    ASSERT_NE(at, found.list.end()) << name(change) << " " << length;
    EXPECT_NEAR(at->gain, 1 - length / timeline.length(), 1e-9);
  };
  auto other = step;
  other.arrangement = Arrangement::nested_fill;
  expect(Change::arrangement, other, costs);
  other = step;
  other.base = Base::interleaved;
  other.chunks = 2;
  auto halved = costs;
  halved.forward = {0.5};
  halved.backward = {1};
  expect(Change::chunks, other, halved);
  for (size_t n = 0; n < found.list.size(); ++n) {
    EXPECT_GE(found.list[n].gain, kLeastGain);
    if (n > 0) {
      EXPECT_LE(found.list[n].gain, found.list[n - 1].gain);
    }
  }
}

TEST(StepGap, TellsOperatorsLinksAndOrderApart) {
  auto step = backbone_step(4, 2, 16);
  auto schedule = make_schedule(step);
  auto base = recorded(schedule, simulate(schedule, Costs{}));
  auto gap_of = [&](const Schedule& table, const Timeline& timeline) {
    auto recording = recorded(table, timeline);
    return gap_between(recording, model_of(recording.schedule, recording.timeline), base);
  };
  auto slower = gap_of(schedule, simulate(schedule, Costs{.forward = {1.1}, .backward = {2.2}}));
  EXPECT_NEAR(slower.operators, slower.difference(), 1e-9);
  EXPECT_NEAR(slower.difference(), 0.1 * base.timeline.length(), 1e-9);
  auto linked = gap_of(schedule, simulate(schedule, Costs{.latency = 0.25}));
  EXPECT_GT(linked.links, 0);
  EXPECT_NEAR(linked.links, linked.difference(), 1e-9);
  auto gpipe = make_schedule(step_of_base(Base::gpipe, 4, 1, 8)),
       other = make_schedule(backbone_step(4, 1, 8));
  Costs costs{.latency = 0.5};
  auto recording = recorded(other, simulate(other, costs));
  auto ordered = gap_between(recording, model_of(recording.schedule, recording.timeline),
                             recorded(gpipe, simulate(gpipe, costs)));
  EXPECT_GT(ordered.order, 1);
  EXPECT_NEAR(ordered.order, ordered.difference(), 1e-9);
}

TEST(StepGap, RefusesOtherSteps) {
  auto schedule = make_schedule(backbone_step(4, 2, 16)), other = make_schedule(backbone_step(4, 2, 12));
  auto recording = recorded(schedule, simulate(schedule, Costs{}));
  auto model = model_of(recording.schedule, recording.timeline);
  auto told = refusal([&] { gap_between(recording, model, recorded(other, simulate(other, Costs{}))); });
  ASSERT_TRUE(told);
  EXPECT_NE(told->find("P=4 V=2 M=16"), std::string::npos) << *told;
  EXPECT_NE(told->find("P=4 V=2 M=12"), std::string::npos) << *told;
}

TEST(Analysis, RefusesATimelineOfAnotherSchedule) {
  auto schedule = make_schedule(backbone_step(4, 1, 8));
  auto timeline = simulate(schedule, Costs{});
  auto recording = recorded(schedule, timeline);
  recording.timeline.rows[2].operators.pop_back();
  auto told = refusal([&] { analyse(recording); });
  ASSERT_TRUE(told);
  EXPECT_NE(told->find("rank 2 did not run the operators of its schedule"), std::string::npos) << *told;
  EXPECT_TRUE(refusal([] { analyse(Recording{.name = "nothing", .schedule = {}, .timeline = {}}); }));
}

TEST(MemoryPeaks, SayWhatIsHeld) {
  auto step = nested_step(2, 1, 6, true, false);
  auto costs = module_costs(0.5, 1);
  auto schedule = make_schedule(step, costs);
  auto recording = recorded(schedule, simulate(schedule, costs));
  EXPECT_TRUE(memory_peaks(recording).empty());
  // Largest while the last forward of rank 0 runs.
  Slice last;
  for (const auto& slice : recording.timeline.rows[0].operators)
    if (slice.op == backbone_forward(0, 5)) last = slice;
  double middle = (last.start + last.end) / 2;
  recording.memory = {{{0, middle, last.end}, {1, 7, 2}}, {{0}, {3}}};
  auto peaks = memory_peaks(recording);
  ASSERT_EQ(peaks.size(), 2u);
  EXPECT_EQ(peaks[0].bytes, 7);
  EXPECT_EQ(peaks[0].time, middle);
  EXPECT_EQ(peaks[0].at, "backbone F chunk 0 microbatch 5");
  EXPECT_EQ(peaks[0].in_flight, 2);
  ASSERT_EQ(peaks[0].items.size(), 1u);
  EXPECT_EQ(peaks[0].items[0].module, "image");
  EXPECT_GT(peaks[0].items[0].count, 0);
  EXPECT_EQ(peaks[1].bytes, 3);
  EXPECT_FALSE(peaks[1].time);
  EXPECT_EQ(peaks[1].in_flight, 1);
}

}  // namespace
}  // namespace bigmac
