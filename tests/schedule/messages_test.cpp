#include "bigmac/schedule/messages.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/nest.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

std::vector<Schedule> random_schedules(Random& random, int count) {
  std::vector<Schedule> schedules;
  while (int(schedules.size()) < count) {
    int64_t ranks = integer(random, 1, 6), chunks = integer(random, 1, 4);
    auto step = nested_step(ranks, chunks, ranks * integer(random, 1, 5), integer(random, 0, 3) > 0,
                            integer(random, 0, 3) > 0);
    keep_a_random_half(random, step.encoder);
    keep_a_random_half(random, step.generator);
    step.arrangement = std::array{Arrangement::nested, Arrangement::three_phase,
                                  Arrangement::llm_only}[size_t(integer(random, 0, 2))];
    schedules.push_back(make_schedule(step));
  }
  return schedules;
}

// (sender, receiver) and the id of the operator that a message is for, counted by the predecessors of every
// operator in the table.
std::map<std::pair<int, int>, std::multiset<int64_t>> messages_needed(const Schedule& schedule) {
  Ids ids(schedule.step);
  std::map<std::pair<int, int>, std::multiset<int64_t>> needed;
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const auto& op : schedule.row(rank))
      for_each_predecessor(schedule.step, ids, rank, op, [&](int64_t, int from) {
        if (from != rank) needed[{from, rank}].insert(ids.of(rank, op));
      });
  return needed;
}

TEST(Inbox, HoldsEveryMessageThatAnOperatorNeedsOnceAndNoOther) {
  Random random(kSeed);
  for (const auto& schedule : random_schedules(random, 150)) {
    SCOPED_TRACE(describe(schedule.step));
    auto needed = messages_needed(schedule);
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      auto inbox = plan_inbox(schedule, rank);
      ASSERT_EQ(int(inbox.from.size()), schedule.ranks());
      for (int sender = 0; sender < schedule.ranks(); ++sender) {
        const auto& planned = inbox.from[size_t(sender)];
        EXPECT_EQ(std::multiset<int64_t>(planned.begin(), planned.end()), (needed[{sender, rank}]))
            << "from rank " << sender << " to rank " << rank;
      }
    }
  }
}

TEST(Inbox, IsInTheOrderOfTheSendersRow) {
  Random random(kSeed + 1);
  for (const auto& schedule : random_schedules(random, 150)) {
    SCOPED_TRACE(describe(schedule.step));
    Ids ids(schedule.step);
    for (int sender = 0; sender < schedule.ranks(); ++sender) {
      std::map<int64_t, int64_t> position;  // in the sender's row, by id
      for (const auto& op : schedule.row(sender))
        position.emplace(ids.of(sender, op), int64_t(position.size()));
      for (int rank = 0; rank < schedule.ranks(); ++rank) {
        int64_t last = -1;
        auto inbox = plan_inbox(schedule, rank);
        for (int64_t id : inbox.from[size_t(sender)]) {
          auto [placed_on, op] = ids.at(id);
          EXPECT_EQ(placed_on, rank);
          for_each_predecessor(schedule.step, ids, rank, op, [&](int64_t from, int from_rank) {
            if (from_rank != sender) return;
            EXPECT_GT(position.at(from), last);
            last = position.at(from);
          });
        }
      }
    }
  }
}

TEST(Inbox, OfOneRankIsEmpty) {
  auto inbox = plan_inbox(make_schedule(nested_step(1, 3, 4, true, true)), 0);
  ASSERT_EQ(inbox.from.size(), 1u);
  EXPECT_TRUE(inbox.from[0].empty());
}

TEST(Inbox, OfTwoRanksAndTwoMicrobatches) {
  auto schedule = make_schedule(backbone_step(2, 1, 2));
  Ids ids(schedule.step);
  EXPECT_EQ(plan_inbox(schedule, 0).from[1],
            (std::vector<int64_t>{ids.backward_of(0, 0), ids.backward_of(0, 1)}));
  EXPECT_EQ(plan_inbox(schedule, 1).from[0],
            (std::vector<int64_t>{ids.forward_of(1, 0), ids.forward_of(1, 1)}));
}

}  // namespace
}  // namespace bigmac
