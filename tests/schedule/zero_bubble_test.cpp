#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

// F = I = W = 1, a whole backward 2.
double unit_times(int, const Operator& op) {
  return op.phase == Phase::backward ? 2.0 : 1.0;
}

double length_of(const Step& step) {
  return Oracle(make_schedule(step)).length(unit_times);
}

int64_t most_in_flight(const Schedule& schedule) {
  int64_t most = 0;
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    most = std::max(most, most_held(schedule, rank).forwards);
  return most;
}

TEST(ZeroBubbleH1, TakesThePublishedTime) {
  for (auto [ranks, microbatches] : {std::pair<int64_t, int64_t>{4, 8}, {8, 64}, {16, 128}, {32, 256}}) {
    EXPECT_EQ(length_of(step_of_base(Base::zb_h1, ranks, 1, microbatches)), 3 * microbatches + ranks - 1);
    EXPECT_EQ(length_of(backbone_step(ranks, 1, microbatches)), 3 * (microbatches + ranks - 1));
    EXPECT_EQ(length_of(backbone_step(ranks, 2, microbatches)), 6 * microbatches + 3 * (ranks - 1));
  }
}

TEST(ZeroBubbleH1, TakesItForAnyNumberOfMicrobatchesFromPOn) {
  for (int64_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t microbatches = ranks; microbatches <= 4 * ranks; ++microbatches)
      EXPECT_EQ(length_of(step_of_base(Base::zb_h1, ranks, 1, microbatches)), 3 * microbatches + ranks - 1)
          << "P=" << ranks << " M=" << microbatches;
}

TEST(ZeroBubbleH1, HoldsNoMoreThanPMicrobatches) {
  for (int64_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t microbatches = 1; microbatches <= 26; ++microbatches)
      EXPECT_LE(most_in_flight(make_schedule(step_of_base(Base::zb_h1, ranks, 1, microbatches))), ranks)
          << "P=" << ranks << " M=" << microbatches;
}

// 1F1B with I in the place of B, and W in order as late as the memory of 1F1B's first rank allows.
TEST(ZeroBubbleH1, Is1f1bWhoseWeightGradientsLag) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t microbatches = 1; microbatches <= 14; ++microbatches) {
      auto split = make_schedule(step_of_base(Base::zb_h1, ranks, 1, microbatches));
      auto whole = rows_of(make_schedule(backbone_step(ranks, 1, microbatches)));
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<Operator> others;
        int64_t inputs = 0, weights = 0;
        for (auto op : split.row(rank)) {
          if (op.phase == Phase::weight) {
            EXPECT_EQ(int64_t(op.index), weights++);
            EXPECT_TRUE(inputs == weights + rank || inputs == microbatches);
            continue;
          }
          inputs += op.phase == Phase::input;
          if (op.phase == Phase::input) op.phase = Phase::backward;
          others.push_back(op);
        }
        EXPECT_EQ(others, whole[size_t(rank)]) << "P=" << ranks << " M=" << microbatches << " rank " << rank;
      }
    }
}

TEST(VShaped, TakesSixMicrobatchesOfTimeAndOneShortRamp) {
  for (Base base : {Base::zb_v, Base::dualpipe_v})
    for (int64_t ranks = 1; ranks <= 8; ++ranks)
      for (int64_t microbatches = 2 * ranks; microbatches <= 6 * ranks; ++microbatches) {
        Step step = step_of_base(base, ranks, 2, microbatches);
        EXPECT_EQ(length_of(step), 6 * microbatches + ranks - 1) << describe(step);
      }
}

TEST(ZeroBubbleV, HoldsNoMoreThanTwoPChunkForwards) {
  for (int64_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t microbatches = 1; microbatches <= 26; ++microbatches)
      EXPECT_LE(most_in_flight(make_schedule(step_of_base(Base::zb_v, ranks, 2, microbatches))), 2 * ranks)
          << "P=" << ranks << " M=" << microbatches;
}

TEST(DualPipeV, HoldsNoMoreThanTwoPAndOneChunkForwards) {
  EXPECT_EQ(most_in_flight(make_schedule(step_of_base(Base::dualpipe_v, 4, 2, 10))), 9);
  for (int64_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t microbatches = 1; microbatches <= 26; ++microbatches)
      EXPECT_LE(most_in_flight(make_schedule(step_of_base(Base::dualpipe_v, ranks, 2, microbatches))),
                2 * ranks + 1)
          << "P=" << ranks << " M=" << microbatches;
}

// A cell of torch's pipelining CSV of a V of `ranks`, such as "6I0": stage, action, microbatch.
Operator read_cell(const std::string& cell, int64_t ranks) {
  size_t letter = cell.find_first_not_of("0123456789");
  int64_t stage = std::stoll(cell.substr(0, letter)), microbatch = std::stoll(cell.substr(letter + 1));
  Phase phase = cell[letter] == 'F'   ? Phase::forward
                : cell[letter] == 'B' ? Phase::backward
                : cell[letter] == 'I' ? Phase::input
                                      : Phase::weight;
  return backbone(phase, stage < ranks ? 0 : 1, microbatch);
}

TEST(DualPipeV, IsTorchsOrderWithItsPairsOfForwardAndBackward) {
  std::filesystem::path path = BIGMAC_SHARED_DATA "/torch-schedules/dualpipev_4rank_10mb.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "reference order is absent: " << path;
  auto schedule = make_schedule(step_of_base(Base::dualpipe_v, 4, 2, 10));
  std::ifstream file(path);
  std::vector<std::vector<Operator>> rows;
  std::vector<int64_t> pairs;
  int64_t offset = 0;
  for (std::string line; std::getline(file, line);) {
    auto& row = rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) {
      auto end = cell.find_last_not_of("\r\n");
      cell.resize(end == std::string::npos ? 0 : end + 1);
      if (cell.empty()) continue;
      if (cell[0] == '(') {
        auto middle = cell.find(';'), close = cell.find(')');
        pairs.push_back(offset + int64_t(row.size()));
        row.push_back(read_cell(cell.substr(1, middle - 1), 4));
        row.push_back(read_cell(cell.substr(middle + 1, close - middle - 1), 4));
      } else {
        row.push_back(read_cell(cell, 4));
      }
    }
    offset += int64_t(row.size());
  }
  EXPECT_EQ(rows_of(schedule), rows);
  EXPECT_EQ(schedule.overlapped, pairs);
  EXPECT_GT(pairs.size(), 20u);
  EXPECT_EQ(length_of(schedule.step), 63);
}

// Where microbatches are taken out, a pair stays one only if both are there.
TEST(DualPipeV, PairsAForwardOnlyWithTheBackwardRightBehindIt) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t microbatches = 1; microbatches <= 3 * ranks; ++microbatches) {
      auto schedule = make_schedule(step_of_base(Base::dualpipe_v, ranks, 2, microbatches));
      for (int64_t offset : schedule.overlapped) {
        ASSERT_LT(offset + 1, int64_t(schedule.operators.size()));
        EXPECT_EQ(schedule.operators[size_t(offset)].phase, Phase::forward);
        EXPECT_EQ(schedule.operators[size_t(offset) + 1].phase, Phase::backward);
        EXPECT_NE(schedule.operators[size_t(offset)].chunk, schedule.operators[size_t(offset) + 1].chunk);
        EXPECT_EQ(std::count(schedule.row_begin.begin(), schedule.row_begin.end(), offset + 1), 0);
      }
    }
}

}  // namespace
}  // namespace bigmac
