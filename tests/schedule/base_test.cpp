#include "bigmac/schedule/base.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/make.h"
#include "bigmac/schedule/orders.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

using Rows = std::vector<std::vector<Operator>>;

std::string order_of(const Schedule& schedule, int rank) {
  std::string text;
  for (const auto& op : schedule.row(rank)) text += short_name(op) + " ";
  if (!text.empty()) text.pop_back();
  return text;
}

int64_t warmup_of(const Schedule& schedule, int rank) {
  auto row = schedule.row(rank);
  return std::find_if(row.begin(), row.end(), [](const Operator& op) { return op.phase != Phase::forward; }) -
         row.begin();
}

// Megatron Core: "P <= G <= M and M mod G is 0 or at least P".
bool legal_in_words(const Step& step, int64_t microbatches) {
  int64_t group = step.group == 0 ? step.ranks : step.group;
  return step.chunks == 1 || (step.ranks <= group && group <= microbatches &&
                              (microbatches % group == 0 || microbatches % group >= step.ranks));
}

// Every (P, V, M, G) that is taken, with P up to 8, V up to 6 and M up to 6P; of those with P > 4 a random
// part. With `legal`, only those that Megatron takes too.
template <class Visit>
void for_each_count(bool legal, Visit&& visit) {
  Random random(kSeed);
  for (int64_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t chunks = 1; chunks <= 6; ++chunks)
      for (int64_t microbatches = 1; microbatches <= 6 * ranks; ++microbatches)
        for (int64_t group = chunks == 1 ? 0 : ranks;
             group <= (chunks == 1 ? 0 : std::max(ranks, microbatches)); ++group) {
          Step step = backbone_step(ranks, chunks, microbatches, group);
          if (legal && !legal_in_words(step, microbatches)) continue;
          if (ranks > 4 && group > ranks && integer(random, 0, 7) != 0) continue;
          SCOPED_TRACE(describe(step));
          visit(step);
          if (testing::Test::HasFailure()) return;
        }
}

// Megatron Core: "the table goes group by group, chunk by chunk, microbatch by microbatch; backward k is the
// same table with chunks reversed".
Rows rows_in_words(const Step& step) {
  int64_t group = step.chunks == 1 ? step.ranks : step.group;
  std::vector<std::pair<int, int>> order;
  for (int64_t first = 0; first < step.microbatches; first += group)
    for (int chunk = 0; chunk < step.chunks; ++chunk)
      for (int64_t m = first; m < std::min(first + group, step.microbatches); ++m)
        order.emplace_back(chunk, int(m));
  int64_t total = int64_t(order.size());
  Rows rows;
  for (int64_t rank = 0; rank < step.ranks; ++rank) {
    int64_t warmup =
        step.chunks == 1 ? step.ranks - rank - 1 : 2 * (step.ranks - rank - 1) + (step.chunks - 1) * group;
    warmup = std::min(warmup, total);
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

// The rows with the operators of microbatches from `microbatches` on taken out.
Rows cut_down(Rows rows, int64_t microbatches) {
  for (auto& row : rows) std::erase_if(row, [&](const Operator& op) { return op.index >= microbatches; });
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
      EXPECT_EQ(peaks[rank].in_flight, on_rank["peak"].get<int64_t>()) << "rank " << rank;
    }
  }
}

TEST(Base, FollowsTheOrderInWordsForEveryCountThatMegatronTakes) {
  for_each_count(true,
                 [](const Step& step) { EXPECT_EQ(rows_of(make_schedule(step)), rows_in_words(step)); });
}

TEST(Base, OfAnyOtherCountIsTheNextLegalTableWithoutTheMicrobatchesThatAreNotThere) {
  int64_t padded = 0;
  for_each_count(false, [&](const Step& step) {
    Step next = step;
    while (!legal_in_words(next, next.microbatches)) ++next.microbatches;
    padded += next.microbatches != step.microbatches;
    EXPECT_EQ(padded_microbatches(step), next.microbatches);
    EXPECT_EQ(rows_of(make_schedule(step)), cut_down(rows_in_words(next), step.microbatches));
  });
  EXPECT_GT(padded, 1000);
}

TEST(Base, ThatIsAVIsTheTableOfEnoughMicrobatchesWithoutThoseThatAreNotThere) {
  for (Base base : {Base::zb_v, Base::dualpipe_v})
    for (int64_t ranks = 1; ranks <= 8; ++ranks) {
      int64_t enough = base == Base::zb_v ? 2 * ranks - 1 : 2 * ranks;
      auto whole = rows_of(make_schedule(step_of_base(base, ranks, 2, enough)));
      for (int64_t microbatches = 1; microbatches <= enough; ++microbatches) {
        Step step = step_of_base(base, ranks, 2, microbatches);
        SCOPED_TRACE(describe(step));
        EXPECT_EQ(padded_microbatches(step), enough);
        EXPECT_EQ(rows_of(make_schedule(step)), cut_down(whole, microbatches));
      }
    }
}

TEST(Base, OfGPipeRunsAllForwardsAndThenAllBackwards) {
  for (int64_t chunks : {1, 2, 3}) {
    auto schedule = make_schedule(step_of_base(Base::gpipe, 3, chunks, 5));
    std::vector<Operator> expected;
    for (int64_t c = 0; c < chunks; ++c)
      for (int64_t m = 0; m < 5; ++m) expected.push_back(backbone_forward(c, m));
    for (int64_t c = chunks - 1; c >= 0; --c)
      for (int64_t m = 0; m < 5; ++m) expected.push_back(backbone_backward(c, m));
    for (const auto& row : rows_of(schedule)) EXPECT_EQ(row, expected);
  }
}

class EveryBase : public testing::TestWithParam<Base> {
 protected:
  // P 1..8, V up to 4, M 1..26, so below P, below 2P, and no multiple of either.
  template <class Visit>
  void for_each_step(Visit&& visit) const {
    for (int64_t ranks = 1; ranks <= 8; ++ranks)
      for (int64_t chunks : chunks_of(GetParam(), 4))
        for (int64_t microbatches = 1; microbatches <= 26; ++microbatches) {
          Step step = step_of_base(GetParam(), ranks, chunks, microbatches);
          SCOPED_TRACE(describe(step));
          visit(step);
          if (HasFailure()) return;
        }
  }
};

void expect_it_runs(const Schedule& schedule) {
  for (auto sends : {Sends::buffered, Sends::blocking}) {
    Oracle oracle(schedule, sends);
    ASSERT_TRUE(oracle.complete());
    EXPECT_FALSE(oracle.deadlocks()) << name(sends);
    EXPECT_EQ(check(schedule, sends), std::vector<std::string>{}) << name(sends);
  }
}

TEST_P(EveryBase, IsCompleteAndRunsWithBothKindsOfSends) {
  for_each_step([](const Step& step) { expect_it_runs(make_schedule(step)); });
}

TEST_P(EveryBase, IsCompleteAndRunsWhereItsBackwardsTurnBehindAGenerator) {
  for_each_step([](Step step) {
    for (int64_t unit : {int64_t{1}, (step.ranks + 1) / 2, step.ranks}) {
      step.generator_unit = unit;
      SCOPED_TRACE(concat("k=", unit));
      expect_it_runs(base_table(step, Turn::behind_generator));
    }
  });
}

// The last F of a unit on the last stage comes before its first B there, so the generator fits between them.
TEST_P(EveryBase, HasAllForwardsOfAUnitBeforeItsBackwardsOnTheLastStageBehindAGenerator) {
  for_each_step([](Step step) {
    for (int64_t unit = 1; unit <= step.ranks; ++unit) {
      step.generator_unit = unit;
      auto schedule = base_table(step, Turn::behind_generator);
      int64_t last = step.ranks * step.chunks - 1;
      auto row = schedule.row(int(rank_in_words(step, last)));
      std::vector<int64_t> forwards(size_t(step.microbatches), 0);
      for (const auto& op : row) {
        if (op.chunk != step.chunks - 1) continue;
        if (op.phase == Phase::forward) ++forwards[op.index / unit];
        if (op.phase != Phase::backward && op.phase != Phase::input) continue;
        int64_t first = op.index / unit * unit;
        ASSERT_EQ(forwards[op.index / unit], std::min(unit, step.microbatches - first)) << short_name(op);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, EveryBase, testing::ValuesIn(kBases), [](const auto& base) {
  std::string text(name(base.param));
  std::erase(text, '-');
  return text;
});

TEST(Base, TakesTheClosedFormWithEqualTimesForEveryLegalGroup) {
  Random random(kSeed);
  for_each_count(true, [&](const Step& step) {
    auto schedule = make_schedule(step);
    double forward = uniform(random, 0.1, 2), backward = uniform(random, 0.1, 4);
    double expected = double(step.microbatches * step.chunks + step.ranks - 1) * (forward + backward);
    double length = Oracle(schedule).length(
        [&](int, const Operator& op) { return op.phase == Phase::forward ? forward : backward; });
    EXPECT_NEAR(length, expected, 1e-9 * expected);
  });
}

TEST(Base, HoldsAsManyForwardsAsTheFormulaSays) {
  for_each_count(true, [](const Step& step) {
    auto peaks = peak_live(make_schedule(step));
    for (int64_t rank = 0; rank < step.ranks; ++rank) {
      int64_t behind = step.ranks - rank - 1;
      int64_t forwards = step.chunks == 1 ? behind + 1 : 2 * behind + (step.chunks - 1) * step.group + 1;
      PeakLive expected{.units = {}, .in_flight = std::min(forwards, step.microbatches * step.chunks)};
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
  EXPECT_EQ(rows_of(make_schedule(backbone_step(4, 2, 12, 4))),
            rows_of(make_schedule(backbone_step(4, 2, 12))));
}

TEST(Base, OfOneRankHasNoBubble) {
  for (Base base : kBases)
    for (int64_t chunks : chunks_of(base, 3))
      for (int64_t microbatches : {1, 2, 5}) {
        Step step = step_of_base(base, 1, chunks, microbatches);
        double length = Oracle(make_schedule(step)).length([](int, const Operator& op) {
          return op.phase == Phase::backward ? 2.0 : 1.0;
        });
        EXPECT_EQ(length, double(3 * chunks * microbatches)) << describe(step);
      }
}

// Behind a generator a loop's forwards keep their order among themselves, and so do the backwards and what is
// split from them. Every one of these comes a fixed number of forwards later, or where none is left.
TEST(BehindAGenerator, ALoopsBackwardsComeAFixedNumberOfForwardsLater) {
  for (Base base : {Base::one_f_one_b, Base::interleaved, Base::zb_h1})
    for (int64_t ranks = 1; ranks <= 6; ++ranks)
      for (int64_t chunks : chunks_of(base, 3))
        for (int64_t units : {1, 2, 5})
          for (int64_t unit = 1; unit <= ranks; ++unit) {
            Step step = step_of_base(base, ranks, chunks, units * ranks);
            step.generator_unit = unit;
            SCOPED_TRACE(describe(step));
            auto plain = base_table(step), behind = base_table(step, Turn::behind_generator);
            int64_t most = 0;
            for (int rank = 0; rank < ranks; ++rank) {
              std::vector<Operator> forwards[2], others[2];
              std::vector<int64_t> before[2];
              for (int i : {0, 1})
                for (const auto& op : (i == 0 ? plain : behind).row(rank)) {
                  (op.phase == Phase::forward ? forwards : others)[i].push_back(op);
                  if (op.phase != Phase::forward) before[i].push_back(int64_t(forwards[i].size()));
                }
              ASSERT_EQ(forwards[0], forwards[1]);
              ASSERT_EQ(others[0], others[1]);
              int64_t total = int64_t(forwards[0].size()), delay = -1;
              for (size_t i = 0; i < others[0].size(); ++i) {
                most = std::max(most, before[1][i] - before[0][i]);
                if (before[1][i] == total) continue;
                if (delay < 0) delay = before[1][i] - before[0][i];
                EXPECT_EQ(before[1][i] - before[0][i], delay)
                    << "rank " << rank << " " << short_name(others[0][i]);
              }
            }
            if (ranks % unit == 0) {
              EXPECT_LE(most, unit);
              if (units >= 5 && chunks == 1) {
                EXPECT_EQ(most, unit);
              }
            }
          }
}

}  // namespace
}  // namespace bigmac
