#include "bigmac/formats/torch_csv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

using Cells = std::vector<TorchCell>;

TorchCell cell(TorchKind kind, int stage, uint32_t microbatch = 0) {
  return {{microbatch, uint16_t(stage), kind}, {}};
}

TorchCell overlap(const TorchCell& first, const TorchCell& second) {
  return {first.first, second.first};
}

const TorchCell idle;

TorchTable parse(const std::string& text) {
  return parse_torch_csv(text, "table.csv");
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

void expect_told(const std::string& text, const std::vector<std::string>& parts) {
  auto error = error_of(text);
  for (const auto& part : parts)
    EXPECT_NE(error.find(part), error.npos) << "lacks \"" << part << "\" in: " << error;
}

void expect_same_bytes(const std::string& text) {
  auto table = parse(text);
  EXPECT_EQ(to_text(table, table.dialect), text);
}

TEST(TorchCsv, ReadsEveryActionOfTheCurrentDialect) {
  auto table = parse(
      "0F0,12I34,0W0,0B7,1SEND_F2,1RECV_F2,1SEND_B3,1RECV_B3,0UNSHARD,0RESHARD,65535REDUCE_GRAD,"
      "0F4294967295\n");
  EXPECT_EQ(table.dialect, TorchDialect::current);
  EXPECT_EQ(table.rows,
            (std::vector<Cells>{{cell(TorchKind::forward, 0, 0), cell(TorchKind::input_gradient, 12, 34),
                                 cell(TorchKind::weight_gradient, 0, 0), cell(TorchKind::full_backward, 0, 7),
                                 cell(TorchKind::send_forward, 1, 2), cell(TorchKind::receive_forward, 1, 2),
                                 cell(TorchKind::send_backward, 1, 3),
                                 cell(TorchKind::receive_backward, 1, 3), cell(TorchKind::unshard, 0),
                                 cell(TorchKind::reshard, 0), cell(TorchKind::reduce_gradient, 65535),
                                 cell(TorchKind::forward, 0, 4294967295)}}));
}

TEST(TorchCsv, ReadsBothPartsOfAnOverlapInTheirOrder) {
  auto table = parse("(0F7;7B3)OVERLAP_F_B,(7I3;0F7)OVERLAP_F_B\n");
  auto forward = cell(TorchKind::forward, 0, 7);
  EXPECT_EQ(table.rows[0], (Cells{overlap(forward, cell(TorchKind::full_backward, 7, 3)),
                                  overlap(cell(TorchKind::input_gradient, 7, 3), forward)}));
  EXPECT_TRUE(table.rows[0][0].overlaps());
}

TEST(TorchCsv, TakesAnyFullBackwardOfTheOldDialectAsItsMark) {
  auto table = parse("0B0,0W0\n1F0,1BW0,1SEND_B0\n");
  EXPECT_EQ(table.dialect, TorchDialect::old);
  EXPECT_EQ(table.rows[0][0], cell(TorchKind::input_gradient, 0));
  EXPECT_EQ(table.rows[1][1], cell(TorchKind::full_backward, 1));
  EXPECT_EQ(table.rows[1][2], cell(TorchKind::send_backward, 1));
}

TEST(TorchCsv, TakesWeightGradientsWithoutInputGradientsAsTheOldDialect) {
  auto table = parse("0F0,0B0,0W0\n");
  EXPECT_EQ(table.dialect, TorchDialect::old);
  EXPECT_EQ(table.rows[0][1], cell(TorchKind::input_gradient, 0));
  EXPECT_EQ(parse("0F0,0B0\n").dialect, TorchDialect::current);
  EXPECT_EQ(parse("0F0,0I0,0W0\n").dialect, TorchDialect::current);
}

TEST(TorchCsv, RefusesAFileThatMixesTheDialectsAndNamesBothCells) {
  expect_told("0F0,0I0\n1F0,1BW0\n",
              {"[torch csv] table.csv:1:2: '0I0'", "2:2 '1BW0'", "I and B, or B and BW, in all cells"});
}

TEST(TorchCsv, KeepsIdleSlotsWhereverTheyStand) {
  auto forward = cell(TorchKind::forward, 0);
  EXPECT_EQ(parse(",0F0,,0F0,\n").rows[0], (Cells{idle, forward, idle, forward, idle}));
  EXPECT_EQ(parse("0F0\n\n0F0\n").rows, (std::vector<Cells>{{forward}, {}, {forward}}));
  EXPECT_EQ(parse("\"\"\n,\n").rows, (std::vector<Cells>{{idle}, {idle, idle}}));
}

TEST(TorchCsv, GivesTheSameBytesBack) {
  for (std::string text :
       {"0F0\n", "0F0", "0F0\r\n1F0\r\n", "0F0\r\n1F0", "0F0,\n,1F0\n", "\n", "\"\"", "\"\"\n\n", "\r\n\r\n",
        ",", "0F0,0BW0,0B1,0W1\n", "0B0,0W0\n", "0UNSHARD,(0F7;7B3)OVERLAP_F_B,7RECV_F8,0REDUCE_GRAD\n",
        "(0F7;7BW3)OVERLAP_F_B\n"})
    expect_same_bytes(text);
}

TEST(TorchCsv, ReadsMixedLineEndsAndWritesTheFirst) {
  auto table = parse("0F0\r\n1F0\n2F0");
  EXPECT_EQ(table, parse("0F0\r\n1F0\r\n2F0"));
  EXPECT_EQ(to_text(table, table.dialect), "0F0\r\n1F0\r\n2F0");
}

TEST(TorchCsv, TranslatesBetweenTheDialects) {
  auto old = parse("0F0,0B0,0W0,0BW1\n");
  EXPECT_EQ(to_text(old, TorchDialect::current), "0F0,0I0,0W0,0B1\n");
  EXPECT_EQ(parse("0F0,0I0,0W0,0B1\n").rows, old.rows);
}

TEST(TorchCsv, RefusesToWriteWhatWouldBeReadAsTheOtherDialect) {
  EXPECT_THROW(to_text(parse("0F0,0I0\n"), TorchDialect::old), InvalidInput);
  EXPECT_THROW(to_text(parse("0F0,0BW0,0W0\n"), TorchDialect::current), InvalidInput);
  auto two_forwards = parse("0F0,0F1\n");
  two_forwards.rows[0] = {overlap(two_forwards.rows[0][0], two_forwards.rows[0][1])};
  EXPECT_THROW(to_text(two_forwards, TorchDialect::current), InvalidInput);
}

TEST(TorchCsv, SaysWhereAndWhatIsWrongWithACell) {
  expect_told("0F0,0F1\n1F0,1F1,0F0junk\n",
              {"[torch csv] table.csv:2:3: '0F0junk' goes on with 'junk'", "0F0"});
  expect_told("0F\n", {"table.csv:1:1: '0F' lacks the microbatch of F; right would be as in 0F0"});
  expect_told("F0\n", {"'F0' does not begin with a stage", "as in 2F0"});
  expect_told("-1F0\n", {"'-1F0' does not begin with a stage"});
  expect_told("0F-1\n", {"'0F-1' unknown action 'F-'"});
  expect_told("0,\n", {"'0' lacks an action"});
  expect_told("0f0\n", {"unknown action 'f'", "known: F, I, W, B, SEND_F"});
  expect_told("0BW0,0f0\n", {"known: F, B, W, BW, SEND_F"});
  expect_told("0SND_F0\n", {"unknown action 'SND_F' (did you mean 'SEND_F'?)"});
  expect_told("65536F0\n", {"stage '65536', the largest is 65535"});
  expect_told("0F4294967296\n", {"microbatch '4294967296', the largest is 4294967295"});
  expect_told("0F99999999999999999999999\n", {"microbatch '99999999999999999999999'"});
  expect_told("00F0\n", {"stage '00' with a leading zero; right would be 0"});
  expect_told("0F01\n", {"microbatch '01' with a leading zero; right would be 1"});
  expect_told("0UNSHARD3\n", {"'0UNSHARD3' has '3' behind UNSHARD, which has no microbatch", "0UNSHARD"});
  expect_told("\"0F0\"\n", {"is quoted; right would be without quotes"});
  expect_told("0F0,\"\"\n", {"table.csv:1:2", "is quoted"});
  expect_told("0F0\"\n", {"goes on with '\"'"});
  expect_told("0F0, 0F1\n", {"table.csv:1:2: ' 0F1' does not begin with a stage"});
  expect_told("0F0 ,0F1\n", {"goes on with ' '"});
  expect_told("0F0;0F1\n", {"goes on with ';0F1'"});
  expect_told("0SEND_F1_1RECV_B0\n", {"goes on with '_1RECV_B0'"});
  expect_told("0F0\r", {"'0F0\\r' goes on with '\\r'"});
  expect_told("0F0\r\r\n", {"'0F0\\r' goes on with '\\r'"});
  expect_told("", {"[torch csv] table.csv: is empty; right would be one row a rank"});
}

TEST(TorchCsv, SaysWhatIsWrongWithAnOverlap) {
  expect_told("0F0,(0F7;7B3)OVERLAP_F\n",
              {"table.csv:1:2: '(0F7;7B3)OVERLAP_F' does not end in ')OVERLAP_F_B'"});
  expect_told("(0F7;7B3\n", {"does not end in ')OVERLAP_F_B'"});
  expect_told("(0F7;7B3)OVERLAP_F_B0\n", {"does not end in ')OVERLAP_F_B'"});
  expect_told("()OVERLAP_F_B\n", {"overlaps 0 actions; right would be one forward and one backward"});
  expect_told("(0F7)OVERLAP_F_B\n", {"overlaps 1 actions"});
  expect_told("(0F7;7B3;0F8)OVERLAP_F_B\n", {"overlaps 3 actions"});
  for (auto text : {"(0F7;7F3)OVERLAP_F_B\n", "(0B7;7B3)OVERLAP_F_B\n", "(0F7;7RECV_F3)OVERLAP_F_B\n",
                    "(0F7;7W3)OVERLAP_F_B,0I0\n", "(0F7;7REDUCE_GRAD)OVERLAP_F_B\n"})
    expect_told(text, {"overlaps other actions than one forward and one backward"});
  expect_told("(0F7;7B)OVERLAP_F_B\n", {"'(0F7;7B)OVERLAP_F_B' '7B' lacks the microbatch of B"});
  expect_told("(0F7; 7B3)OVERLAP_F_B\n", {"' 7B3' does not begin with a stage"});
  expect_told("((0F7;7B3)OVERLAP_F_B;0F1)OVERLAP_F_B\n", {"does not end in ')OVERLAP_F_B'"});
  expect_told("0OVERLAP_F_B0\n", {"unknown action 'OVERLAP_F_B'"});
}

TEST(TorchCsv, ShortensAndEscapesTheCellsItNames) {
  auto error = error_of(std::string("\x01\0\xff'\\", 5) + std::string(1'000'000, 'x') + "\n");
  EXPECT_LT(error.size(), 300);
  EXPECT_NE(error.find("'\\x01\\x00\\xff\\'\\\\xxx"), error.npos) << error;
  EXPECT_NE(error.find("xxx...'"), error.npos) << error;
  EXPECT_LT(error_of("0" + std::string(1'000'000, 'x') + "\n").size(), 500);
  EXPECT_LT(error_of("0F" + std::string(1'000'000, '9') + "\n").size(), 300);
}

TEST(TorchCsv, RefusesMoreRowsAndCellsThanItCanHold) {
  expect_told(std::string(kMostTorchRows + 1, '\n'), {"holds 65537 rows, the most is 65536"});
  expect_told(std::string(kMostTorchCells, ','), {"holds 67108865 cells, the most is 67108864"});
  EXPECT_EQ(parse(std::string(kMostTorchRows, '\n')).rows.size(), size_t(kMostTorchRows));
}

TEST(TorchCsv, HoldsACellInSixteenBytes) {
  EXPECT_EQ(sizeof(TorchCell), 16);
}

class TorchFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder))
      GTEST_SKIP() << "no " << kFolder << ": the shared data is not here";
  }

  static std::string read(const std::string& name) {
    std::ifstream in(kFolder + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // How often each action is there, the parts of overlaps each for itself.
  static std::map<TorchKind, int> counts(const TorchTable& table) {
    std::map<TorchKind, int> counts;
    for (const auto& row : table.rows)
      for (const auto& c : row) {
        ++counts[c.first.kind];
        if (c.overlaps()) ++counts[c.second.kind];
      }
    return counts;
  }

  inline static const std::string kFolder = BIGMAC_SHARED_DATA "/torch-schedules/";
};

TEST_F(TorchFiles, GiveTheSameBytesBack) {
  for (auto name : {"dualpipev_4rank_10mb.csv", "zb1p_2rank_2stagep_comms_old_dialect.csv",
                    "zb1p_2rank_2stagep_compute_old_dialect.csv", "zb_interleaved_4rank_6mb.csv"}) {
    auto text = read(name);
    ASSERT_FALSE(text.empty()) << name;
    expect_same_bytes(text);
    auto other = parse(to_text(parse(text), TorchDialect::current));
    EXPECT_EQ(other.rows, parse(text).rows) << name;
  }
}

TEST_F(TorchFiles, HoldTheActionsOfTheirSchedules) {
  auto interleaved = parse(read("zb_interleaved_4rank_6mb.csv"));
  EXPECT_EQ(interleaved.dialect, TorchDialect::current);
  EXPECT_EQ(interleaved.rows.size(), 4);
  EXPECT_EQ(counts(interleaved), (std::map<TorchKind, int>{{TorchKind::forward, 48},
                                                           {TorchKind::input_gradient, 48},
                                                           {TorchKind::weight_gradient, 48}}));

  auto dualpipe = parse(read("dualpipev_4rank_10mb.csv"));
  EXPECT_EQ(dualpipe.dialect, TorchDialect::current);
  EXPECT_EQ(counts(dualpipe), (std::map<TorchKind, int>{{TorchKind::forward, 80},
                                                        {TorchKind::input_gradient, 22},
                                                        {TorchKind::weight_gradient, 22},
                                                        {TorchKind::full_backward, 58}}));
  auto overlaps = [](const Cells& row) {
    return std::count_if(row.begin(), row.end(), [](const TorchCell& c) { return c.overlaps(); });
  };
  EXPECT_EQ(overlaps(dualpipe.rows[0]) + overlaps(dualpipe.rows[1]) + overlaps(dualpipe.rows[2]) +
                overlaps(dualpipe.rows[3]),
            41);
  for (size_t rank = 0; rank < 4; ++rank)
    for (const auto& c : dualpipe.rows[rank]) EXPECT_TRUE(c.first.stage == rank || c.first.stage == 7 - rank);

  auto compute = parse(read("zb1p_2rank_2stagep_compute_old_dialect.csv"));
  EXPECT_EQ(compute.dialect, TorchDialect::old);
  EXPECT_EQ(counts(compute), (std::map<TorchKind, int>{{TorchKind::none, 2},
                                                       {TorchKind::forward, 32},
                                                       {TorchKind::input_gradient, 32},
                                                       {TorchKind::weight_gradient, 32}}));

  auto comms = parse(read("zb1p_2rank_2stagep_comms_old_dialect.csv"));
  EXPECT_EQ(comms.dialect, TorchDialect::old);
  EXPECT_EQ(counts(comms), (std::map<TorchKind, int>{{TorchKind::forward, 32},
                                                     {TorchKind::input_gradient, 16},
                                                     {TorchKind::weight_gradient, 16},
                                                     {TorchKind::full_backward, 16},
                                                     {TorchKind::send_forward, 24},
                                                     {TorchKind::receive_forward, 24},
                                                     {TorchKind::send_backward, 24},
                                                     {TorchKind::receive_backward, 24}}));
}

}  // namespace
}  // namespace bigmac
