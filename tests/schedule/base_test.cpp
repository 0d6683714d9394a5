#include "bigmac/schedule/base.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/nest.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

std::string order_of(const Schedule& schedule, int rank) {
  std::string text;
  for (const auto& op : schedule.row(rank)) text += short_name(op) + " ";
  text.pop_back();
  return text;
}

int64_t warmup_of(const Schedule& schedule, int rank) {
  int64_t warmup = 0;
  auto row = schedule.row(rank);
  while (row[warmup].phase == Phase::forward) ++warmup;
  return warmup;
}

// Every legal (P, V, M, G) with P up to 8, V up to 6 and M up to 8P; of those with P > 4 a random part.
template <class Visit>
void for_each_legal_base(Visit&& visit) {
  Random random(kSeed);
  for (int64_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t chunks = 1; chunks <= 6; ++chunks)
      for (int64_t microbatches = 1; microbatches <= 8 * ranks; ++microbatches) {
        if (chunks == 1) {
          visit(backbone_step(ranks, 1, microbatches));
          continue;
        }
        for (int64_t group = ranks; group <= microbatches; ++group) {
          if (microbatches % group != 0 && microbatches % group < ranks) continue;
          if (ranks > 4 && integer(random, 0, 4) != 0) continue;
          visit(backbone_step(ranks, chunks, microbatches, group));
          if (testing::Test::HasFailure()) return;
        }
      }
}

// DESIGN.md: "the table goes group by group, chunk by chunk, microbatch by microbatch; backward k is the same
// table with chunks reversed".
std::vector<std::vector<Operator>> rows_in_words(const Step& step, int64_t warmup_extra = 0) {
  int64_t group = step.chunks == 1 ? step.ranks : step.group;
  std::vector<std::pair<int, int>> order;
  for (int64_t first = 0; first < step.microbatches; first += group)
    for (int chunk = 0; chunk < step.chunks; ++chunk)
      for (int64_t m = first; m < std::min(first + group, step.microbatches); ++m)
        order.emplace_back(chunk, int(m));
  int64_t total = int64_t(order.size());
  std::vector<std::vector<Operator>> rows;
  for (int64_t rank = 0; rank < step.ranks; ++rank) {
    int64_t warmup =
        step.chunks == 1 ? step.ranks - rank - 1 : 2 * (step.ranks - rank - 1) + (step.chunks - 1) * group;
    warmup = std::min(warmup + warmup_extra, total);
    auto& row = rows.emplace_back();
    for (int64_t k = 0; k < total + warmup; ++k) {
      if (k < total) row.push_back(backbone_forward(order[k].first, order[k].second));
      int64_t back = k - warmup;
      if (back >= 0)
        row.push_back(backbone_backward(int(step.chunks) - 1 - order[back].first, order[back].second));
    }
  }
  return rows;
}

TEST(Base, IsMegatronsOrderInEveryReferenceConfiguration) {
  std::filesystem::path path = BIGMAC_SHARED_DATA "/megatron/interleaved_vectors.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "reference orders are absent: " << path;
  std::ifstream file(path);
  auto configurations = nlohmann::json::parse(file);
  EXPECT_EQ(configurations.size(), 65);
  for (const auto& expected : configurations) {
    Step step = backbone_step(expected["P"], expected["V"], expected["M"], expected["G"]);
    SCOPED_TRACE(describe(step));
    auto schedule = make_schedule(step);
    auto peaks = peak_live(schedule);
    ASSERT_EQ(expected["ranks"].size(), size_t(schedule.ranks()));
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      const auto& on_rank = expected["ranks"][rank];
      EXPECT_EQ(order_of(schedule, rank), on_rank["order"].get<std::string>()) << "rank " << rank;
      EXPECT_EQ(warmup_forwards(step, rank), on_rank["warmup"].get<int64_t>()) << "rank " << rank;
      EXPECT_EQ(peaks[rank].backbone_in_flight, on_rank["peak"].get<int64_t>()) << "rank " << rank;
    }
  }
}

TEST(Base, FollowsTheOrderInWordsForEveryLegalCount) {
  for_each_legal_base([](const Step& step) {
    SCOPED_TRACE(describe(step));
    EXPECT_EQ(rows_of(make_schedule(step)), rows_in_words(step));
  });
}

TEST(Base, AddsExtraForwardsToTheWarmUpOnly) {
  for (int64_t chunks : {1, 2, 3})
    for (int64_t extra : {1, 4, 1000}) {
      Step step = backbone_step(4, chunks, 12, chunks == 1 ? 0 : 4);
      SCOPED_TRACE(concat(describe(step), " extra=", extra));
      EXPECT_EQ(rows_of(base_table(step, extra)), rows_in_words(step, extra));
    }
}

TEST(Base, IsCompleteAndRunsWithBothKindsOfSends) {
  for_each_legal_base([](const Step& step) {
    SCOPED_TRACE(describe(step));
    auto schedule = make_schedule(step);
    for (auto sends : {Sends::buffered, Sends::blocking}) {
      Oracle oracle(schedule, sends);
      ASSERT_TRUE(oracle.complete());
      EXPECT_FALSE(oracle.deadlocks()) << (sends == Sends::blocking ? "blocking" : "buffered");
      EXPECT_EQ(check(schedule, sends), std::vector<std::string>{});
    }
  });
}

TEST(Base, TakesTheClosedFormWithEqualTimesForEveryLegalGroup) {
  Random random(kSeed);
  for_each_legal_base([&](const Step& step) {
    SCOPED_TRACE(describe(step));
    auto schedule = make_schedule(step);
    double forward = uniform(random, 0.1, 2), backward = uniform(random, 0.1, 4);
    double expected = double(step.microbatches * step.chunks + step.ranks - 1) * (forward + backward);
    double length = Oracle(schedule).length(
        [&](int, const Operator& op) { return op.phase == Phase::forward ? forward : backward; });
    EXPECT_NEAR(length, expected, 1e-9 * expected);
  });
}

TEST(Base, HoldsAsManyForwardsAsTheFormulaSays) {
  for_each_legal_base([](const Step& step) {
    SCOPED_TRACE(describe(step));
    auto peaks = peak_live(make_schedule(step));
    for (int64_t rank = 0; rank < step.ranks; ++rank) {
      int64_t behind = step.ranks - rank - 1;
      int64_t forwards = step.chunks == 1 ? behind + 1 : 2 * behind + (step.chunks - 1) * step.group + 1;
      PeakLive expected{.backbone_in_flight = std::min(forwards, step.microbatches * step.chunks)};
      EXPECT_EQ(peaks[rank], expected) << "rank " << rank;
    }
  });
}

TEST(Base, WarmsUpAsPublished) {
  auto warmups = [](const Step& step) {
    std::vector<int64_t> counted;
    auto schedule = make_schedule(step);
    for (int rank = 0; rank < step.ranks; ++rank) {
      counted.push_back(warmup_forwards(step, rank));
      // In the table one forward of the first pair follows; a clamped warm-up has none left.
      int64_t total = step.microbatches * step.chunks;
      EXPECT_EQ(warmup_of(schedule, rank), std::min(counted.back() + 1, total)) << "rank " << rank;
    }
    return counted;
  };
  EXPECT_EQ(warmups(backbone_step(8, 2, 64)), (std::vector<int64_t>{22, 20, 18, 16, 14, 12, 10, 8}));
  EXPECT_EQ(warmups(backbone_step(4, 2, 8)), (std::vector<int64_t>{10, 8, 6, 4}));
  EXPECT_EQ(warmups(backbone_step(4, 4, 4))[0], 16);
  EXPECT_EQ(warmups(backbone_step(4, 1, 8)), (std::vector<int64_t>{3, 2, 1, 0}));
  EXPECT_EQ(warmups(backbone_step(4, 1, 2)), (std::vector<int64_t>{2, 2, 1, 0}));
}

TEST(Base, TakesTheGroupSizePWhereNoneIsGiven) {
  auto with = make_schedule(backbone_step(4, 2, 12, 4)), without = make_schedule(backbone_step(4, 2, 12));
  EXPECT_EQ(with.operators, without.operators);
  EXPECT_EQ(with.row_begin, without.row_begin);
}

}  // namespace
}  // namespace bigmac
