#include "bigmac/simulate/links.h"
#include "tests/analysis/support.h"

namespace bigmac {
namespace {

// Every operator as long as the costs say, times a factor.
Timeline with_factor(const Schedule& schedule, const Costs& costs,
                     const std::function<double(int, const Operator&)>& factor, double latency = 0) {
  Durations durations(schedule, costs);
  return timed(
      schedule, [&](int rank, const Operator& op) { return durations(rank, op) * factor(rank, op); },
      latency);
}

double length_without(const Schedule& schedule, const Costs& costs) {
  return simulate(schedule, costs).length();
}

TEST(PlantedCause, SlowRankOfSeveralStagesIsNamedWithWhatItCosts) {
  for (int slow = 0; slow < 4; ++slow) {
    SCOPED_TRACE(slow);
    auto schedule = make_schedule(backbone_step(4, 2, 16));
    auto timeline =
        with_factor(schedule, {}, [&](int rank, const Operator&) { return rank == slow ? 1.8 : 1; });
    auto analysis = analyse(recorded(schedule, timeline));
    const auto* finding = first_is(analysis, Fault::slow_rank);
    ASSERT_NE(finding, nullptr);
    EXPECT_EQ(finding->rank, slow);
    EXPECT_NEAR(finding->factor, 1.8, 1e-9);
    EXPECT_NEAR(finding->cost, 1 - length_without(schedule, {}) / timeline.length(), 1e-9);
    EXPECT_TRUE(analysis.verdict.starts_with(concat("rank ", slow, " is slow: its operators take 1.80x")));
  }
}

TEST(PlantedCause, SlowRankWithOneStageIsToldByItsEncoderOperators) {
  auto step = with_items(nested_step(4, 1, 16, true, false), 8);
  auto costs = module_costs(0.5, 1);
  auto schedule = make_schedule(step, costs);
  auto timeline = with_factor(schedule, costs, [](int rank, const Operator&) { return rank == 2 ? 1.5 : 1; });
  const auto analysis = analyse(recorded(schedule, timeline));
  const auto* finding = first_is(analysis, Fault::slow_rank);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rank, 2);
  EXPECT_NEAR(finding->factor, 1.5, 1e-9);
  // Its operators make the others wait.
  auto wait = std::find_if(analysis.waits.begin(), analysis.waits.end(),
                           [](const auto& group) { return group.cause == "slow rank 2"; });
  ASSERT_NE(wait, analysis.waits.end());
  EXPECT_GT(wait->share, 0.05);
}

TEST(PlantedCause, TwoSlowRanksAreBothNamed) {
  auto schedule = make_schedule(backbone_step(8, 2, 32));
  auto timeline = with_factor(schedule, {}, [](int rank, const Operator&) {
    return rank == 1 ? 1.3 : rank == 6 ? 1.6 : 1;
  });
  auto analysis = analyse(recorded(schedule, timeline));
  first_is(analysis, Fault::slow_rank);
  std::vector<int> ranks;
  for (const auto& finding : analysis.causes.findings)
    if (finding.fault == Fault::slow_rank) ranks.push_back(finding.rank);
  std::sort(ranks.begin(), ranks.end());
  EXPECT_EQ(ranks, (std::vector<int>{1, 6})) << all_of(analysis);
}

TEST(PlantedCause, ImageSixtyTimesLargerIsNamedWithItsRank) {
  auto step = with_items(nested_step(4, 2, 16, true, false), 8);
  auto costs = module_costs(0.5, 1);
  auto even = make_schedule(step, costs);
  step.modules[0].items[70].size *= 60;
  auto schedule = make_schedule(step, costs);
  auto analysis = analyse(recorded(schedule, simulate(schedule, costs)));
  const auto* finding = first_is(analysis, Fault::straggling_item);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->item, 70);
  EXPECT_EQ(finding->microbatch, 8);
  EXPECT_EQ(finding->module, "image");
  EXPECT_NEAR(finding->factor, 60, 1e-9);
  for (const auto& share : schedule.shares.list)
    for (uint32_t item : schedule.shares.items_of(share))
      if (item == 70) {
        EXPECT_EQ(finding->rank, share.rank);
      }
  double more = 1 - simulate(even, costs).length() / analysis.step;
  EXPECT_GT(more, 0.03);
  EXPECT_NEAR(finding->cost, more, 0.25 * more);
}

TEST(PlantedCause, SlowLinkIsNamedByItsRanks) {
  for (auto exchange : {Exchange::overlapped, Exchange::in_order, Exchange::batched}) {
    SCOPED_TRACE(name(exchange));
    auto schedule = make_schedule(backbone_step(4, 1, 16));
    Links links{.exchange = exchange, .inside = {0.02, 0}, .between = {1, 0}, .node_of_rank = {0, 0, 1, 1}};
    auto analysis = analyse(recorded(schedule, simulate(schedule, Costs{}, links)));
    const auto* finding = first_is(analysis, Fault::slow_link);
    if (finding == nullptr) continue;
    EXPECT_EQ(std::min(finding->rank, finding->peer), 1);
    EXPECT_EQ(std::max(finding->rank, finding->peer), 2);
    EXPECT_GT(finding->factor, 10);
    EXPECT_GT(finding->cost, 0.05);
  }
}

TEST(PlantedCause, BadLayerSplitIsNamedByItsStageAndAnotherSplitIsSuggested) {
  for (int64_t chunks : {1, 2}) {
    auto step = backbone_step(4, chunks, 16);
    SCOPED_TRACE(chunks);
    Costs costs{.forward = std::vector<double>(size_t(step.stages()), 1),
                .backward = std::vector<double>(size_t(step.stages()), 2)};
    costs.forward[2] = 1.6;
    costs.backward[2] = 3.2;
    auto schedule = make_schedule(step, costs);
    auto timeline = simulate(schedule, costs);
    auto analysis = analyse(recorded(schedule, timeline));
    const auto* finding = first_is(analysis, Fault::slow_stage);
    ASSERT_NE(finding, nullptr);
    EXPECT_EQ(finding->stage, 2);
    EXPECT_EQ(finding->rank, 2);
    EXPECT_NEAR(finding->factor, 1.6, 1e-9);
    // With one stage a rank, a device that is slow looks the same; the text says so.
    EXPECT_EQ(finding->text.find("or its device") != std::string::npos, chunks == 1) << finding->text;
    Costs even;
    double more = 0.6 / double(step.stages());
    even.forward = {1 + more};
    even.backward = {2 + 2 * more};
    double length = simulate(schedule, even).length();
    EXPECT_NEAR(finding->cost, 1 - length / timeline.length(), 1e-9);
    auto split = std::find_if(analysis.suggestions.list.begin(), analysis.suggestions.list.end(),
                              [](const auto& s) { return s.change == Change::split; });
    ASSERT_NE(split, analysis.suggestions.list.end());
    EXPECT_NEAR(split->step, length, 1e-9);
  }
}

// Fill's bubbles stay empty where its encoder may run two units ahead only.
TEST(PlantedCause, TooSmallWIsNamedWithABetterOne) {
  auto step = with_items(nested_step(8, 1, 64, true, false), 8);
  step.arrangement = Arrangement::nested_fill;
  step.modules[0].warmup_units = 2;
  auto costs = module_costs(1, 2);
  auto schedule = make_schedule(step, costs);
  auto analysis = analyse(recorded(schedule, simulate(schedule, costs)));
  SCOPED_TRACE(all_of(analysis));
  EXPECT_TRUE(analysis.verdict.starts_with("the encoder runs too few units ahead: W of 'image' = "))
      << analysis.verdict;
  EXPECT_EQ(analysis.suggestions.warmup_units[0], 2);
}

TEST(PlantedCause, TooLargeWIsNamedWithTheUnitsThatItHolds) {
  auto step = nested_step(4, 2, 64, true, false);
  step.modules[0].warmup_units = 7;
  auto costs = module_costs(0.5, 1);
  auto schedule = make_schedule(step, costs);
  auto analysis = analyse(recorded(schedule, simulate(schedule, costs)));
  EXPECT_TRUE(analysis.verdict.starts_with(
      "the encoder runs further ahead than it has to: W of 'image' = 3 instead of 7"))
      << all_of(analysis);
}

// The operators of a module and phase on a rank, without those of unit 0, put `later` operators of the
// backbone further back.
Schedule moved_back(const Schedule& schedule, int rank, Module module, Phase phase, size_t later) {
  auto rows = rows_of(schedule);
  auto& row = rows[size_t(rank)];
  for (size_t n = row.size(); n-- > 0;) {
    if (row[n].module != module || row[n].phase != phase || schedule.shares.list[row[n].index].unit == 0)
      continue;
    for (size_t at = n; at + 1 < row.size() && at < n + later && row[at + 1].module == Module::backbone; ++at)
      std::swap(row[at], row[at + 1]);
  }
  return make_table(schedule.step, rows, schedule.shares);
}

TEST(PlantedCause, LateGeneratorIsNamed) {
  auto step = nested_step(4, 1, 32, false, true);
  auto costs = module_costs(2, 4);
  auto schedule = moved_back(make_schedule(step, costs), 1, Module::generator, Phase::generate, 3);
  ASSERT_TRUE(check(schedule).empty()) << check(schedule)[0];
  auto timeline = simulate(schedule, costs);
  auto analysis = analyse(recorded(schedule, timeline));
  const auto* finding = first_is(analysis, Fault::late_generator);
  ASSERT_NE(finding, nullptr);
  EXPECT_GT(finding->cost, 0.02);
}

// A frozen encoder's units stand as late as they can; here their outputs then travel for long.
TEST(PlantedCause, LateEmbeddingIsNamed) {
  auto step = nested_step(4, 1, 32, true, false);
  step.modules[0].trained = false;
  auto costs = module_costs(1, 2);
  auto schedule = make_schedule(step, costs);
  Links links{.inside = {0, 1}, .between = {0, 1}, .stage_bytes = 0, .item_bytes = {16}};
  auto timeline = simulate(schedule, costs, links);
  double late = 1 - simulate(schedule, costs).length() / timeline.length();
  ASSERT_GT(late, 0.05);
  auto analysis = analyse(recorded(schedule, timeline));
  const auto* finding = first_is(analysis, Fault::late_embedding);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rank, 0);
  EXPECT_EQ(finding->stage, 0);
  EXPECT_NEAR(finding->cost, late, 1e-9);
}

TEST(PlantedCause, LongMicrobatchIsNamed) {
  auto schedule = make_schedule(backbone_step(4, 2, 16));
  auto timeline = with_factor(schedule, {}, [](int, const Operator& op) { return op.index == 7 ? 4 : 1; });
  const auto analysis = analyse(recorded(schedule, timeline));
  const auto* finding = first_is(analysis, Fault::long_microbatch);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->microbatch, 7);
  EXPECT_NEAR(finding->cost, 1 - length_without(schedule, {}) / timeline.length(), 1e-9);
}

TEST(PlantedCause, OperatorThatOnceTookLongIsNamed) {
  auto schedule = make_schedule(backbone_step(4, 2, 16));
  auto timeline = with_factor(schedule, {}, [](int rank, const Operator& op) {
    return rank == 1 && op == backbone_backward(1, 5) ? 8 : 1;
  });
  const auto analysis = analyse(recorded(schedule, timeline));
  const auto* finding = first_is(analysis, Fault::straggling_operator);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rank, 1);
  EXPECT_EQ(finding->stage, 5);
  EXPECT_EQ(finding->microbatch, 5);
  EXPECT_NEAR(finding->factor, 8, 1e-9);
}

TEST(PlantedCause, WorkThatOneRankDoesIsNamed) {
  auto step = nested_step(4, 2, 16, true, true);
  step.arrangement = Arrangement::megatron;
  Costs costs{.modules = {{0.5, 1}, {2, 4}}};
  auto schedule = make_schedule(step, costs);
  auto analysis = analyse(recorded(schedule, simulate(schedule, costs)));
  const auto* finding = first_is(analysis, Fault::misplaced_work);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rank, 3);
  EXPECT_EQ(finding->module, "picture");
  EXPECT_NEAR(finding->factor, 4, 1e-9);
  EXPECT_EQ(analysis.suggestions.arrangement, "megatron");
}

// Large outputs of the encoder, sent far ahead, stand before the LLM's gradients in the queue to rank 0.
TEST(PlantedCause, MessagesBehindOthersInTheirQueueAreNamed) {
  auto step = nested_step(2, 1, 32, true, false);
  step.modules[0].warmup_units = 6;
  auto costs = module_costs(1, 2);
  auto schedule = make_schedule(step, costs);
  Links links{.exchange = Exchange::in_order,
              .inside = {0, 1},
              .between = {0, 1},
              .stage_bytes = 0.01,
              .item_bytes = {6}};
  auto timeline = simulate(schedule, costs, links);
  links.exchange = Exchange::overlapped;
  double apart = 1 - simulate(schedule, costs, links).length() / timeline.length();
  ASSERT_GT(apart, 0.02);
  const auto analysis = analyse(recorded(schedule, timeline));
  auto finding = std::find_if(analysis.causes.findings.begin(), analysis.causes.findings.end(),
                              [](const auto& found) { return found.fault == Fault::message_order; });
  ASSERT_NE(finding, analysis.causes.findings.end()) << all_of(analysis);
  EXPECT_NEAR(finding->cost, apart, 0.1 * apart);
  EXPECT_EQ(finding->rank, 0);
}

}  // namespace
}  // namespace bigmac
