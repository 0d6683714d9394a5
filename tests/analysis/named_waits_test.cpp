#include "bigmac/analysis/named_waits.h"

#include <set>

#include "bigmac/analysis/sentences.h"
#include "tests/analysis/support.h"

namespace bigmac {
namespace {

// Two ranks, two microbatches, every operator a second:
//   rank 0  F0 F1 .. B0 .. B1     rank 1  .. F0 B0 F1 B1 ..
struct TwoRanks {
  Schedule schedule = make_schedule(backbone_step(2, 1, 2));
  Timeline timeline = timed(schedule, [](int, const Operator&) { return 1; });

  // Before that operator of rank 0.
  WaitKind before(size_t position) const {
    auto model = model_of(schedule, timeline);
    const auto& slice = timeline.rows[0].operators[position];
    auto waits = named_waits(model, 100);
    for (const auto& wait : waits[0])
      if (wait.next >= 0 && model.slices[size_t(wait.next)].op == slice.op) return wait.kind;
    ADD_FAILURE() << "no wait";
    return {};
  }
  // Rank 0 runs these operators later, from one on.
  void delay(size_t position, double by) {
    auto& row = timeline.rows[0].operators;
    for (size_t n = position; n < row.size(); ++n) {
      row[n].start += by;
      row[n].end += by;
      timeline.end = std::max(timeline.end, row[n].end);
    }
  }
  void spend(Spent spent, double start, double end) {
    timeline.rows[0].intervals.push_back({spent, 1, timeline.rows[0].operators[2].op, start, end});
  }
};

TEST(NamedWaits, AreWhereARankRunsNothing) {
  TwoRanks run;
  auto waits = named_waits(model_of(run.schedule, run.timeline), 100);
  ASSERT_EQ(waits[0].size(), 2u);
  EXPECT_EQ(waits[0][0].start, 2);
  EXPECT_EQ(waits[0][0].end, 3);
  EXPECT_EQ(waits[0][0].kind, WaitKind::stage);
  EXPECT_EQ(waits[0][0].culprit, waits[0][0].input);
  EXPECT_EQ(waits[0][0].culprit_time, 1);
  ASSERT_EQ(waits[1].size(), 2u);
  EXPECT_EQ(waits[1][0].kind, WaitKind::fill);
  EXPECT_EQ(waits[1][1].kind, WaitKind::drain);
  EXPECT_EQ(waits[1][1].next, -1);
}

TEST(NamedWaits, AreOfTheLinkWhereMostOfThemLiesBehindTheInputsEnd) {
  TwoRanks run;
  run.delay(2, 1.5);
  EXPECT_EQ(run.before(2), WaitKind::link);
  run.spend(Spent::order, 3, 4.5);
  EXPECT_EQ(run.before(2), WaitKind::order);
}

TEST(NamedWaits, AreTransfersWhereMostOfThemIsSpentSo) {
  TwoRanks run;
  run.delay(2, 1.5);
  run.spend(Spent::transfer, 2, 4);
  EXPECT_EQ(run.before(2), WaitKind::transfer);
}

TEST(NamedWaits, AreTheHostsOrAnExchangesWhereNothingWasMissing) {
  TwoRanks run;
  run.delay(1, 5);
  EXPECT_EQ(run.before(1), WaitKind::host);
  run.timeline.rows[0].intervals.push_back({Spent::wait, 1, run.timeline.rows[0].operators[1].op, 1, 5});
  EXPECT_EQ(run.before(1), WaitKind::exchange);
}

TEST(NamedWaits, AreOfTheModuleThatWasLate) {
  for (bool encoder : {true, false}) {
    auto step = nested_step(2, 1, 4, encoder, !encoder);
    step.arrangement = Arrangement::megatron;
    auto schedule = make_schedule(step, module_costs(4, 8));
    auto waits = named_waits(model_of(schedule, simulate(schedule, module_costs(4, 8))), 1000);
    std::set<WaitKind> kinds;
    for (const auto& of_rank : waits)
      for (const auto& wait : of_rank) kinds.insert(wait.kind);
    EXPECT_EQ(kinds.count(encoder ? WaitKind::encoder : WaitKind::generator), 1u);
    EXPECT_EQ(kinds.count(encoder ? WaitKind::generator : WaitKind::encoder), 0u);
  }
}

TEST(NamedWaits, AreAllOfTheTimeThatGroupsDivide) {
  auto schedule = make_schedule(nested_step(4, 2, 8, true, true), module_costs(0.5, 1));
  auto recording = recorded(schedule, simulate(schedule, module_costs(0.5, 1)));
  auto model = model_of(recording.schedule, recording.timeline);
  double waits = 0, groups = 0;
  for (const auto& of_rank : named_waits(model, 100'000))
    for (const auto& wait : of_rank) waits += wait.length();
  for (const auto& group : group_waits(recording.schedule, model, find_causes(recording.schedule, model)))
    groups += group.share;
  EXPECT_NEAR(waits, groups * 4 * recording.timeline.length(), 1e-9);
}

TEST(NamedWaits, AreTheLongestOfEachRankWhereThereAreTooMany) {
  auto schedule = make_schedule(backbone_step(4, 1, 16));
  auto model = model_of(schedule, simulate(schedule, Costs{}));
  auto all = named_waits(model, 1000), few = named_waits(model, 8);
  for (size_t rank = 0; rank < 4; ++rank) {
    ASSERT_LE(few[rank].size(), 2u);
    auto longer = [](const auto& a, const auto& b) { return a.length() < b.length(); };
    EXPECT_EQ(std::max_element(few[rank].begin(), few[rank].end(), longer)->length(),
              std::max_element(all[rank].begin(), all[rank].end(), longer)->length());
  }
}

TEST(NamedWaits, HaveKindsWithNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (int kind = 0; kind < kWaitKinds; ++kind) names.insert(name(WaitKind(kind)));
  EXPECT_EQ(names.size(), size_t(kWaitKinds));
}

// A recording that lacks a rank and the end of another.
Recording incomplete() {
  auto schedule = make_schedule(nested_step(3, 2, 6, true, false), module_costs(0.5, 1));
  auto recording = recorded(schedule, simulate(schedule, module_costs(0.5, 1)));
  recording.missing = {"rank 1 and more"};
  recording.timeline.rows[1].operators.clear();
  recording.timeline.rows[2].operators.resize(10);
  auto& table = recording.schedule;
  table.operators.clear();
  table.row_begin = {0};
  for (const auto& row : recording.timeline.rows) {
    for (const auto& slice : row.operators) table.operators.push_back(slice.op);
    table.row_begin.push_back(int64_t(table.operators.size()));
  }
  return recording;
}

TEST(IncompleteStep, IsAnalysedAsFarAsItGoes) {
  auto recording = incomplete();
  auto analysis = analyse(recording);
  EXPECT_FALSE(analysis.whole);
  EXPECT_EQ(analysis.verdict, "the step is not whole: rank 1 and more");
  double shares = 0;
  bool unknown = false, behind = false;
  for (const auto& group : analysis.waits) {
    shares += group.share;
    unknown |= group.cause == "what it needed was not recorded";
    behind |= group.cause == "what was not recorded" && group.rank == 2;
  }
  EXPECT_TRUE(unknown);
  EXPECT_TRUE(behind);
  EXPECT_NEAR(shares, analysis.idle_over_total, 1e-9);
  for (const auto& time : analysis.ranks)
    EXPECT_NEAR(time.busy + time.transfer + time.order + time.wait + time.idle, analysis.step, 1e-9);
  EXPECT_TRUE(analysis.notes.back().find("left out") != std::string::npos);
  EXPECT_TRUE(analysis.suggestions.list.empty());
}

TEST(IncompleteStep, IsExplainedAsFarAsItGoes) {
  auto recording = incomplete();
  auto explained = explain(recording, 1000);
  EXPECT_EQ(explained.sentences.front(), "The step is not whole: rank 1 and more.");
  ASSERT_EQ(explained.waits.size(), 3u);
  EXPECT_EQ(explained.waits[1].size(), 1u);
  EXPECT_EQ(explained.waits[1][0].kind, WaitKind::drain);
}

TEST(Sentences, SayWhatTheReportSays) {
  auto schedule = make_schedule(backbone_step(4, 1, 16));
  auto slow = [](int rank, const Operator&) { return rank == 2 ? 2.0 : 1.0; };
  auto recording = recorded(schedule, timed(schedule, slow));
  auto analysis = analyse(recording);
  auto said = explain(recording, 100).sentences;
  auto verdict = analysis.verdict + ".";
  verdict[0] = said[0][0];
  EXPECT_TRUE(said[0].starts_with(verdict)) << said[0] << "\n" << verdict;
}

}  // namespace
}  // namespace bigmac
