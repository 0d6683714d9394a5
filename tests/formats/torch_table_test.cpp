#include "bigmac/formats/torch_table.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/check.h"
#include "bigmac/simulate/simulate.h"
#include "tests/formats/support.h"

namespace bigmac {
namespace {

using Problems = std::vector<std::string>;

TorchTable parse(const std::string& text) {
  return parse_torch_csv(text, "table.csv");
}

Schedule schedule_of(const std::string& text) {
  return to_schedule(parse(text), "table.csv");
}

std::string all(const Problems& problems) {
  std::string text;
  for (const auto& problem : problems) text += problem + "\n";
  return text;
}

TEST(TorchTable, PutsEachStageOnTheRankOfItsRowInAscendingChunks) {
  auto schedule = schedule_of("0F0,,3F0,3I0,0B0,3W0\n1F0,2F0,2B0,1B0,\n");
  const Step& step = schedule.step;
  EXPECT_EQ(step.ranks, 2);
  EXPECT_EQ(step.chunks, 2);
  EXPECT_EQ(step.microbatches, 1);
  EXPECT_EQ(step.base, Base::custom);
  EXPECT_EQ(step.arrangement, Arrangement::llm_only);
  EXPECT_EQ(step.stage_ranks, (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(
      schedule.operators,
      (std::vector<Operator>{backbone_forward(0, 0), backbone_forward(1, 0), backbone(Phase::input, 1, 0),
                             backbone_backward(0, 0), backbone(Phase::weight, 1, 0), backbone_forward(0, 0),
                             backbone_forward(1, 0), backbone_backward(1, 0), backbone_backward(0, 0)}));
  EXPECT_EQ(schedule.row_begin, (std::vector<int64_t>{0, 5, 9}));
  EXPECT_EQ(check(schedule), Problems());
}

TEST(TorchTable, TakesUnequalCountsOfStagesAndRanksWithoutAny) {
  auto schedule = schedule_of("0F0,2F0,2B0,0B0\n\n1F0,1B0\n");
  EXPECT_EQ(schedule.step.stage_ranks, (std::vector<int32_t>{0, 2, 0}));
  EXPECT_EQ(schedule.step.chunks, 2);
  EXPECT_EQ(check(schedule), Problems());
}

TEST(TorchTable, LeavesCommunicationAndShardingOut) {
  auto schedule =
      schedule_of("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0RESHARD,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  EXPECT_EQ(schedule, schedule_of("0F0,0B0\n1F0,1B0\n"));
}

TEST(TorchTable, RunsTheForwardOfAnOverlapFirstAndMarksIt) {
  auto schedule = schedule_of("0F0,(0F1;0B0)OVERLAP_F_B,(0B1;0F2)OVERLAP_F_B,0B2\n");
  EXPECT_EQ(schedule.overlapped, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(schedule.operators, (std::vector<Operator>{backbone_forward(0, 0), backbone_forward(0, 1),
                                                       backbone_backward(0, 0), backbone_forward(0, 2),
                                                       backbone_backward(0, 1), backbone_backward(0, 2)}));
  EXPECT_EQ(to_text(to_torch(schedule, TorchDialect::current), TorchDialect::current),
            "0F0,(0F1;0B0)OVERLAP_F_B,(0F2;0B1)OVERLAP_F_B,0B2\n");
}

TEST(TorchTable, NamesBothCellsOfAStageOnTwoRanks) {
  expect_told(error_of([] { schedule_of("0F0,0B0\n1F0,1B0,0SEND_F0\n"); }),
              {"[torch csv] table.csv:2:3: stage 0 is on rank 1, and at 1:1 on rank 0"});
}

TEST(TorchTable, RefusesWhatIsNoStep) {
  expect_told(error_of([] { schedule_of("0F0\n2F0\n"); }),
              {"[torch csv] table.csv: stage 1 is on no rank; the stages go up to 2"});
  expect_told(error_of([] { schedule_of("\n\"\"\n"); }), {"[torch csv] table.csv: holds no computation"});
  expect_told(error_of([] { schedule_of("0SEND_F0\n1RECV_F0\n"); }), {"holds no computation"});
  expect_told(error_of([] { schedule_of("0F4294967295\n"); }), {"microbatches (M) must be at most"});
  expect_told(error_of([] { schedule_of("0F50000000\n"); }),
              {"has 1 operators, far fewer than a step of P=1 V=1 M=50000001"});
  EXPECT_FALSE(check(schedule_of("0F1,0B1\n")).empty());
}

TEST(TorchTable, WritesEveryBaseAndReadsItBackAsTheSameOrder) {
  RandomSteps steps(20250614);
  for (int i = 0; i < 500; ++i) {
    Step step = steps.next(Arrangement::llm_only);
    step.modules.clear();
    step.order.clear();
    Schedule schedule = base_table(step);
    SCOPED_TRACE(concat(name(step.base), " ", shape(step)));
    for (auto dialect : {TorchDialect::current, TorchDialect::old}) {
      auto table = to_torch(schedule, dialect);
      auto text = to_text(table, dialect);
      auto read = parse(text);
      EXPECT_EQ(read.rows, table.rows);
      EXPECT_EQ(to_text(read, dialect), text);
      Schedule again = to_schedule(read, "table.csv");
      EXPECT_EQ(again.operators, schedule.operators);
      EXPECT_EQ(again.row_begin, schedule.row_begin);
      EXPECT_EQ(again.overlapped, schedule.overlapped);
      for (int64_t s = 0; s < step.stages(); ++s)
        EXPECT_EQ(again.step.stage_ranks[s], rank_of_stage(step, s));
      EXPECT_EQ(check(again), Problems());
      EXPECT_EQ(to_torch(again, dialect).rows, table.rows);
      EXPECT_EQ(check_communication(table), Problems());
    }
    ASSERT_FALSE(HasFailure());
  }
}

TEST(TorchTable, HasNoFormForEncodersAndGenerators) {
  Step step;
  step.arrangement = Arrangement::nested;
  step.modules.push_back(one_item_each("image", Module::encoder, 1));
  auto schedule = make_schedule(step);
  expect_told(
      error_of([&] { to_torch(schedule, TorchDialect::current); }),
      {"[torch csv] has no form for encoder and generator operators such as encoder F share 0; take an "
       "llm-only table"});
}

TEST(TorchTable, RefusesOperatorsThatTheStepDoesNotHave) {
  auto schedule = base_table({});
  for (const auto& op : {backbone_forward(1, 0), backbone_forward(0, 1), backbone(Phase::generate, 0, 0)}) {
    auto bad = schedule;
    bad.operators[0] = op;
    EXPECT_THROW(to_torch(bad, TorchDialect::current), InvalidInput) << long_name(op);
  }
  schedule.overlapped = {1};
  EXPECT_THROW(to_torch(schedule, TorchDialect::current), InvalidInput);
}

class TorchFileTables : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(kFolder)) GTEST_SKIP() << "no data folder " << kFolder;
  }

  static std::string text(const std::string& file) {
    std::ifstream in(kFolder + file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // With F = I = W = 1 and B = 2.
  static void expect_step(const std::string& file, double makespan, double idle_over_total, int64_t live) {
    SCOPED_TRACE(file);
    auto table = parse(text(file));
    EXPECT_EQ(check_communication(table), Problems());
    auto schedule = to_schedule(table, file);
    EXPECT_EQ(check(schedule), Problems());
    auto found = report(schedule, {}, simulate(schedule, {}));
    EXPECT_EQ(found.makespan, makespan);
    EXPECT_NEAR(found.idle_over_total, idle_over_total, 0.00005);
    int64_t most = 0;
    for (const auto& peak : found.peaks) most = std::max(most, peak.in_flight);
    EXPECT_EQ(most, live);
  }

  inline static const std::string kFolder = BIGMAC_SHARED_DATA "/torch-schedules/";
};

TEST_F(TorchFileTables, TakeTheStepsIdlenessAndMemoryOfTheirSchedules) {
  expect_step("zb_interleaved_4rank_6mb.csv", 39, 0.0769, 12);
  expect_step("dualpipev_4rank_10mb.csv", 63, 0.0476, 9);
  expect_step("zb1p_2rank_2stagep_compute_old_dialect.csv", 49, 0.0204, 4);
  expect_step("zb1p_2rank_2stagep_comms_old_dialect.csv", 49, 0.0204, 4);
}

TEST_F(TorchFileTables, HoldTheOperatorsOfTheirSchedules) {
  auto schedule = to_schedule(parse(text("zb_interleaved_4rank_6mb.csv")), "t");
  auto count = [&](Phase phase) {
    return std::count_if(schedule.operators.begin(), schedule.operators.end(),
                         [&](const Operator& op) { return op.phase == phase; });
  };
  EXPECT_EQ(count(Phase::forward), 48);
  EXPECT_EQ(count(Phase::input), 48);
  EXPECT_EQ(count(Phase::weight), 48);
  auto dualpipe = to_schedule(parse(text("dualpipev_4rank_10mb.csv")), "t");
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(dualpipe.step.stage_ranks[rank], rank);
    EXPECT_EQ(dualpipe.step.stage_ranks[7 - rank], rank);
  }
}

TEST_F(TorchFileTables, AreDualPipeVAsWeMakeIt) {
  Step step;
  step.ranks = 4;
  step.chunks = 2;
  step.microbatches = 10;
  step.base = Base::dualpipe_v;
  auto table = to_torch(base_table(step), TorchDialect::current);
  EXPECT_EQ(to_text(table, TorchDialect::current), text("dualpipev_4rank_10mb.csv"));
}

TEST_F(TorchFileTables, AreWrittenBackFromTheirSchedules) {
  for (auto file : {"zb_interleaved_4rank_6mb.csv", "dualpipev_4rank_10mb.csv"}) {
    auto table = to_torch(to_schedule(parse(text(file)), file), TorchDialect::current);
    EXPECT_EQ(to_text(table, TorchDialect::current), text(file));
  }
  auto old = text("zb1p_2rank_2stagep_compute_old_dialect.csv");
  auto schedule = to_schedule(parse(old), "t");
  auto table = parse(to_text(to_torch(schedule, TorchDialect::current), TorchDialect::current));
  EXPECT_EQ(table.dialect, TorchDialect::current);
  EXPECT_EQ(to_schedule(table, "t"), schedule);
}

TEST_F(TorchFileTables, AreFoundToDeadlockWithABackwardBeforeItsForward) {
  auto bad = with(text("zb_interleaved_4rank_6mb.csv"), "7F0,7I0,", "7I0,7F0,");
  EXPECT_EQ(
      check(schedule_of(bad)),
      Problems{"deadlock:\n  rank 3 position 6 (backbone I chunk 1 microbatch 0) needs the output of rank 3 "
               "position 7 (backbone F chunk 1 microbatch 0)"});
}

TEST_F(TorchFileTables, AreFoundIncompleteWithoutTheirFirstForward) {
  auto bad = with(text("dualpipev_4rank_10mb.csv"), "0F0,", "");
  EXPECT_EQ(check(schedule_of(bad)), Problems{"rank 0 misses backbone F chunk 0 microbatch 0"});
}

const char kFragment[] =
    "0SEND_F1,0F2,0SEND_F2,2RECV_B0,2B0\n"
    "3RECV_F1,3SEND_B0,3F1,3B1,1RECV_F2,3SEND_B1,1F2\n";

TEST(TorchCommunication, OfPartOfATableRunsWhenSendsAreBuffered) {
  EXPECT_EQ(check_communication(parse(kFragment), Sends::buffered), Problems());
}

TEST(TorchCommunication, OfPartOfATableDeadlocksWhenSendsBlock) {
  EXPECT_EQ(check_communication(parse(kFragment), Sends::blocking),
            Problems{"deadlock:\n  rank 0 cell 3 (0SEND_F2) waits for rank 1 cell 5 (1RECV_F2)\n"
                     "  rank 1 cell 2 (3SEND_B0) waits for rank 0 cell 4 (2RECV_B0)"});
}

const std::string kRankOfTwo =
    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";

void expect_problems(const std::string& text, const std::vector<std::string>& parts) {
  expect_told(all(check_communication(parse(text))), parts);
}

TEST(TorchCommunication, RunsWhereEverySendIsReceived) {
  EXPECT_EQ(check_communication(parse(kRankOfTwo), Sends::buffered), Problems());
  EXPECT_EQ(check_communication(parse("0F0,0B0\n1F0,1B0\n"), Sends::blocking), Problems());
  EXPECT_FALSE(has_communication(parse("0F0,0B0\n1F0,1B0\n")));
  EXPECT_TRUE(has_communication(parse(kRankOfTwo)));
}

TEST(TorchCommunication, DeadlocksWhereTwoRanksSendToEachOther) {
  expect_told(all(check_communication(parse(kRankOfTwo), Sends::blocking)),
              {"deadlock:", "rank 0 cell 4 (0SEND_F1) waits for rank 1 cell 5 (1RECV_F1)",
               "rank 1 cell 4 (1SEND_B0) waits for rank 0 cell 5 (0RECV_B0)"});
}

TEST(TorchCommunication, DeadlocksWhereReceivesWaitForEachOther) {
  auto bad = with(with(kRankOfTwo, "0F1,0SEND_F1,0RECV_B0,0B0", "0RECV_B0,0B0,0F1,0SEND_F1"),
                  "1B0,1SEND_B0,1RECV_F1,1F1", "1RECV_F1,1F1,1B0,1SEND_B0");
  expect_told(all(check_communication(parse(bad), Sends::buffered)),
              {"deadlock:\n  rank 0 cell 3 (0RECV_B0) waits for rank 1 cell 6 (1SEND_B0)\n"
               "  rank 1 cell 3 (1RECV_F1) waits for rank 0 cell 6 (0SEND_F1)"});
}

TEST(TorchCommunication, NeedsBothEndsOfEveryMessage) {
  expect_problems(with(kRankOfTwo, "1RECV_F0,", ""),
                  {"rank 0 cell 2 (0SEND_F0) is not received: rank 1 lacks 1RECV_F0\n"});
  expect_problems(with(kRankOfTwo, "0SEND_F0,", ""),
                  {"rank 1 cell 1 (1RECV_F0) is not sent: rank 0 lacks 0SEND_F0\n"});
  expect_problems(with(kRankOfTwo, ",1SEND_B1", ""),
                  {"rank 0 cell 7 (0RECV_B1) is not sent: rank 1 lacks 1SEND_B1\n"});
  expect_problems(with(kRankOfTwo, "0RECV_B1,", ""),
                  {"rank 1 cell 8 (1SEND_B1) is not received: rank 0 lacks 0RECV_B1\n"});
  expect_problems(with(with(kRankOfTwo, "0RECV_B1,", ""), ",1SEND_B1", ""),
                  {"rank 0 cell 7 (0B1) needs the output of stage 1, but nothing is sent: right would be "
                   "1SEND_B1 on rank 1 and 0RECV_B1 before it\n"});
}

TEST(TorchCommunication, StandsBehindWhatItSendsAndBeforeWhatNeedsIt) {
  expect_problems(with(kRankOfTwo, "0F0,0SEND_F0", "0SEND_F0,0F0"),
                  {"rank 0 cell 1 (0SEND_F0) is before cell 2 (0F0), whose output it sends\n"});
  expect_problems(with(kRankOfTwo, "1RECV_F0,1F0", "1F0,1RECV_F0"),
                  {"rank 1 cell 1 (1F0) is before cell 2 (1RECV_F0), whose input it needs\n"});
  expect_problems(with(kRankOfTwo, "1B0,1SEND_B0", "1SEND_B0,1B0"), {"(1SEND_B0) is before cell 4 (1B0)"});
  expect_problems(with(kRankOfTwo, "0RECV_B1,0B1", "0B1,0RECV_B1"), {"(0B1) is before cell 8 (0RECV_B1)"});
  expect_problems("0F0,0SEND_F0,0RECV_B0,0BW0\n1RECV_F0,1F0,1SEND_B0,1B0,1W0\n",
                  {"rank 1 cell 3 (1SEND_B0) is before cell 4 (1B0), whose output it sends\n"});
}

TEST(TorchCommunication, IsBetweenNeighboursOnDifferentRanksAndOnce) {
  expect_problems(with(kRankOfTwo, "0F0,", "0RECV_F0,0F0,"),
                  {"rank 0 cell 1 (0RECV_F0) has no other end: stage -1 does not exist\n"});
  expect_problems(with(kRankOfTwo, "1F1,", "1F1,1SEND_F1,"),
                  {"rank 1 cell 7 (1SEND_F1) has no other end: stage 2 does not exist\n"});
  expect_problems(with(kRankOfTwo, "0SEND_F0,", "0SEND_F0,0SEND_F0,"),
                  {"rank 0 cell 3 (0SEND_F0) is there twice, first in cell 2\n"});
  expect_problems(
      "0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n",
      {"rank 0 cell 2 (0SEND_F0) is between stages of the same rank, which send nothing: stage 1 is on "
       "rank 0 too\n",
       "rank 0 cell 3 (1RECV_F0) is between stages"});
}

TEST(TorchCommunication, SeesTheComputationsOfOverlaps) {
  expect_problems(
      "0F0,0SEND_F0,0RECV_B0,(0F1;0B0)OVERLAP_F_B,0SEND_F1,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1RECV_F1,1B1,1SEND_B1\n",
      {"rank 1 cell 3 (1F1) is before cell 5 (1RECV_F1), whose input it needs"});
}

TEST(TorchCommunication, ComputesWithWholeStagesWhereTheyAreSharded) {
  EXPECT_EQ(check_communication(parse("0UNSHARD,0F0,0RESHARD,0UNSHARD,0I0,0W0,0RESHARD,0REDUCE_GRAD\n")),
            Problems());
  EXPECT_EQ(check_communication(parse("0F0,0B0,0REDUCE_GRAD\n")), Problems());
  expect_problems("0F0,0UNSHARD,0B0\n",
                  {"rank 0 cell 1 (0F0) is not between an UNSHARD and a RESHARD of stage 0\n"});
  expect_problems("0UNSHARD,0F0,0RESHARD,0B0\n", {"rank 0 cell 4 (0B0) is not between"});
  expect_problems("0UNSHARD,0UNSHARD,0F0,0B0,0RESHARD\n",
                  {"rank 0 cell 2 (0UNSHARD) is of a stage that is not sharded; a RESHARD must come first"});
  expect_problems("0F0,0B0,0RESHARD\n",
                  {"rank 0 cell 3 (0RESHARD) is of a stage that is sharded; an UNSHARD must come first"});
  expect_problems("0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n",
                  {"rank 0 cell 4 (0REDUCE_GRAD) reduces the stage's gradients a second time"});
  expect_problems("0UNSHARD,0F0,0I0,0REDUCE_GRAD,0W0,0RESHARD\n",
                  {"rank 0 cell 4 (0REDUCE_GRAD) is before the stage's last backward in cell 5 (0W0)\n"});
}

TEST(TorchCommunication, TellsTenProblemsAtMost) {
  std::string sends = "0F0", receives = "1F0";
  for (int m = 1; m < 100; ++m) sends += concat(",0F", m, ",0SEND_F", m), receives += concat(",1F", m);
  EXPECT_EQ(check_communication(parse(sends + "\n" + receives + "\n")).size(), 10);
}

}  // namespace
}  // namespace bigmac
