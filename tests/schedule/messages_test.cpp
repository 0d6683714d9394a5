#include "bigmac/schedule/messages.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

std::vector<Schedule> random_schedules(Random& random, int count) {
  std::vector<Schedule> schedules;
  while (int(schedules.size()) < count) {
    Base base = kBases[schedules.size() % 6];
    auto chunks = chunks_of(base, 4);
    int64_t ranks = integer(random, 1, 6);
    Step step = step_of_base(base, ranks, chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))],
                             integer(random, 1, 5 * ranks));
    step = nested(step, integer(random, 0, 3) > 0, integer(random, 0, 3) > 0);
    step.modules.push_back({"audio", Module::encoder, {}});
    freeze_some(random, step, 3);
    for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
    step.generator_unit = integer(random, 0, ranks);
    step.arrangement = std::array{Arrangement::nested, Arrangement::three_phase,
                                  Arrangement::llm_only}[size_t(integer(random, 0, 2))];
    schedules.push_back(make_schedule(step));
  }
  return schedules;
}

// (sender, receiver) and the ids of the operators whose output goes there, found by what every operator of
// the table needs.
std::map<std::pair<int, int>, std::set<int64_t>> messages_needed(const Schedule& schedule) {
  Dependencies dependencies(schedule);
  std::map<std::pair<int, int>, std::set<int64_t>> needed;
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const auto& op : schedule.row(rank))
      dependencies.for_each_predecessor(rank, op, [&](int64_t id, int from) {
        if (from != rank) needed[{from, rank}].insert(id);
      });
  return needed;
}

TEST(Inbox, HoldsEveryOutputThatOperatorsOfTheRankNeedOnceAndNoOther) {
  Random random(kSeed);
  for (const auto& schedule : random_schedules(random, 180)) {
    SCOPED_TRACE(describe(schedule.step));
    auto needed = messages_needed(schedule);
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      auto inbox = plan_inbox(schedule, rank);
      ASSERT_EQ(int(inbox.from.size()), schedule.ranks());
      for (int sender = 0; sender < schedule.ranks(); ++sender) {
        const auto& planned = inbox.from[size_t(sender)];
        const auto& expected = needed[{sender, rank}];
        EXPECT_EQ(std::multiset<int64_t>(planned.begin(), planned.end()),
                  std::multiset<int64_t>(expected.begin(), expected.end()))
            << "from rank " << sender << " to rank " << rank;
      }
    }
  }
}

TEST(Inbox, IsInTheOrderOfTheSendersRow) {
  Random random(kSeed + 1);
  for (const auto& schedule : random_schedules(random, 180)) {
    SCOPED_TRACE(describe(schedule.step));
    Dependencies dependencies(schedule);
    for (int sender = 0; sender < schedule.ranks(); ++sender) {
      std::map<int64_t, int64_t> position;  // in the sender's row, by id
      for (const auto& op : schedule.row(sender))
        position.emplace(dependencies.of(sender, op), int64_t(position.size()));
      for (int rank = 0; rank < schedule.ranks(); ++rank) {
        int64_t last = -1;
        auto inbox = plan_inbox(schedule, rank);
        for (int64_t id : inbox.from[size_t(sender)]) {
          ASSERT_TRUE(position.contains(id));
          EXPECT_GT(position.at(id), last);
          last = position.at(id);
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
  Dependencies dependencies(schedule);
  EXPECT_EQ(plan_inbox(schedule, 0).from[1],
            (std::vector<int64_t>{dependencies.backward_of(1, 0), dependencies.backward_of(1, 1)}));
  EXPECT_EQ(plan_inbox(schedule, 1).from[0],
            (std::vector<int64_t>{dependencies.forward_of(0, 0), dependencies.forward_of(0, 1)}));
}

// A share with items of two microbatches sends one message, though two forwards need it.
TEST(Inbox, HoldsOneMessageOfAShareWhateverNumberOfMicrobatchesItHasItemsOf) {
  Step step = nested_step(2, 1, 2, true, false);
  step.modules[0].items = {{0, 5}, {0, 1}, {1, 2}};  // unit 0: 5 | 2 1
  auto schedule = make_schedule(step);
  Dependencies dependencies(schedule);
  EXPECT_EQ(plan_inbox(schedule, 0).from[1],
            (std::vector<int64_t>{dependencies.first_of(1), dependencies.backward_of(1, 0),
                                  dependencies.backward_of(1, 1)}));
  EXPECT_EQ(plan_inbox(schedule, 1).from[0],
            (std::vector<int64_t>{dependencies.forward_of(0, 0), dependencies.forward_of(0, 1),
                                  dependencies.backward_of(0, 0), dependencies.backward_of(0, 1)}));
}

}  // namespace
}  // namespace bigmac
