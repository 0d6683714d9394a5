#include "bigmac/schedule/step.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>

#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

// The step is refused, and the message holds all of these.
void expect_refused(const Step& step, const std::vector<std::string>& parts) {
  SCOPED_TRACE(describe(step));
  auto message = refusal([&] { make_schedule(step); });
  ASSERT_TRUE(message);
  for (const auto& part : parts)
    EXPECT_TRUE(contains(*message, part)) << "lacks '" << part << "': " << *message;
}

TEST(LegalCounts, OfGroupsAreFromPToMAndTheNearestIsNamed) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t chunks = 2; chunks <= 3; ++chunks)
      for (int64_t microbatches = 1; microbatches <= 4 * ranks; ++microbatches)
        for (int64_t group = -1; group <= microbatches + ranks + 2; ++group) {
          if (group == 0) continue;
          Step step = backbone_step(ranks, chunks, microbatches, group);
          int64_t most = std::max(ranks, microbatches);
          if (ranks <= group && group <= most) {
            EXPECT_EQ(refusal([&] { make_schedule(step); }), std::nullopt) << describe(step);
            continue;
          }
          expect_refused(step, {concat("P=", ranks, " V=", chunks, " M=", microbatches, " G=", group),
                                concat("nearest legal G: ", group < ranks ? ranks : most)});
        }
}

TEST(LegalCounts, OfMicrobatchesAreAll) {
  for (Base base : kBases)
    for (int64_t ranks = 1; ranks <= 6; ++ranks)
      for (int64_t chunks : chunks_of(base, 3))
        for (int64_t microbatches = 1; microbatches <= 3 * ranks; ++microbatches)
          for (int modules = 0; modules <= 3; ++modules) {
            Step step = nested(step_of_base(base, ranks, chunks, microbatches), modules & 1, modules & 2);
            EXPECT_EQ(refusal([&] { make_schedule(step); }), std::nullopt) << describe(step);
          }
}

TEST(LegalCounts, OfChunksAreThoseOfTheBaseAndAnotherBaseIsNamed) {
  struct Case {
    Base base;
    int64_t chunks;
    std::string instead;  // empty where it is legal
  };
  for (const auto& [base, chunks, instead] : {Case{Base::one_f_one_b, 1, ""},
                                              {Base::one_f_one_b, 2, "V=1 or the base 'interleaved'"},
                                              {Base::zb_h1, 1, ""},
                                              {Base::zb_h1, 2, "V=1 or the base 'zb-v'"},
                                              {Base::interleaved, 1, "V=2 or more, or the base '1f1b'"},
                                              {Base::interleaved, 2, ""},
                                              {Base::interleaved, 3, ""},
                                              {Base::zb_v, 1, "V=2"},
                                              {Base::zb_v, 2, ""},
                                              {Base::zb_v, 3, "V=2"},
                                              {Base::dualpipe_v, 1, "V=2"},
                                              {Base::dualpipe_v, 2, ""},
                                              {Base::dualpipe_v, 4, "V=2"},
                                              {Base::gpipe, 1, ""},
                                              {Base::gpipe, 3, ""}}) {
    Step step = step_of_base(base, 2, chunks, 6);
    if (instead.empty())
      EXPECT_EQ(refusal([&] { make_schedule(step); }), std::nullopt) << describe(step);
    else
      expect_refused(step,
                     {concat("[", name(base), "]"), concat("P=2 V=", chunks, " M=6"), "take " + instead});
  }
}

TEST(LegalCounts, OfGroupsAreNoneForAnyOtherBase) {
  for (Base base : kBases)
    if (base != Base::interleaved)
      for (int64_t group : {-1, 1, 2, 4})
        expect_refused(step_of_base(base, 2, chunks_of(base, 2).back(), 4, group),
                       {concat("[", name(base), "] has no groups"), concat("G=", group), "'interleaved'"});
}

TEST(LegalCounts, OfAGeneratorsUnitAreFromOneToP) {
  for (int64_t ranks : {1, 3, 4})
    for (int64_t unit = -2; unit <= ranks + 2; ++unit) {
      Step step = nested_step(ranks, 1, 5, true, true);
      step.generator_unit = unit;
      if (unit >= 0 && unit <= ranks)
        EXPECT_EQ(refusal([&] { make_schedule(step); }), std::nullopt);
      else
        expect_refused(step, {"unit (k)", "1 to P", concat("got ", unit), concat("P=", ranks, " V=1 M=5")});
    }
}

TEST(BadCounts, AreRefusedByNameWithoutOverflowOrAllocation) {
  const std::vector<int64_t> bad{0,
                                 -1,
                                 -7,
                                 std::numeric_limits<int64_t>::min(),
                                 int64_t{1} << 31,
                                 int64_t{1} << 32,
                                 int64_t{1} << 40,
                                 std::numeric_limits<int64_t>::max()};
  for (int64_t value : bad)
    for (Base base : kBases)
      for (int which = 0; which < 3; ++which) {
        Step step = step_of_base(base, 2, chunks_of(base, 2).back(), 4);
        (which == 0 ? step.ranks : which == 1 ? step.chunks : step.microbatches) = value;
        const char* what = which == 0 ? "ranks (P)" : which == 1 ? "chunks (V)" : "microbatches (M)";
        expect_refused(step, {what, concat("got ", value)});
      }
}

TEST(BadCounts, AreRefusedWhereOnlyTheirProductIsTooLarge) {
  for (auto [ranks, chunks, microbatches] : {std::array<int64_t, 3>{1 << 28, 1 << 15, 1 << 28},
                                             {1 << 14, 1 << 7, 1 << 7},
                                             {1 << 28, 1, 1},
                                             {1, 1, 1 << 28},
                                             {1 << 9, 2, (1 << 17) + (1 << 9)}})
    expect_refused(backbone_step(ranks, chunks, microbatches),
                   {concat("P=", ranks, " V=", chunks, " M=", microbatches), concat(int64_t{1} << 28)});
  // A split backward is one operator more.
  expect_refused(step_of_base(Base::zb_h1, 1 << 9, 1, 1 << 18), {"P=512 V=1 M=262144"});
}

TEST(BadCounts, AHugeGroupIsRefusedAtOnce) {
  for (int64_t group : {int64_t{1} << 28, int64_t{1} << 40, std::numeric_limits<int64_t>::max(),
                        std::numeric_limits<int64_t>::min()})
    for (auto arrangement : {Arrangement::llm_only, Arrangement::nested}) {
      Step step = nested_step(2, 2, 4, true, false);
      step.arrangement = arrangement;
      step.group = group;
      expect_refused(step, {concat("G=", group)});
    }
}

TEST(BadCounts, MoreChunksThanAnOperatorCanNameAreRefused) {
  expect_refused(backbone_step(1, int64_t{UINT16_MAX} + 1, 1), {"65535"});
}

TEST(BadItems, AreRefusedByModuleItemAndMicrobatch) {
  auto with = [](std::vector<Item> items) {
    Step step = nested_step(2, 2, 8, true, true);
    step.modules[1].items = std::move(items);
    return step;
  };
  EXPECT_EQ(refusal([&] { make_schedule(with({{0, 1}, {0, 0.5}, {7, 1e-300}})); }), std::nullopt);
  for (double size : {0.0, -0.0, -1.0, std::nan(""), HUGE_VAL, -HUGE_VAL})
    expect_refused(with({{0, 1}, {3, size}}),
                   {"module 'picture'", "item 1", "(microbatch 3)", concat("size ", size), "above 0"});
  expect_refused(with({{0, 1}, {8, 1}}), {"module 'picture'", "item 1", "microbatch 8", "the step has 8"});
  expect_refused(with({{UINT32_MAX, 1}}), {"item 0", "microbatch 4294967295", "the step has 8"});
  expect_refused(with({{2, 1}, {5, 1}, {4, 1}}), {"module 'picture'", "item 2", "of microbatch 4",
                                                  "behind one of 5", "in order of microbatch"});
}

TEST(BadModules, AreRefusedByName) {
  Step step = nested_step(2, 2, 8, true, true);
  step.modules[1].name = "image";
  expect_refused(step, {"two modules are named 'image'"});
  step = nested_step(2, 2, 8, true, true);
  step.modules[0].kind = Module::backbone;
  expect_refused(step, {"module 'image'", "encoder or a generator"});
  for (int64_t units : {int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    step = nested_step(2, 2, 8, true, true);
    step.modules[0].warmup_units = units;
    expect_refused(step, {"module 'image'", "(W) must be at least 1", concat("got ", units)});
  }
  step = nested_step(2, 2, 8, true, true);
  step.modules[1].trained = false;
  expect_refused(step, {"module 'picture'", "a generator and cannot be frozen", "gradients pass through it"});
}

TEST(BadOrders, ThatAreNoPermutationAreRefusedByMicrobatchAndPosition) {
  auto with = [](std::vector<uint32_t> order) {
    Step step = backbone_step(2, 1, 4);
    step.order = std::move(order);
    return step;
  };
  EXPECT_EQ(refusal([&] { make_schedule(with({3, 1, 0, 2})); }), std::nullopt);
  EXPECT_EQ(with({3, 1, 0, 2}).declared(0), 3u);
  EXPECT_EQ(with({}).declared(2), 2u);
  expect_refused(with({3, 1, 0}), {"has 3 microbatches", "the step has 4"});
  expect_refused(with({3, 1, 0, 2, 4}), {"has 5 microbatches", "the step has 4"});
  expect_refused(with({3, 4, 0, 2}), {"microbatch 4 at position 1", "0 to 3"});
  expect_refused(with({3, 1, 0, 1}), {"microbatch 1 twice", "positions 1 and 3"});
}

TEST(BadPlacements, AreRefusedByStageAndRank) {
  Step step = step_of_base(Base::custom, 2, 2, 4);
  step.stage_ranks = {0, 2, 1, 0};
  expect_refused(step, {"stage 1 is on rank 2", "ranks 0 to 1"});
  step.stage_ranks = {0, -1};
  expect_refused(step, {"stage 1 is on rank -1"});
  step.stage_ranks = {0, 0, 0, 1};
  expect_refused(step, {"rank 0 holds more than V=2 stages"});
}

TEST(BadCosts, ThatAreNegativeOrNotFiniteAreRefusedByName) {
  auto schedule = make_schedule(nested_step(2, 1, 4, true, true));
  for (double bad : {-1.0, -1e-300, std::nan(""), HUGE_VAL, -HUGE_VAL})
    for (int which = 0; which < 8; ++which) {
      Costs costs{.forward = {1, 1}, .backward = {2, 2}, .weight = {1, 1}, .modules = {{1, 1}, {1, 1}}};
      const char* names[] = {"backbone forward", "backbone backward", "backbone weight",  "image forward",
                             "image backward",   "picture forward",   "picture backward", "latency"};
      double* fields[] = {&costs.forward[1],          &costs.backward[0],
                          &costs.weight[1],           &costs.modules[0].forward,
                          &costs.modules[0].backward, &costs.modules[1].forward,
                          &costs.modules[1].backward, &costs.latency};
      *fields[which] = bad;
      auto message = refusal([&] { Durations(schedule, costs); });
      ASSERT_TRUE(message) << names[which] << " " << bad;
      EXPECT_TRUE(contains(*message, names[which])) << *message;
      EXPECT_TRUE(contains(*message, concat("got ", bad))) << *message;
    }
}

TEST(BadCosts, OfAWrongNumberAreRefusedWithBothCounts) {
  Step step = nested_step(2, 2, 4, true, true);
  auto schedule = make_schedule(step);
  for (size_t length : {0, 2, 3, 5})
    for (int which = 0; which < 3; ++which) {
      Costs costs;
      auto& list = which == 0 ? costs.forward : which == 1 ? costs.backward : costs.weight;
      list.assign(length, 1.0);
      if (which == 2 && length == 0) continue;  // half of the backward
      for (auto message :
           {refusal([&] { Durations(schedule, costs); }), refusal([&] { make_schedule(step, costs); })}) {
        ASSERT_TRUE(message) << length;
        const char* names[] = {"backbone forward", "backbone backward", "backbone weight"};
        EXPECT_TRUE(contains(*message, names[which])) << *message;
        EXPECT_TRUE(contains(*message, "4 stages")) << *message;
        EXPECT_TRUE(contains(*message, concat("got ", length))) << *message;
      }
    }
  auto message = refusal([&] { Durations(schedule, {.modules = std::vector<ModuleCosts>(3)}); });
  ASSERT_TRUE(message);
  EXPECT_TRUE(contains(*message, "has 3 encoders and generators, the step has 2")) << *message;
}

TEST(BadCosts, OfAWeightPartAboveItsBackwardAreRefusedByStage) {
  auto schedule = make_schedule(step_of_base(Base::zb_h1, 3, 1, 4));
  auto message = refusal([&] { Durations(schedule, {.backward = {2, 2, 2}, .weight = {1, 2, 2.5}}); });
  ASSERT_TRUE(message);
  EXPECT_TRUE(contains(*message, "stage 2")) << *message;
  EXPECT_TRUE(contains(*message, "2.5")) << *message;
}

TEST(Costs, OfEveryOperatorAreAsReckoned) {
  Random random(kSeed);
  for (Base base : kBases) {
    Step step = nested(step_of_base(base, 3, chunks_of(base, 3).back(), 7), true, true);
    for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
    auto costs = random_stage_costs(random, step);
    auto schedule = make_schedule(step);
    Durations durations(schedule, costs);
    Reckoned reckoned(schedule, costs);
    EXPECT_EQ(durations.longest_backbone(), longest_backbone(costs));
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (const auto& op : schedule.row(rank))
        EXPECT_DOUBLE_EQ(durations(rank, op), reckoned(rank, op)) << describe(step) << " " << long_name(op);
  }
}

TEST(Names, OfBasesAndSchedulesAreReadBack) {
  for (auto base : {Base::gpipe, Base::one_f_one_b, Base::interleaved, Base::zb_h1, Base::zb_v,
                    Base::dualpipe_v, Base::custom})
    EXPECT_EQ(base_from_name(name(base)), base);
  for (auto arrangement :
       {Arrangement::llm_only, Arrangement::nested, Arrangement::nested_fill, Arrangement::three_phase,
        Arrangement::optimus, Arrangement::megatron, Arrangement::disttrain})
    EXPECT_EQ(arrangement_from_name(name(arrangement)), arrangement);
  for (auto module : {Module::backbone, Module::encoder, Module::generator})
    EXPECT_EQ(module_from_name(name(module)), module);
  for (auto sends : {Sends::buffered, Sends::blocking}) EXPECT_EQ(sends_from_name(name(sends)), sends);
}

TEST(Names, ThatAreUnknownAreRefusedWithTheNearest) {
  auto expect = [](auto read, const std::string& text, const std::vector<std::string>& parts) {
    auto message = refusal([&] { read(text); });
    ASSERT_TRUE(message) << text;
    for (const auto& part : parts) EXPECT_TRUE(contains(*message, part)) << *message;
  };
  expect(base_from_name, "interleave", {"'interleave'", "did you mean 'interleaved'?"});
  expect(base_from_name, "zbh1",
         {"did you mean 'zb-h1'?", "gpipe, 1f1b, interleaved, zb-h1, zb-v, dualpipe-v"});
  expect(arrangement_from_name, "nestd",
         {"did you mean 'nested'?", "llm-only, nested, nested-fill, three-phase"});
  expect(module_from_name, "encodr", {"did you mean 'encoder'?"});
  expect(sends_from_name, "buffred", {"did you mean 'buffered'?"});
  EXPECT_FALSE(contains(*refusal([] { arrangement_from_name("zzzzzzzzzz"); }), "did you mean"));
}

TEST(Ids, AreDenseAndReadBack) {
  Random random(kSeed);
  for (Base base : kBases) {
    Step step = nested(step_of_base(base, 3, chunks_of(base, 2).back(), 7), true, true);
    step.modules.push_back({"audio", Module::encoder, {}});
    step.modules.back().trained = false;
    for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
    SCOPED_TRACE(describe(step));
    auto schedule = make_schedule(step);
    Dependencies dependencies(schedule);
    std::vector<int> seen(size_t(dependencies.count()), 0);
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (const auto& op : schedule.row(rank)) {
        int64_t id = dependencies.of(rank, op);
        ASSERT_GE(id, 0);
        ASSERT_LT(id, dependencies.count());
        EXPECT_EQ(id < dependencies.backbone_count(), op.module == Module::backbone);
        ++seen[size_t(id)];
        auto placed = dependencies.at(id);
        auto expected = op;
        if (op.phase == Phase::input) expected.phase = Phase::backward;  // they share an id
        EXPECT_EQ(placed.rank, rank) << long_name(op);
        EXPECT_EQ(placed.op, expected) << long_name(placed.op);
      }
    EXPECT_EQ(*std::max_element(seen.begin(), seen.end()), 1);
    // What has no operator: a generator's or frozen encoder's second, and the weight part of a whole
    // backward.
    int64_t none = std::count(seen.begin(), seen.end(), 0), expected = 0;
    for (const auto& share : schedule.shares.list)
      expected += schedule.module_of(share).kind == Module::generator || !schedule.module_of(share).trained;
    if (step.splits_backward())
      for (const auto& op : schedule.operators)
        expected += op.module == Module::backbone && op.phase == Phase::backward;
    EXPECT_EQ(none, expected);
  }
}

TEST(Stages, OfALoopAreRoundAndOfAVFoldBack) {
  for (Base base : kBases)
    for (int64_t chunks : chunks_of(base, 3)) {
      Step step = step_of_base(base, 4, chunks, 4);
      Dependencies dependencies(step, {});
      for (int64_t s = 0; s < step.stages(); ++s) {
        EXPECT_EQ(rank_of_stage(step, s), rank_in_words(step, s)) << describe(step);
        EXPECT_EQ(dependencies.rank_of(s), rank_in_words(step, s));
        EXPECT_EQ(stage_in_words(step, dependencies.rank_of(s), dependencies.chunk_of(s)), s);
        EXPECT_EQ(dependencies.stage(dependencies.rank_of(s), dependencies.chunk_of(s)), s);
      }
    }
}

TEST(Stages, OfACustomTableAreWhereItSays) {
  Step step = step_of_base(Base::custom, 3, 2, 1);
  step.stage_ranks = {2, 0, 0, 1};
  EXPECT_EQ(step.stages(), 4);
  Dependencies dependencies(step, {});
  EXPECT_EQ(dependencies.stage(0, 0), 1);
  EXPECT_EQ(dependencies.stage(0, 1), 2);
  EXPECT_EQ(dependencies.stage(1, 0), 3);
  EXPECT_EQ(dependencies.stage(1, 1), -1);
  EXPECT_EQ(dependencies.stage(2, 0), 0);
  EXPECT_EQ(dependencies.chunk_of(2), 1);
}

TEST(Dependencies, AndReceiversAreEachOthersInverse) {
  Random random(kSeed);
  for (Base base : kBases)
    for (int64_t ranks : {1, 2, 3, 4})
      for (auto arrangement : {Arrangement::llm_only, Arrangement::nested}) {
        Step step = nested(step_of_base(base, ranks, chunks_of(base, 3).back(), 2 * ranks + 1), true, true);
        step.arrangement = arrangement;
        step.modules.push_back({"audio", Module::encoder, {}});
        freeze_some(random, step, 2);
        for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
        SCOPED_TRACE(describe(step));
        std::vector<std::pair<int64_t, int64_t>> needed, received;
        auto schedule = make_schedule(step);
        Dependencies dependencies(schedule);
        for (int rank = 0; rank < schedule.ranks(); ++rank)
          for (const auto& op : schedule.row(rank)) {
            int64_t own = dependencies.of(rank, op);
            dependencies.for_each_predecessor(rank, op, [&](int64_t id, int from) {
              auto [placed_on, needs] = dependencies.at(id);
              EXPECT_EQ(placed_on, from) << long_name(op);
              bool own_activations =
                  needs.module == op.module && needs.phase == Phase::forward && op.phase != Phase::forward;
              if (!own_activations && op.phase != Phase::weight) needed.emplace_back(id, own);
            });
            dependencies.for_each_receiver(rank, op, [&](int64_t id, int to) {
              EXPECT_EQ(dependencies.at(id).rank, to) << long_name(op);
              received.emplace_back(own, id);
            });
          }
        std::sort(needed.begin(), needed.end());
        std::sort(received.begin(), received.end());
        EXPECT_EQ(needed, received);
        EXPECT_EQ(std::adjacent_find(needed.begin(), needed.end()), needed.end()) << "named twice";
        EXPECT_FALSE(needed.empty() && ranks * step.chunks > 1);
      }
}

TEST(Operator, HasAShortAndALongName) {
  EXPECT_EQ(short_name(backbone_forward(1, 23)), "F1.23");
  EXPECT_EQ(short_name(backbone_backward(0, 4)), "B0.4");
  EXPECT_EQ(short_name(backbone(Phase::input, 0, 4)), "I0.4");
  EXPECT_EQ(short_name(backbone(Phase::weight, 1, 4)), "W1.4");
  EXPECT_EQ(short_name(encoder_forward(5)), "EF5");
  EXPECT_EQ(short_name(encoder_backward(6)), "EB6");
  EXPECT_EQ(short_name(generate(7)), "G7");
  EXPECT_EQ(long_name(backbone_forward(0, 3)), "backbone F chunk 0 microbatch 3");
  EXPECT_EQ(long_name(backbone(Phase::weight, 2, 1)), "backbone W chunk 2 microbatch 1");
  EXPECT_EQ(long_name(encoder_backward(3)), "encoder B share 3");
  EXPECT_EQ(long_name(generate(11)), "generator G share 11");
}

TEST(Operator, IsDescribedWithTheItemsThatItRuns) {
  Step step = nested_step(1, 1, 3, true, false);
  step.modules[0].items = {{0, 1}, {0, 1}, {2, 1}};
  auto whole = make_schedule(step);  // one rank, so each unit's share holds all of its items
  EXPECT_EQ(describe(whole, encoder_forward(0)), "image F unit 0 items 0,1 of microbatch 0");
  EXPECT_EQ(describe(whole, encoder_backward(1)), "image B unit 2 item 0 of microbatch 2");
  EXPECT_EQ(item_list(whole, whole.shares.list[0]), "0.0 0.1");
  step.ranks = 2;
  step.modules[0].items = {{0, 5}, {1, 1}, {1, 2}, {2, 1}};  // unit 0: 5 | 1 2
  auto spread = make_schedule(step);
  EXPECT_EQ(describe(spread, encoder_forward(1)), "image F unit 0 items 0,1 of microbatch 1");
  step.modules[0].items = {{0, 5}, {0, 1}, {1, 3}, {1, 1.5}};  // unit 0: 5 | 3 1.5 1
  spread = make_schedule(step);
  EXPECT_EQ(describe(spread, encoder_forward(1)),
            "image F unit 0 items 1 of microbatch 0, 0,1 of microbatch 1");
  EXPECT_EQ(item_list(spread, spread.shares.list[1]), "0.1 1.0 1.1");
  EXPECT_EQ(describe(spread, backbone_forward(0, 2)), "backbone F chunk 0 microbatch 2");
  EXPECT_EQ(describe(spread, encoder_forward(9)), "encoder F share 9");  // of no table
}

}  // namespace
}  // namespace bigmac
