#include "bigmac/runtime/routes.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/runtime/toy_model.h"

namespace bigmac {
namespace {

// For all operators of some tables.
void for_each_table(const std::function<void(const Schedule&, const Routes&)>& visit) {
  for (auto base : {Base::one_f_one_b, Base::interleaved, Base::zb_v})
    for (auto arrangement : {Arrangement::llm_only, Arrangement::nested, Arrangement::three_phase}) {
      ToyOptions options{toy_step(3, base == Base::one_f_one_b ? 1 : 2, 8, arrangement), toy_order(8)};
      options.step.base = base;
      auto schedule = toy_schedule(options);
      SCOPED_TRACE(concat(name(base), " ", name(arrangement)));
      visit(schedule, Routes(schedule));
    }
}

std::set<int> ranks_of(const std::vector<Part>& parts) {
  std::set<int> ranks;
  for (const auto& part : parts) ranks.insert(part.rank);
  return ranks;
}

TEST(Routes, LeadWhereTheDependenciesLead) {
  for_each_table([](const Schedule& schedule, const Routes& routes) {
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (const auto& op : schedule.row(rank)) {
        std::set<int> to, from;
        routes.dependencies().for_each_receiver(rank, op, [&](int64_t, int other) { to.insert(other); });
        EXPECT_EQ(ranks_of(routes.outputs(rank, op)), to) << describe(schedule, op);
        routes.dependencies().for_each_predecessor(rank, op, [&](int64_t id, int other) {
          auto parts = routes.outputs(other, routes.dependencies().at(id).op);
          if (!parts.empty()) from.insert(other);
        });
        bool takes_only_parts = op.phase == Phase::forward || op.phase == Phase::generate;
        if (!takes_only_parts) continue;  // the others need activations too
        EXPECT_EQ(ranks_of(routes.inputs(rank, op)), from) << describe(schedule, op);
      }
  });
}

TEST(Routes, HaveOneGiverAndOneTakerOfEachPart) {
  for_each_table([](const Schedule& schedule, const Routes& routes) {
    using Ends = std::pair<int, int>;
    std::map<int64_t, Ends> given, taken;
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (const auto& op : schedule.row(rank)) {
        for (const auto& part : routes.outputs(rank, op))
          EXPECT_TRUE(given.emplace(part.key, Ends{rank, part.rank}).second) << describe(schedule, op);
        for (const auto& part : routes.inputs(rank, op))
          EXPECT_TRUE(taken.emplace(part.key, Ends{part.rank, rank}).second) << describe(schedule, op);
      }
    EXPECT_EQ(given, taken);
  });
}

TEST(Routes, GiveAMicrobatchItsItemsInOrderOfModuleAndNumber) {
  for_each_table([](const Schedule& schedule, const Routes& routes) {
    for (int64_t m = 0; m < schedule.step.microbatches; ++m) {
      std::vector<std::pair<int, int>> expected[2], got[2];
      if (schedule.step.arrangement != Arrangement::llm_only)
        for (int n = 0; n < int(schedule.step.modules.size()); ++n) {
          const auto& module = schedule.step.modules[size_t(n)];
          int number = 0;
          for (const auto& item : module.items)
            if (item.microbatch == m) expected[module.kind == Module::generator].emplace_back(n, number++);
        }
      for (auto item : routes.encoded(m))
        got[0].emplace_back(routes.place(item).module, routes.place(item).number);
      for (auto item : routes.generated(m))
        got[1].emplace_back(routes.place(item).module, routes.place(item).number);
      EXPECT_EQ(got[0], expected[0]);
      EXPECT_EQ(got[1], expected[1]);
    }
  });
}

}  // namespace
}  // namespace bigmac
