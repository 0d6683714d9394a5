#include "bigmac/train/sharded_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac::train {
namespace {

// Two encoders and two generators, some frozen, some with few items or none.
Step random_modules(Random& random, Arrangement arrangement) {
  Base base = kBases[integer(random, 0, 5)];
  auto chunks = chunks_of(base, 3);
  int64_t ranks = integer(random, 1, 6), microbatches = integer(random, 1, 20);
  if (is_v_shaped(base)) microbatches = std::max(microbatches, 2 * ranks);
  auto step =
      step_of_base(base, ranks, chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))], microbatches);
  step.arrangement = arrangement;
  for (auto kind : {Module::encoder, Module::generator, Module::encoder, Module::generator}) {
    if (integer(random, 0, 3) == 0) continue;
    step.modules.push_back({concat("module ", step.modules.size()), kind,
                            random_items(random, microbatches, 1, integer(random, 1, 4))});
  }
  freeze_some(random, step, 4);
  return step;
}

std::vector<bool> some_of(Random& random, const Step& step) {
  std::vector<bool> taken;
  for (size_t n = 0; n < step.modules.size(); ++n) taken.push_back(integer(random, 0, 3) > 0);
  return taken;
}

bool is_of(const Operator& op, const std::vector<bool>& is_sharded, const Schedule& schedule) {
  return op.module != Module::backbone && is_sharded[size_t(schedule.shares.list[op.index].module)];
}

// Walks all rows at once where every gather, and every reduction right behind its operator, waits for all
// ranks, and every operator for its predecessors. Returns the ranks that come to their end.
int ranks_that_end(const Schedule& schedule, const std::vector<std::vector<ShardedUse>>& uses) {
  enum What { gather, run, reduce };
  struct Event {
    What what;
    int64_t number;  // of the use, or position
  };
  Dependencies dependencies(schedule);
  std::vector<std::vector<Event>> rows;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto& row = rows.emplace_back();
    int64_t length = int64_t(schedule.row(rank).size());
    const auto& list = uses[size_t(rank)];
    size_t next = 0;
    for (int64_t position = 0; position <= length; ++position) {
      bool has_run = false;
      for (; next < list.size() && list[next].position == position; ++next) {
        if (list[next].gathers) row.push_back({gather, int64_t(next)});
        if (list[next].runs) row.push_back({run, position});
        has_run |= list[next].runs;
        if (list[next].reduces) row.push_back({reduce, int64_t(next)});
        if (list[next].runs) {
          ++next;
          break;
        }
      }
      if (!has_run && position < length) row.push_back({run, position});
    }
  }
  std::vector<size_t> at(rows.size(), 0);
  std::set<int64_t> done;
  std::map<std::pair<int, int64_t>, int> come;  // ranks that wait at, or are past, a collective
  std::vector<bool> waits(rows.size(), false);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < rows.size(); ++rank)
      while (at[rank] < rows[rank].size()) {
        auto [what, number] = rows[rank][at[rank]];
        if (what == run) {
          const auto& op = schedule.row(int(rank))[size_t(number)];
          bool ready = true;
          dependencies.for_each_predecessor(int(rank), op,
                                            [&](int64_t id, int) { ready &= done.contains(id); });
          if (!ready) break;
          done.insert(dependencies.of(int(rank), op));
        } else {
          int& count = come[{what, number}];
          if (!waits[rank]) ++count, waits[rank] = true, moved = true;
          if (count < int(rows.size())) break;
          waits[rank] = false;
        }
        ++at[rank];
        moved = true;
      }
  }
  int ended = 0;
  for (size_t rank = 0; rank < rows.size(); ++rank) ended += at[rank] == rows[rank].size();
  return ended;
}

TEST(ShardedPlan, RanksGatherAndReduceTheSameInTheSameOrderAndEndHoweverTheyWait) {
  Random random(kSeed);
  int64_t kept = 0, away = 0, behind = 0;
  for (int round = 0; round < 400; ++round) {
    auto step = random_modules(random, round % 3 == 0 ? Arrangement::three_phase : Arrangement::nested);
    SCOPED_TRACE(describe(step));
    auto is_sharded = some_of(random, step);
    auto schedule = make_schedule(step);
    std::vector<std::vector<ShardedUse>> uses;
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      uses.push_back(sharded_uses(schedule, rank, is_sharded, Gather::collective));
      auto row = schedule.row(rank);
      std::set<int64_t> ran;
      ASSERT_EQ(uses.back().size(), uses[0].size());
      for (size_t i = 0; i < uses[0].size(); ++i) {
        const auto &own = uses.back()[i], &first = uses[0][i];
        EXPECT_EQ(own.module, first.module);
        EXPECT_EQ(own.gathers, first.gathers);
        EXPECT_EQ(own.frees, first.frees);
        EXPECT_EQ(own.reduces, first.reduces);
        EXPECT_EQ(own.gathers, i == 0 || uses.back()[i - 1].frees);
        if (own.runs) {
          EXPECT_TRUE(ran.insert(own.position).second);
        }
        kept += !own.frees;
        away += !own.runs;
        behind += own.position == int64_t(row.size());
      }
      for (int64_t position = 0; position < int64_t(row.size()); ++position)
        EXPECT_EQ(ran.contains(position), is_of(row[size_t(position)], is_sharded, schedule));
    }
    EXPECT_EQ(ranks_that_end(schedule, uses), schedule.ranks());
  }
  EXPECT_GT(kept, 100) << "too few values that stay";
  EXPECT_GT(away, 100) << "too few ranks without a share";
  EXPECT_GT(behind, 20) << "too few units behind a row's end";
}

// The check above finds circles: it must find the one of a rank that takes part in generator units at its end
// alone, while its backwards wait for them.
TEST(ShardedPlan, TakingPartTooLateIsACircle) {
  auto schedule = make_schedule(nested_step(4, 1, 8, true, true));
  std::vector<std::vector<ShardedUse>> uses;
  for (int rank = 0; rank < 4; ++rank)
    uses.push_back(sharded_uses(schedule, rank, {false, true}, Gather::collective));
  EXPECT_EQ(ranks_that_end(schedule, uses), 4);
  for (auto& use : uses[0]) {
    use.runs = false;
    use.position = int64_t(schedule.row(0).size());
  }
  EXPECT_LT(ranks_that_end(schedule, uses), 4);
}

TEST(ShardedPlan, OneSidedEveryShareHasATurnOfItsOwnAndValuesStayBetweenNeighbours) {
  Random random(kSeed + 1);
  int64_t kept = 0;
  for (int round = 0; round < 300; ++round) {
    constexpr Arrangement kAll[] = {Arrangement::nested, Arrangement::nested_fill, Arrangement::three_phase,
                                    Arrangement::optimus, Arrangement::megatron};
    auto step = random_modules(random, kAll[round % 5]);
    SCOPED_TRACE(describe(step));
    auto is_sharded = some_of(random, step);
    Schedule schedule;
    try {
      schedule = make_schedule(step);
    } catch (const InvalidInput&) {
      continue;  // a base that the arrangement does not take
    }
    std::map<int32_t, std::set<int64_t>> turns;
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      auto uses = sharded_uses(schedule, rank, is_sharded, Gather::one_sided);
      auto row = schedule.row(rank);
      size_t next = 0;
      for (int64_t position = 0; position < int64_t(row.size()); ++position) {
        if (!is_of(row[size_t(position)], is_sharded, schedule)) continue;
        ASSERT_LT(next, uses.size());
        const auto& use = uses[next++];
        EXPECT_EQ(use.position, position);
        EXPECT_TRUE(use.runs);
        EXPECT_EQ(use.module, schedule.shares.list[row[size_t(position)].index].module);
        bool same =
            next > 1 && uses[next - 2].module == use.module && uses[next - 2].position + 1 == position;
        EXPECT_EQ(use.gathers, !same);
        if (next > 1) {
          EXPECT_EQ(uses[next - 2].frees, use.gathers);
        }
        kept += same;
        if (use.reduces) {
          EXPECT_TRUE(turns[use.module].insert(use.turn).second);
        }
      }
      EXPECT_EQ(next, uses.size());
      if (!uses.empty()) {
        EXPECT_TRUE(uses.back().frees);
      }
    }
    for (size_t n = 0; n < step.modules.size(); ++n) {
      if (!is_sharded[n]) continue;
      const auto& taken = turns[int32_t(n)];
      int64_t count = turns_of(schedule, int32_t(n));
      EXPECT_EQ(int64_t(taken.size()), count);
      if (count > 0) {
        EXPECT_EQ(*taken.rbegin(), count - 1);
      }
    }
  }
  EXPECT_GT(kept, 100);
}

TEST(ShardedPlan, ATableWithoutUnitsIsNotGatheredTogether) {
  auto step = nested_step(4, 1, 8, true, false);
  step.arrangement = Arrangement::optimus;
  auto schedule = make_schedule(step);
  try {
    sharded_uses(schedule, 0, {true}, Gather::collective);
    FAIL() << "no error";
  } catch (const InvalidInput& error) {
    EXPECT_TRUE(contains(error.what(), "'image'") && contains(error.what(), "one-sided")) << error.what();
  }
  EXPECT_TRUE(sharded_uses(schedule, 0, {false}, Gather::collective).empty());
}

}  // namespace
}  // namespace bigmac::train
