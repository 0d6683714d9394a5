#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "tests/apps/program.h"

using bigmac::concat;
using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;
using nlohmann::json;

namespace {

json simulate(const std::string& arguments) {
  auto outcome = run_bigmac("simulate --json " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out);
}

// docs/simulate.md, reference values.
struct Reference {
  int ranks, chunks, microbatches;
  double llm_only, with_encoder, with_both;
};

class ReferenceSteps : public testing::TestWithParam<Reference> {
 protected:
  std::string shape() const {
    return concat("--pp ", GetParam().ranks, " --vpp ", GetParam().chunks, " --microbatches ",
                  GetParam().microbatches, " --backbone 1,2 ");
  }
};

}  // namespace

TEST_P(ReferenceSteps, TakeTheLlmAlone) {
  auto report = simulate(shape() + "--schedule llm-only");
  EXPECT_DOUBLE_EQ(report["makespan"], GetParam().llm_only);
  EXPECT_DOUBLE_EQ(report["ratio_to_ideal"], 1);
}

TEST_P(ReferenceSteps, ReachTheIdealWithANestedEncoder) {
  auto report = simulate(shape() + "--schedule nested --encoder 0.5,1");
  EXPECT_DOUBLE_EQ(report["makespan"], GetParam().with_encoder);
  EXPECT_DOUBLE_EQ(report["ideal"], GetParam().with_encoder);
}

TEST_P(ReferenceSteps, ReachTheIdealWithANestedEncoderAndGenerator) {
  auto report = simulate(shape() + "--schedule nested --encoder 0.5,1 --generator 2,4");
  EXPECT_DOUBLE_EQ(report["makespan"], GetParam().with_both);
  EXPECT_DOUBLE_EQ(report["ideal"], GetParam().with_both);
  for (const auto& rank : report["ranks"]) {
    EXPECT_LE(rank["peak_units"]["encoder"], 3);
    EXPECT_EQ(rank["peak_units"]["generator"], 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Design, ReferenceSteps,
                         testing::Values(Reference{4, 1, 16, 57, 63, 87}, Reference{4, 2, 32, 201, 213, 261},
                                         Reference{8, 2, 64, 405, 417, 465},
                                         Reference{8, 4, 64, 789, 801, 849},
                                         Reference{4, 4, 64, 777, 801, 897}),
                         [](const auto& test) {
                           return concat("P", test.param.ranks, "V", test.param.chunks, "M",
                                         test.param.microbatches);
                         });

TEST(SimulateCommand, CountsTheChunkForwardsInFlight) {
  const std::string shape = "--pp 8 --vpp 2 --microbatches 64 --encoder 0.5,1";
  EXPECT_EQ(simulate(shape)["ranks"][0]["peak_in_flight"], 23);
  EXPECT_EQ(simulate(shape + " --generator 2,4")["ranks"][0]["peak_in_flight"], 31);
}

TEST(SimulateCommand, ReportsEveryKeyOfTheJson) {
  auto report = simulate("--pp 4 --microbatches 16 --encoder 0.5,1");
  for (const char* key : {"makespan", "ideal", "ratio_to_ideal", "lower_bound", "ratio_to_lower_bound",
                          "idle_over_total", "idle_over_busy", "unit_imbalance"})
    EXPECT_TRUE(report[key].is_number()) << key;
  ASSERT_EQ(report["ranks"].size(), 4u);
  for (const char* key : {"rank", "busy", "idle", "peak_in_flight"})
    EXPECT_TRUE(report["ranks"][3][key].is_number()) << key;
  EXPECT_EQ(report["ranks"][3]["rank"], 3);
  EXPECT_DOUBLE_EQ(report["ranks"][3]["busy"].get<double>() + report["ranks"][3]["idle"].get<double>(), 63);
  for (const char* key : {"order", "split", "explain"}) EXPECT_FALSE(report.contains(key)) << key;
}

// docs/simulate.md: 4 units of 0.5 more than the backbone's 57.
TEST(SimulateCommand, CountsNoBackwardOfAFrozenEncoder) {
  auto report = simulate("--pp 4 --microbatches 16 --encoder 0.5,1 --frozen");
  EXPECT_DOUBLE_EQ(report["makespan"], 59);
  EXPECT_DOUBLE_EQ(report["ideal"], 59);
  EXPECT_DOUBLE_EQ(report["lower_bound"], 50);
  auto text = run_bigmac("simulate --pp 4 --microbatches 16 --encoder image=0.5,1 --frozen image").out;
  EXPECT_TRUE(contains(text, "LLM chunk 1 + 2, image (frozen) 0.5")) << text;
}

TEST(SimulateCommand, HoldsMoreEncoderUnitsInThreePhases) {
  const std::string shape = "--pp 4 --microbatches 64 --encoder 0.5,1 --schedule ";
  EXPECT_EQ(simulate(shape + "nested")["ranks"][0]["peak_units"]["encoder"], 3);
  EXPECT_EQ(simulate(shape + "three-phase")["ranks"][0]["peak_units"]["encoder"], 16);
}

TEST(SimulateCommand, ShowsWhatTheFirstStagesEncoderCostsMegatron) {
  const std::vector<std::pair<std::string, double>> steps{
      {"0,0", 33}, {"0.5,1", 40.5}, {"1,2", 51}, {"2,4", 72}};
  for (const auto& [work, step] : steps)
    EXPECT_DOUBLE_EQ(simulate("--pp 4 --microbatches 8 --schedule megatron --encoder " + work)["makespan"],
                     step);
}

TEST(SimulateCommand, NamesTheSplitOfDisttrain) {
  const std::string step =
      "--pp 8 --microbatches 64 --encoder 0.5,1 --generator 2,4 --items 8 --schedule disttrain";
  auto report = simulate(step);
  auto split = report["split"];
  EXPECT_EQ(split["encoder"].get<int>() + split["backbone"].get<int>() + split["generator"].get<int>(), 8);
  EXPECT_FALSE(report.contains("ideal"));
  EXPECT_TRUE(contains(run_bigmac("simulate " + step).out, "\nranks: encoder "));
  // The backbone's work is that of its own stages.
  double work = 0;
  for (const auto& rank : report["ranks"]) work += rank["busy"].get<double>();
  EXPECT_NEAR(work, 64 * (8 * 3 + 1.5 + 6), 1e-6);
}

TEST(SimulateCommand, TakesABackwardInTwoParts) {
  const std::string step = "--pp 4 --microbatches 8 --base zb-h1 --backbone ";
  EXPECT_EQ(simulate(step + "1,1,1"), simulate(step + "1,2"));
  EXPECT_NE(simulate(step + "1,1.5,0.5")["makespan"], simulate(step + "1,2")["makespan"]);
}

TEST(SimulateCommand, TakesAsLongAsTorchsOwnZeroBubbleTables) {
  // P=4, F = I = W = 1; the steps of shared/data/torch-schedules.
  EXPECT_DOUBLE_EQ(simulate("--pp 4 --vpp 2 --microbatches 8 --base zb-v")["makespan"], 6 * 8 + 3);
}

TEST(SimulateCommand, AddsUpTheLayersOfALayout) {
  auto busy = [](const std::string& options) {
    std::vector<double> times;
    auto report = simulate("--pp 2 --microbatches 1 --backbone 1,2 " + options);
    for (const auto& rank : report["ranks"]) times.push_back(rank["busy"]);
    return times;
  };
  using Times = std::vector<double>;
  EXPECT_EQ(busy("--layout Ettt|tL"), (Times{9, 3}));
  EXPECT_EQ(busy("--layout Ettt|tL --embedding 0.5,0 --head 1,3"), (Times{9.5, 7}));
  EXPECT_EQ(busy("--layout Et||ttt|L"), (Times{12, 0}));
  EXPECT_EQ(busy("--layout Ett|mL"), (Times{6, 3}));
  EXPECT_EQ(busy("--embedding 0.5,0 --head 1,3"), (Times{3.5, 7}));
}

TEST(SimulateCommand, AddsTheLatencyOfMessages) {
  // The first forward passes 3 links, the last backward 3 more.
  EXPECT_DOUBLE_EQ(simulate("--pp 4 --microbatches 1 --latency 0.5")["makespan"], 4 * 3 + 6 * 0.5);
}

TEST(SimulateCommand, AddsWhatAMessageTakesOnTheLink) {
  EXPECT_DOUBLE_EQ(simulate("--pp 4 --microbatches 1 --latency 0.5 --transfer 0.25")["makespan"],
                   4 * 3 + 6 * 0.75);
  // Rank 1's item is on its way from 1 to 4, beside other work; the gradient from 10 to 13, beside none.
  const std::string step = "--pp 2 --microbatches 2 --encoder 1,1 --schedule three-phase";
  EXPECT_DOUBLE_EQ(simulate(step)["makespan"], 11);
  EXPECT_DOUBLE_EQ(simulate(step + " --transfer 0,3")["makespan"], 14);
}

TEST(SimulateCommand, NamesTimeOfExchangesAndOfMessagesOutOfOrderApartFromBubbles) {
  const std::string step = "--pp 8 --vpp 2 --microbatches 64 --latency 0.01 --transfer 0.3 ";
  auto overlapped = simulate(step), queued = simulate(step + "--exchange in-order"),
       batched = simulate(step + "--exchange batched");
  EXPECT_EQ(overlapped["transfer_over_total"], 0);
  EXPECT_EQ(overlapped["order_over_total"], 0);
  EXPECT_GE(queued["makespan"], overlapped["makespan"]);
  EXPECT_GT(batched["makespan"], queued["makespan"]);
  EXPECT_GT(batched["transfer_over_total"], 0.05);
  auto text = run_bigmac("simulate " + step + "--exchange batched").out;
  EXPECT_TRUE(contains(text, "exchanging")) << text;
}

TEST(SimulateCommand, RefusesTransfersAndExchangesThatAreNone) {
  const std::string step = "simulate --pp 2 --microbatches 4 ";
  for (const char* value : {"x", "-1", "1,2,3", "nan", "1,"}) {
    auto outcome = run_bigmac(step + "--transfer=" + value);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(
        contains(outcome.err, concat("--transfer: must be one or two numbers from 0 to 1e+12 as STAGE or "
                                     "STAGE,ITEM, such as 0.1,0.02, got '",
                                     value, "'")))
        << outcome.err;
  }
  auto outcome = run_bigmac(step + "--exchange overlaped");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "did you mean 'overlapped'?")) << outcome.err;
}

TEST(SimulateCommand, LeavesEncoderAndGeneratorOutOfAnLlmOnlyStepAndSaysSo) {
  const std::string shape = "simulate --json --pp 4 --microbatches 16 --schedule llm-only";
  auto with = run_bigmac(shape + " --encoder 0.5,1 --generator 2,4");
  EXPECT_EQ(with.exit_code, 0);
  EXPECT_EQ(with.out, run_bigmac(shape).out);
  EXPECT_EQ(
      with.err,
      "bigmac: note: an llm-only step has no encoder and generator operators: --encoder and --generator "
      "have no effect\n");
}

TEST(SimulateCommand, SaysThatThereIsNothingToNest) {
  auto outcome = run_bigmac("simulate --json --pp 4 --microbatches 16 --schedule nested");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err,
            "bigmac: note: without --encoder or --generator the schedule nested is the LLM's own\n");
  EXPECT_DOUBLE_EQ(json::parse(outcome.out)["makespan"], 57);
}

TEST(SimulateCommand, PrintsATableForPeople) {
  auto outcome = run_bigmac("simulate --pp 2 --microbatches 4 --encoder 0.5,1 --generator 2,4");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(
      outcome.out,
      "nested schedule, P=2 V=1 M=4, base 1f1b\n"
      "forward + backward time: LLM chunk 1 + 2, encoder 0.5 + 1, generator 2 + 4\n"
      "\n"
      "makespan             30  time of the whole step\n"
      "ideal                30  plain LLM step + (encoder + generator work) / P: what unlimited memory would "
      "give\n"
      "ratio to ideal    1.000  makespan / ideal\n"
      "lower bound          27  max(total work / P, longest chain of dependencies): no schedule is faster\n"
      "ratio to bound    1.111  makespan / lower bound\n"
      "idle/total      10.00 %  idle time / (P * makespan)\n"
      "idle/busy       11.11 %  idle time / time inside operators\n"
      "unit imbalance    1.000  encoder and generator units: time of their slowest ranks / of the mean rank\n"
      "\n"
      "rank  busy  idle  busy / makespan               LLM chunks  encoder units  generator units\n"
      "   0    27     3  ##################..  90.0 %           4              2                1\n"
      "   1    27     3  ##################..  90.0 %           3              2                1\n"
      "\n"
      "LLM chunks and units: the most that a rank holds at once, forwards whose backward has not run\n");
}

TEST(SimulateCommand, PrintsTheItemsAndTheirOrderWhereThereIsSomethingToSay) {
  auto text =
      run_bigmac("simulate --pp 4 --microbatches 8 --generator 2,4 --items random:1,0.5 --order balanced")
          .out;
  EXPECT_TRUE(contains(text, "\nitems: generator 8, at most 1 a microbatch; sizes "));
  EXPECT_TRUE(contains(text, "\norder of the microbatches: "));
  text = run_bigmac("simulate --pp 4 --microbatches 8 --generator 2,4").out;
  EXPECT_FALSE(contains(text, "items:"));
  EXPECT_FALSE(contains(text, "order of"));
}

TEST(SimulateCommand, ShowsShortTimesWithTheDigitsTheyNeed) {
  auto text = run_bigmac("simulate --pp 4 --microbatches 16 --backbone 0.001,0.00213").out;
  EXPECT_TRUE(contains(text, "LLM chunk 0.001 + 0.00213"));
  EXPECT_TRUE(contains(text, "makespan        0.05947  "));
}

TEST(SimulateCommand, ShowsOnlyTheModulesOfTheStep) {
  auto text = run_bigmac("simulate --pp 4 --microbatches 16").out;
  EXPECT_FALSE(contains(text, "encoder units"));
  EXPECT_FALSE(contains(text, "unit imbalance"));
}

TEST(SimulateCommand, WritesATraceWithAUnitOfTimeAsAMillisecond) {
  TemporaryFile file("trace.json");
  auto outcome = run_bigmac("simulate --pp 2 --microbatches 2 --encoder 0.5,1 --trace " + file.path());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(contains(outcome.out, "trace: " + file.path()));
  auto trace = json::parse(file.text());
  int operators = 0;
  double end = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++operators;
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(operators, 12);
  EXPECT_DOUBLE_EQ(end, 1000 * simulate("--pp 2 --microbatches 2 --encoder 0.5,1")["makespan"].get<double>());
}

TEST(SimulateCommand, PrintsNothingButJsonBesidesATrace) {
  TemporaryFile file("quiet_trace.json");
  auto outcome = run_bigmac("simulate --json --pp 2 --microbatches 2 --trace " + file.path());
  EXPECT_TRUE(json::accept(outcome.out));
}
