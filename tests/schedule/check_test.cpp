#include "bigmac/schedule/check.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

using Rows = std::vector<std::vector<Operator>>;

Schedule with_rows(const Schedule& schedule, const Rows& rows) {
  auto changed = make_table(schedule.step, rows, schedule.shares);
  changed.units = schedule.units;
  return changed;
}

// The table with its rows changed by `change`.
template <class Change>
Schedule changed(const Schedule& schedule, Change&& change) {
  auto rows = rows_of(schedule);
  change(rows);
  return with_rows(schedule, rows);
}

std::string told(const Schedule& schedule, Sends sends = Sends::buffered) {
  std::string all;
  for (const auto& problem : check(schedule, sends)) all += problem + "\n";
  return all;
}

void expect_told(const Schedule& schedule, const std::vector<std::string>& parts,
                 Sends sends = Sends::buffered) {
  auto all = told(schedule, sends);
  EXPECT_FALSE(all.empty());
  for (const auto& part : parts) EXPECT_TRUE(contains(all, part)) << "lacks '" << part << "' in:\n" << all;
}

bool tells_of(const std::vector<std::string>& problems, const std::string& what) {
  return std::any_of(problems.begin(), problems.end(),
                     [&](const auto& text) { return contains(text, what); });
}

Schedule nested_table() {
  return make_schedule(nested_step(2, 2, 8, true, true));
}

// Microbatches with several items, so shares with several.
Schedule uneven_table() {
  Step step = nested_step(2, 2, 8, true, true);
  step.modules[0].items = {{0, 1}, {0, 2}, {1, 3}, {1, 1}, {4, 2}, {5, 1}, {5, 1}, {7, 3}};
  return make_schedule(step);
}

TEST(Check, FindsNothingInATableThatIsRight) {
  for (const auto& schedule : {nested_table(), uneven_table()})
    for (auto sends : {Sends::buffered, Sends::blocking}) EXPECT_EQ(told(schedule, sends), "");
}

TEST(Check, NamesEveryOperatorThatIsMissing) {
  for (const auto& schedule :
       {nested_table(), uneven_table(), make_schedule(step_of_base(Base::dualpipe_v, 2, 2, 6))})
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (size_t p = 0; p < schedule.row(rank).size(); ++p) {
        auto op = schedule.row(rank)[p];
        auto without =
            changed(schedule, [&](Rows& rows) { rows[rank].erase(rows[rank].begin() + int64_t(p)); });
        if (op.phase == Phase::input) op.phase = Phase::backward;
        expect_told(without, {concat("rank ", rank, " misses ", describe(schedule, op))});
      }
}

TEST(Check, NamesBothPlacesOfAnOperatorThatIsThereTwice) {
  for (const auto& schedule :
       {nested_table(), uneven_table(), make_schedule(step_of_base(Base::zb_v, 2, 2, 6))})
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      auto row = schedule.row(rank);
      size_t last = row.size();
      for (size_t p = 0; p < last; ++p)
        expect_told(
            changed(schedule, [&](Rows& rows) { rows[rank].push_back(row[p]); }),
            {concat("rank ", rank, " position ", last, " (", describe(schedule, row[p]), ") is there twice"),
             concat("first at position ", p)});
    }
}

TEST(Check, NamesAnOperatorThatIsOnTheWrongRank) {
  // Share 3 is unit 1's on rank 1; the generator's shares come behind the encoder's 8.
  for (auto op : {encoder_forward(3), encoder_backward(3), generate(8 + 3)}) {
    auto schedule = nested_table();
    auto moved = changed(schedule, [&](Rows& rows) {
      ASSERT_EQ(std::erase(rows[1], op), 1u);
      rows[0].insert(rows[0].begin(), op);
    });
    expect_told(moved,
                {concat("rank 0 position 0 (", describe(schedule, op), ") does not belong to this rank"),
                 concat("rank 1 misses ", describe(schedule, op))});
  }
}

TEST(Check, NamesOperatorsOfAnotherStep) {
  auto schedule = nested_table();
  for (auto op :
       {backbone_forward(0, 8), backbone_backward(1, 8), backbone_forward(2, 0), encoder_forward(16),
        generate(16), encoder_forward(8), generate(0),  // the other module's
        backbone(Phase::input, 0, 0), backbone(Phase::weight, 0, 0), backbone(Phase::generate, 0, 0),
        Operator{0, 0, Module::encoder, Phase::generate}, Operator{0, 0, Module::encoder, Phase::input},
        Operator{8, 0, Module::generator, Phase::forward}, Operator{8, 0, Module::generator, Phase::backward},
        Operator{0, 1, Module::encoder, Phase::forward},
        Operator{UINT32_MAX, UINT16_MAX, Module::generator, Phase::generate}})
    expect_told(
        changed(schedule, [&](Rows& rows) { rows[0].push_back(op); }),
        {concat("rank 0 position ", schedule.row(0).size()), "does not belong", describe(schedule, op)});
}

TEST(Check, TellsHalvesOfABackwardThatDoNotGoTogether) {
  auto schedule = make_schedule(step_of_base(Base::zb_h1, 2, 1, 4));
  auto at = [&](Phase phase) {
    auto row = schedule.row(1);
    return std::find(row.begin(), row.end(), backbone(phase, 0, 2)) - row.begin();
  };
  auto with = [&](Phase old, Phase phase) {
    return changed(schedule, [&](Rows& rows) { rows[1][size_t(at(old))].phase = phase; });
  };
  expect_told(with(Phase::input, Phase::backward),
              {concat("rank 1 position ", at(Phase::weight),
                      " (backbone W chunk 0 microbatch 2) is part of a backward "
                      "that is whole at position ",
                      at(Phase::input))});
  expect_told(changed(schedule, [&](Rows& rows) { rows[1].erase(rows[1].begin() + at(Phase::weight)); }),
              {"rank 1 misses backbone W chunk 0 microbatch 2"});
  expect_told(with(Phase::weight, Phase::backward), {"(backbone B chunk 0 microbatch 2) is there twice"});
  // One whole backward in place of both halves is right in a base that splits.
  auto whole = changed(schedule, [&](Rows& rows) {
    rows[1][size_t(at(Phase::input))].phase = Phase::backward;
    rows[1].erase(rows[1].begin() + at(Phase::weight));
  });
  EXPECT_EQ(told(whole), "");
}

TEST(Check, TellsAWeightGradientBeforeItsInputGradient) {
  auto crossed = changed(make_schedule(step_of_base(Base::zb_h1, 2, 1, 4)), [](Rows& rows) {
    auto input = std::find(rows[1].begin(), rows[1].end(), backbone(Phase::input, 0, 2));
    auto weight = std::find(rows[1].begin(), rows[1].end(), backbone(Phase::weight, 0, 2));
    std::iter_swap(input, weight);
  });
  expect_told(crossed, {"deadlock", "(backbone W chunk 0 microbatch 2) needs the output of rank 1",
                        "(backbone I chunk 0 microbatch 2)"});
}

TEST(Check, TellsItemsThatNoRankOrTwoSharesHave) {
  auto schedule = uneven_table();
  auto find_share = [&](size_t least_count) {
    return size_t(std::find_if(schedule.shares.list.begin(), schedule.shares.list.end(),
                               [&](const Share& share) { return share.count >= least_count; }) -
                  schedule.shares.list.begin());
  };
  auto with = [&](auto change) {
    auto other = schedule;
    change(other.shares);
    return other;
  };
  size_t two = find_share(2);
  ASSERT_LT(two, schedule.shares.list.size());
  uint32_t lost = schedule.shares.items_of(schedule.shares.list[two])[1];
  expect_told(with([&](Shares& shares) { --shares.list[two].count; }),
              {concat("item ", lost, " of 'image' (microbatch "), ") is on no rank"});
  // Both shares of unit 0 with item 0.
  ASSERT_EQ(schedule.shares.list[0].unit, schedule.shares.list[1].unit);
  expect_told(with([&](Shares& shares) {
                shares.items = {0, 1, 0, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
                shares.list[0] = {0, 0, 0, 0, 2};
                shares.list[1] = {0, 0, 1, 2, 3};
                for (size_t i = 2; i < shares.list.size(); ++i) ++shares.list[i].first;
              }),
              {"item 0 of 'image' is in two shares, 0 and 1"});
  auto none = schedule;
  none.shares = {};
  expect_told(none, {"item 0 of 'image' (microbatch 0) is on no rank"});
}

TEST(Check, TellsSharesThatAreNotWellMade) {
  auto schedule = uneven_table();
  auto with = [&](auto change) {
    auto other = schedule;
    change(other.shares.list[0], other.shares);
    return other;
  };
  expect_told(with([](Share& share, Shares&) { share.module = 2; }),
              {"share 0 is of module 2", "the step has 2"});
  expect_told(with([](Share& share, Shares&) { share.module = -1; }), {"share 0 is of module -1"});
  expect_told(with([](Share& share, Shares&) { share.rank = 2; }), {"share 0 is on rank 2", "ranks 0 to 1"});
  expect_told(with([](Share& share, Shares&) { share.rank = -1; }), {"share 0 is on rank -1"});
  expect_told(with([](Share& share, Shares&) { share.unit = 1; }),
              {"share 0 of 'image'", "of unit 0, and is of unit 1"});
  expect_told(with([](Share& share, Shares&) { share.count = 0; }), {"share 0 of 'image' has no items"});
  expect_told(with([](Share& share, Shares&) { share.first = 1 << 20; }),
              {"share 0 of 'image' has no items"});
  expect_told(with([](Share& share, Shares&) { share.first = share.count = UINT32_MAX; }),
              {"share 0 of 'image' has no items"});
  expect_told(with([](Share& share, Shares& shares) { shares.items[share.first] = 8; }),
              {"share 0 of 'image' has item 8, the module has 8"});
  expect_told(with([](Share& share, Shares& shares) {
                ASSERT_GE(share.count, 2u);
                std::swap(shares.items[share.first], shares.items[share.first + 1]);
              }),
              {"share 0 of 'image' does not have its items in order"});
  expect_told(
      with([](Share& share, Shares& shares) { shares.items[share.first + 1] = shares.items[share.first]; }),
      {"share 0 of 'image' does not have its items in order"});
  // On the other rank its operators do not belong where they are.
  expect_told(with([](Share& share, Shares&) { share.rank = 1 - share.rank; }),
              {"does not belong to this rank",
               concat("rank ", 1 - schedule.shares.list[0].rank, " misses image F unit 0")});
}

TEST(Check, RefusesSharesOfItemsThatAreNotThere) {
  auto schedule = nested_table();
  schedule.step.modules[0].items.pop_back();
  expect_told(schedule, {"of 'image' has item 7, the module has 7"});
  schedule = nested_table();
  schedule.step.arrangement = Arrangement::llm_only;
  schedule.shares = {};
  schedule.units = {};
  expect_told(schedule, {"rank 0 position 0 (encoder F share 0) does not belong"});
}

TEST(Check, TellsRowsThatDoNotFitTheStep) {
  auto schedule = nested_table();
  auto with = [&](auto change) {
    auto other = schedule;
    change(other);
    return other;
  };
  expect_told(with([](Schedule& s) { s.row_begin.pop_back(); }), {"has 1 rows, the step has 2 ranks"});
  expect_told(with([](Schedule& s) { s.row_begin.push_back(s.row_begin.back()); }),
              {"has 3 rows, the step has 2 ranks"});
  expect_told(with([](Schedule& s) { s.row_begin.clear(); }), {"has 0 rows, the step has 2 ranks"});
  expect_told(with([](Schedule& s) { s.step.ranks = 3; }), {"has 2 rows, the step has 3 ranks"});
  auto count = schedule.operators.size();
  for (auto change : std::vector<std::function<void(Schedule&)>>{
           [](Schedule& s) { s.row_begin[0] = 1; }, [](Schedule& s) { s.row_begin[1] = -1; },
           [](Schedule& s) { s.row_begin[1] = 1 << 20; }, [](Schedule& s) { ++s.row_begin[2]; },
           [](Schedule& s) { --s.row_begin[2]; }})
    expect_told(with(change), {concat("do not cover the table's ", count, " operators")});
}

TEST(Check, TellsAStepThatIsNotLegalInItsOwnWords) {
  auto schedule = nested_table();
  schedule.step.microbatches = 0;
  expect_told(schedule, {"microbatches (M) must be at least 1, got 0"});
  schedule = nested_table();
  schedule.step.modules[0].items[3].size = std::nan("");
  expect_told(schedule, {"module 'image'", "item 3", "size nan"});
  schedule = nested_table();
  schedule.step.base = Base::one_f_one_b;
  expect_told(schedule, {"[1f1b] holds one chunk"});
}

TEST(Check, TellsTenProblemsOfAKindAtMost) {
  auto schedule = make_schedule(backbone_step(2, 1, 64));
  auto empty = with_rows(schedule, {{}, {}});
  EXPECT_EQ(check(empty).size(), 10u);
}

TEST(Check, NamesTheRanksAndOperatorsOfACycle) {
  // Two chunks, one microbatch: F1 of rank 0 needs F0 of rank 1, which stands behind F1 of rank 1, which
  // needs F1 of rank 0.
  auto crossed = changed(make_schedule(backbone_step(2, 2, 2)), [](Rows& rows) {
    std::swap(rows[1][0], rows[1][2]);
    std::swap(rows[1][1], rows[1][2]);
  });
  ASSERT_EQ(crossed.row(1)[0], backbone_forward(1, 0));
  for (auto sends : {Sends::buffered, Sends::blocking}) {
    EXPECT_TRUE(Oracle(crossed, sends).deadlocks());
    expect_told(crossed,
                {"deadlock", "rank 1 position 0 (backbone F chunk 1 microbatch 0)", "rank 0 position "},
                sends);
  }
  expect_told(crossed,
              {"rank 1 position 0 (backbone F chunk 1 microbatch 0) needs the output of rank 0 position 2 "
               "(backbone F chunk 1 microbatch 0)",
               "rank 0 position 2 (backbone F chunk 1 microbatch 0) needs the output of rank 1 position "});
}

TEST(Check, NamesARankThatWaitsForItself) {
  auto crossed =
      changed(make_schedule(backbone_step(1, 1, 1)), [](Rows& rows) { std::swap(rows[0][0], rows[0][1]); });
  expect_told(crossed, {"deadlock",
                        "rank 0 position 0 (backbone B chunk 0 microbatch 0) needs the output of rank 0 "
                        "position 1 (backbone F chunk 0 microbatch 0)"});
}

TEST(Check, NamesOnlyTheCycleAndNotWhoWaitsForIt) {
  // Rank 3 runs microbatch 1 before 0 and rank 2's backward of 0 before its forward of 1; ranks 0 and 1 wait.
  auto crossed = changed(make_schedule(backbone_step(4, 1, 4)), [](Rows& rows) {
    auto move_first = [](std::vector<Operator>& row, const Operator& op, const Operator& before) {
      std::erase(row, op);
      row.insert(std::find(row.begin(), row.end(), before), op);
    };
    move_first(rows[3], backbone_forward(0, 1), backbone_forward(0, 0));
    move_first(rows[2], backbone_backward(0, 0), backbone_forward(0, 1));
  });
  ASSERT_TRUE(Oracle(crossed).deadlocks());
  auto problems = check(crossed);
  ASSERT_EQ(problems.size(), 1);
  EXPECT_TRUE(contains(problems[0], "rank 2")) << problems[0];
  EXPECT_TRUE(contains(problems[0], "rank 3")) << problems[0];
  EXPECT_FALSE(contains(problems[0], "rank 0")) << problems[0];
}

TEST(Check, TellsATableThatOnlyBufferedSendsCanRun) {
  // Rank 1 takes microbatch 1 first, so its receive of microbatch 0 is posted only behind that.
  auto schedule = make_table(
      backbone_step(2, 1, 2),
      {{backbone_forward(0, 0), backbone_forward(0, 1), backbone_backward(0, 1), backbone_backward(0, 0)},
       {backbone_forward(0, 1), backbone_backward(0, 1), backbone_forward(0, 0), backbone_backward(0, 0)}});
  EXPECT_FALSE(Oracle(schedule).deadlocks());
  EXPECT_TRUE(Oracle(schedule, Sends::blocking).deadlocks());
  EXPECT_EQ(check(schedule), std::vector<std::string>{});
  expect_told(schedule,
              {"deadlock",
               "rank 0 position 1 (backbone F chunk 0 microbatch 1) sends the output of rank 0 position 0 "
               "(backbone F "
               "chunk 0 microbatch 0) to rank 1 position 2 (backbone F chunk 0 microbatch 0)",
               "rank 1 position 0 (backbone F chunk 0 microbatch 1) needs the output of rank 0 position 1"},
              Sends::blocking);
}

TEST(Check, TellsAnEncoderUnitThatWasMovedAcrossACut) {
  auto schedule = make_schedule(nested_step(2, 2, 16, true, false));
  const auto& units = schedule.units;
  auto late = std::find_if(units.begin(), units.end(),
                           [](const Unit& unit) { return unit.index == 4 && unit.phase == Phase::forward; });
  ASSERT_NE(late, units.end());
  size_t u = size_t(late - units.begin());
  auto rows = rows_of(schedule);
  int64_t from = late->place[1], to = schedule.units[u + 1].place[1] - 1;
  std::rotate(rows[1].begin() + from, rows[1].begin() + from + 1, rows[1].begin() + to + 1);
  auto moved = with_rows(schedule, rows);
  moved.units[u].place[1] = to;
  EXPECT_FALSE(Oracle(moved).cuts_consistently(moved.units[u]));
  expect_told(moved, {"unit 4 of 'image' (F) is no consistent cut: rank 1 position "});
}

// Every unit of small tables shifted on one rank by a few operators, its place with it, where it passes no
// other unit's.
TEST(Check, AgreesWithTheOracleWhetherAShiftedUnitStillCutsConsistently) {
  int consistent = 0, inconsistent = 0, only_blocked = 0;
  for (auto [ranks, chunks, units] : {std::array<int64_t, 3>{2, 1, 6}, {2, 2, 6}, {3, 2, 4}, {4, 1, 4}}) {
    auto schedule = make_schedule(nested_step(ranks, chunks, units * ranks, true, true));
    for (size_t u = 0; u < schedule.units.size(); ++u)
      for (int rank = 0; rank < ranks; ++rank)
        for (int64_t shift = -4; shift <= 4; ++shift) {
          int64_t from = schedule.units[u].place[rank], to = from + shift;
          int64_t least = u == 0 ? 0 : schedule.units[u - 1].place[rank] + 1;
          int64_t most = u + 1 == schedule.units.size() ? int64_t(schedule.row(rank).size())
                                                        : schedule.units[u + 1].place[rank];
          if (to < least || to >= most) continue;
          SCOPED_TRACE(
              concat(describe(schedule.step), " unit ", u, " rank ", rank, " from ", from, " to ", to));
          auto rows = rows_of(schedule);
          auto first = rows[rank].begin();
          if (shift < 0) std::rotate(first + to, first + from, first + from + 1);
          if (shift > 0) std::rotate(first + from, first + from + 1, first + to + 1);
          auto moved = with_rows(schedule, rows);
          moved.units[u].place[rank] = to;
          Oracle oracle(moved);
          bool cuts = true;
          for (const auto& unit : moved.units) cuts &= oracle.cuts_consistently(unit);
          auto problems = check(moved);
          EXPECT_EQ(!tells_of(problems, "is no consistent cut"), cuts);
          EXPECT_EQ(tells_of(problems, "deadlock"), oracle.deadlocks());
          // Where sends block, both ends of a unit's messages must come to its place.
          bool blocked = Oracle(moved, Sends::blocking).deadlocks();
          EXPECT_EQ(tells_of(check(moved, Sends::blocking), "deadlock"), blocked);
          only_blocked += blocked && !oracle.deadlocks();
          ++(cuts ? consistent : inconsistent);
        }
  }
  EXPECT_GT(consistent, 100);
  EXPECT_GT(inconsistent, 100);
  EXPECT_GT(only_blocked, 20);
}

// Of any base, with several items a microbatch.
Step random_step(Random& random, int64_t most_ranks, int64_t most_units) {
  Base base = kBases[size_t(integer(random, 0, 5))];
  auto chunks = chunks_of(base, 3);
  int64_t ranks = integer(random, 1, most_ranks), modules = integer(random, 0, 3);
  Step step = step_of_base(base, ranks, chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))],
                           integer(random, 1, most_units * ranks));
  step = nested(step, modules & 1, modules & 2);
  for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
  step.generator_unit = integer(random, 0, ranks);
  return step;
}

TEST(Check, AgreesWithTheOracleOnTablesWithRandomSwaps) {
  Random random(kSeed);
  int runs[2] = {0, 0}, deadlocks[2] = {0, 0};
  for (int round = 0; round < 6000; ++round) {
    Step step = random_step(random, 4, 4);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    // Where sends block, operators of units stay at their places; those have tests of their own.
    bool any = round % 2 == 0;
    auto schedule = changed(make_schedule(step), [&](Rows& rows) {
      for (int64_t swaps = integer(random, 1, 3); swaps > 0; --swaps) {
        auto& row = rows[size_t(integer(random, 0, step.ranks - 1))];
        int64_t p = integer(random, 0, int64_t(row.size()) - 1);
        int64_t q = std::min(p + integer(random, 1, 4), int64_t(row.size()) - 1);
        if (any || (row[size_t(p)].module == Module::backbone && row[size_t(q)].module == Module::backbone))
          std::swap(row[size_t(p)], row[size_t(q)]);
      }
    });
    for (auto sends : {Sends::buffered, Sends::blocking}) {
      bool blocking = sends == Sends::blocking;
      if (blocking && any) continue;
      bool deadlock = Oracle(schedule, sends).deadlocks();
      EXPECT_EQ(tells_of(check(schedule, sends), "deadlock"), deadlock) << name(sends);
      ++(deadlock ? deadlocks : runs)[blocking];
    }
    if (HasFailure()) return;
  }
  for (int blocking : {0, 1}) {
    EXPECT_GT(runs[blocking], 400) << blocking;
    EXPECT_GT(deadlocks[blocking], 400) << blocking;
  }
}

TEST(Check, AgreesWithTheOracleOnCompleteness) {
  Random random(kSeed);
  int complete[2] = {0, 0};
  for (int round = 0; round < 3000; ++round) {
    Step step = random_step(random, 3, 3);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    auto schedule = make_schedule(step);
    schedule = changed(schedule, [&](Rows& rows) {
      auto& row = rows[size_t(integer(random, 0, step.ranks - 1))];
      auto& op = row[size_t(integer(random, 0, int64_t(row.size()) - 1))];
      if (integer(random, 0, 1)) op.index = uint32_t(integer(random, 0, step.microbatches));
      if (integer(random, 0, 1)) op.chunk = uint16_t(integer(random, 0, step.chunks));
      if (integer(random, 0, 3) == 0) op.module = Module(integer(random, 0, 2));
      if (integer(random, 0, 1)) op.phase = Phase(integer(random, 0, 4));
    });
    auto problems = check(schedule);
    bool found = tells_of(problems, "does not belong") || tells_of(problems, "twice") ||
                 tells_of(problems, "misses") || tells_of(problems, "is part of a backward that is whole");
    EXPECT_EQ(!found, Oracle(schedule).complete());
    ++complete[!found];
  }
  EXPECT_GT(complete[0], 500);
  EXPECT_GT(complete[1], 100);
}

TEST(Check, TellsUnitsThatDoNotDescribeTheTable) {
  auto schedule = nested_table();
  auto with_units = [&](auto change) {
    auto other = schedule;
    change(other.units);
    return other;
  };
  using Units = std::vector<Unit>;
  EXPECT_EQ(told(with_units([](Units& units) { units.clear(); })), "");  // not cut by units at all
  expect_told(with_units([](Units& units) { units.pop_back(); }), {"unit"});
  expect_told(with_units([](Units& units) { units.push_back(units.back()); }), {"unit"});
  expect_told(with_units([](Units& units) { ++units[0].place[1]; }),
              {"rank 1 position 0 (image F unit 0 item 0 of microbatch 1) is at no place of its unit"});
  expect_told(with_units([](Units& units) { units[0].place[0] = -1; }), {"unit 0 of 'image' (F)"});
  expect_told(with_units([](Units& units) { units[0].place[0] = 1 << 20; }), {"unit 0 of 'image' (F)"});
  expect_told(with_units([](Units& units) { units[0].place.pop_back(); }),
              {"unit of module 0 with 1 places does not belong"});
  expect_told(with_units([](Units& units) { units[0].module = 2; }),
              {"unit of module 2 with 2 places does not belong"});
  expect_told(with_units([](Units& units) { units[0].module = -1; }), {"unit of module -1"});
  expect_told(with_units([](Units& units) { units[0].module = 1; }),
              {"image F unit 0", "is at no place of its unit"});
  expect_told(with_units([](Units& units) { units[0].phase = Phase::backward; }),
              {"image F unit 0", "is at no place of its unit"});
  expect_told(with_units([](Units& units) { units[0].index = 1 << 20; }),
              {"rank 0 position 0 (image F unit 0 item 0 of microbatch 0) is at no place of its unit"});
  expect_told(with_units([](Units& units) { std::swap(units.front(), units.back()); }), {"unit"});
}

TEST(PeakLive, IsWhatACountAlongTheRowGives) {
  Random random(kSeed);
  for (int round = 0; round < 300; ++round) {
    Step step = random_step(random, 6, 4);
    if (round % 2 == 1) freeze_some(random, step, 2);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    auto schedule = make_schedule(step);
    auto peaks = peak_live(schedule);
    std::vector<double> sizes, largest(step.modules.size(), 0);
    for (const auto& share : schedule.shares.list) {
      double size = 0;
      for (uint32_t item : schedule.shares.items_of(share))
        size += step.modules[size_t(share.module)].items[item].size;
      sizes.push_back(size);
      largest[size_t(share.module)] = std::max(largest[size_t(share.module)], size);
    }
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      // For every position, what of the forwards up to it has its backward (or weight gradient) behind it.
      PeakLive expected{.units = std::vector<double>(step.modules.size(), 0), .in_flight = 0};
      auto row = schedule.row(rank);
      for (size_t p = 0; p < row.size(); ++p) {
        int64_t forwards = 0;
        std::vector<double> units(step.modules.size(), 0);
        for (size_t f = 0; f <= p; ++f) {
          bool keeps_nothing = row[f].phase == Phase::generate;
          if (row[f].module == Module::encoder)
            keeps_nothing = !step.modules[size_t(schedule.shares.list[row[f].index].module)].trained;
          if (row[f].phase != Phase::forward && !keeps_nothing) continue;
          if (keeps_nothing && f != p) continue;
          bool ran = std::any_of(row.begin(), row.begin() + int64_t(p) + 1, [&](const Operator& op) {
            return op.module == row[f].module && op.index == row[f].index && op.chunk == row[f].chunk &&
                   (op.phase == Phase::backward || op.phase == Phase::weight);
          });
          if (ran) continue;
          if (row[f].module == Module::backbone)
            ++forwards;
          else {
            auto module = size_t(schedule.shares.list[row[f].index].module);
            units[module] += sizes[row[f].index] / largest[module];
          }
        }
        expected.in_flight = std::max(expected.in_flight, forwards);
        for (size_t n = 0; n < units.size(); ++n) expected.units[n] = std::max(expected.units[n], units[n]);
      }
      EXPECT_EQ(peaks[size_t(rank)].in_flight, expected.in_flight) << "rank " << rank;
      for (size_t n = 0; n < expected.units.size(); ++n)
        EXPECT_NEAR(peaks[size_t(rank)].units[n], expected.units[n], 1e-9)
            << "rank " << rank << " module " << n;
    }
  }
}

}  // namespace
}  // namespace bigmac
