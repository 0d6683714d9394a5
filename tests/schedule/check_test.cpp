#include "bigmac/schedule/check.h"

#include <gtest/gtest.h>

#include <array>

#include "bigmac/schedule/nest.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

using Rows = std::vector<std::vector<Operator>>;

Schedule with_rows(const Schedule& schedule, const Rows& rows) {
  auto changed = make_table(schedule.step, rows);
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

void expect_told(const Schedule& schedule, const std::vector<std::string>& parts,
                 Sends sends = Sends::buffered) {
  auto problems = check(schedule, sends);
  std::string all;
  for (const auto& problem : problems) all += problem + "\n";
  EXPECT_FALSE(problems.empty());
  for (const auto& part : parts) EXPECT_TRUE(contains(all, part)) << "lacks '" << part << "' in:\n" << all;
}

bool tells_of(const std::vector<std::string>& problems, const std::string& what) {
  return std::any_of(problems.begin(), problems.end(),
                     [&](const auto& text) { return contains(text, what); });
}

Schedule nested_table() {
  return make_schedule(nested_step(2, 2, 8, true, true));
}

TEST(Check, FindsNothingInATableThatIsRight) {
  EXPECT_EQ(check(nested_table()), std::vector<std::string>{});
  EXPECT_EQ(check(nested_table(), Sends::blocking), std::vector<std::string>{});
}

TEST(Check, NamesEveryOperatorThatIsMissing) {
  auto schedule = nested_table();
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (size_t p = 0; p < schedule.row(rank).size(); ++p) {
      auto op = schedule.row(rank)[p];
      expect_told(changed(schedule, [&](Rows& rows) { rows[rank].erase(rows[rank].begin() + int64_t(p)); }),
                  {concat("rank ", rank, " misses ", long_name(op))});
    }
}

TEST(Check, NamesBothPlacesOfAnOperatorThatIsThereTwice) {
  auto schedule = nested_table();
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto row = schedule.row(rank);
    size_t last = row.size();
    for (size_t p = 0; p < last; ++p)
      expect_told(changed(schedule, [&](Rows& rows) { rows[rank].push_back(row[p]); }),
                  {concat("rank ", rank, " position ", last, " (", long_name(row[p]), ") is there twice"),
                   concat("first at position ", p)});
  }
}

TEST(Check, NamesAnItemThatIsOnTheWrongRank) {
  for (auto op : {encoder_forward(3), encoder_backward(3), generate(3)}) {
    auto moved = changed(nested_table(), [&](Rows& rows) {
      std::erase(rows[1], op);
      rows[0].insert(rows[0].begin(), op);
    });
    expect_told(moved, {concat("rank 0 position 0 (", long_name(op), ") does not belong"),
                        concat("rank 1 misses ", long_name(op))});
  }
}

TEST(Check, NamesOperatorsOfAnotherStep) {
  auto schedule = nested_table();
  for (auto op :
       {backbone_forward(0, 8), backbone_backward(1, 8), backbone_forward(2, 0), encoder_forward(8),
        generate(9), Operator{0, 0, Module::backbone, Phase::generate},
        Operator{0, 0, Module::encoder, Phase::generate}, Operator{0, 0, Module::generator, Phase::forward},
        Operator{0, 1, Module::encoder, Phase::forward},
        Operator{UINT32_MAX, UINT16_MAX, Module::generator, Phase::generate}})
    expect_told(changed(schedule, [&](Rows& rows) { rows[0].push_back(op); }),
                {"does not belong", long_name(op)});
}

TEST(Check, RefusesItemsOfMicrobatchesThatHaveNone) {
  auto schedule = nested_table();
  schedule.step.encoder[3] = 0;
  schedule.step.generator[4] = 0;
  expect_told(schedule, {"encoder F microbatch 3", "encoder B microbatch 3", "generator G microbatch 4"});
  schedule = nested_table();
  schedule.step.arrangement = Arrangement::llm_only;
  expect_told(schedule, {"encoder F microbatch 0"});
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
  expect_told(moved, {"unit 4 of the encoder (F) is no consistent cut: rank 1 position "});
}

// Every unit of small tables shifted on one rank by a few operators, its place with it, where it passes no
// other unit's.
TEST(Check, AgreesWithTheOracleWhetherAShiftedUnitStillCutsConsistently) {
  int consistent = 0, inconsistent = 0;
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
          ++(cuts ? consistent : inconsistent);
        }
  }
  EXPECT_GT(consistent, 100);
  EXPECT_GT(inconsistent, 100);
}

TEST(Check, AgreesWithTheOracleOnTablesWithRandomSwaps) {
  Random random(kSeed);
  int runs[2] = {0, 0}, deadlocks[2] = {0, 0};
  for (int round = 0; round < 3000; ++round) {
    int64_t ranks = integer(random, 1, 4), chunks = integer(random, 1, 3), units = integer(random, 1, 4);
    int64_t modules = integer(random, 0, 3);
    Step step = nested_step(ranks, chunks, units * ranks, modules & 1, modules & 2);
    keep_a_random_half(random, step.encoder);
    keep_a_random_half(random, step.generator);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    auto schedule = changed(make_schedule(step), [&](Rows& rows) {
      for (int64_t swaps = integer(random, 1, 3); swaps > 0; --swaps) {
        auto& row = rows[size_t(integer(random, 0, ranks - 1))];
        int64_t p = integer(random, 0, int64_t(row.size()) - 1);
        int64_t q = std::min(p + integer(random, 1, 4), int64_t(row.size()) - 1);
        std::swap(row[size_t(p)], row[size_t(q)]);
      }
    });
    for (auto sends : {Sends::buffered, Sends::blocking}) {
      bool blocking = sends == Sends::blocking;
      bool deadlock = Oracle(schedule, sends).deadlocks();
      EXPECT_EQ(tells_of(check(schedule, sends), "deadlock"), deadlock)
          << (blocking ? "blocking" : "buffered");
      ++(deadlock ? deadlocks : runs)[blocking];
    }
    if (HasFailure()) return;
  }
  for (int blocking : {0, 1}) {
    EXPECT_GT(runs[blocking], 200) << blocking;
    EXPECT_GT(deadlocks[blocking], 200) << blocking;
  }
  EXPECT_GT(deadlocks[1], deadlocks[0]);
}

TEST(Check, AgreesWithTheOracleOnCompleteness) {
  Random random(kSeed);
  for (int round = 0; round < 1000; ++round) {
    int64_t ranks = integer(random, 1, 3), chunks = integer(random, 1, 2);
    Step step = nested_step(ranks, chunks, ranks * integer(random, 1, 3), true, true);
    keep_a_random_half(random, step.encoder);
    keep_a_random_half(random, step.generator);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    auto schedule = changed(make_schedule(step), [&](Rows& rows) {
      auto& row = rows[size_t(integer(random, 0, ranks - 1))];
      auto& op = row[size_t(integer(random, 0, int64_t(row.size()) - 1))];
      op.microbatch = uint32_t(integer(random, 0, step.microbatches));
      op.chunk = uint16_t(integer(random, 0, chunks));
      op.module = Module(integer(random, 0, 2));
      op.phase = Phase(integer(random, 0, 2));
    });
    bool complete = !tells_of(check(schedule), "does not belong") && !tells_of(check(schedule), "twice") &&
                    !tells_of(check(schedule), "misses");
    EXPECT_EQ(complete, Oracle(schedule).complete());
  }
}

TEST(Check, TellsUnitsThatDoNotDescribeTheTable) {
  auto schedule = nested_table();
  auto with_units = [&](auto change) {
    auto other = schedule;
    change(other.units);
    return other;
  };
  using Units = std::vector<Unit>;
  expect_told(with_units([](Units& units) { units.clear(); }), {"encoder F microbatch 0", "unit"});
  expect_told(with_units([](Units& units) { units.pop_back(); }), {"unit"});
  expect_told(with_units([](Units& units) { units.push_back(units.back()); }), {"unit"});
  expect_told(with_units([](Units& units) { ++units[0].place[1]; }), {"unit 0 of the encoder (F)", "rank 1"});
  expect_told(with_units([](Units& units) { units[0].place[0] = -1; }), {"unit 0 of the encoder (F)"});
  expect_told(with_units([](Units& units) { units[0].place[0] = 1 << 20; }), {"unit 0 of the encoder (F)"});
  expect_told(with_units([](Units& units) { units[0].place.pop_back(); }), {"unit 0 of the encoder (F)"});
  expect_told(with_units([](Units& units) { units[0].index = 1 << 20; }),
              {"unit 1048576 of the encoder (F)"});
  expect_told(with_units([](Units& units) { std::swap(units.front(), units.back()); }), {"unit"});
}

TEST(PeakLive, IsWhatACountAlongTheRowGives) {
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    int64_t ranks = integer(random, 1, 6), chunks = integer(random, 1, 4);
    Step step = nested_step(ranks, chunks, ranks * integer(random, 1, 6), true, round % 2);
    keep_a_random_half(random, step.encoder);
    SCOPED_TRACE(describe(step));
    auto schedule = make_schedule(step);
    auto peaks = peak_live(schedule);
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      // For every position, how many of the forwards up to it have their backward behind it.
      PeakLive expected;
      auto row = schedule.row(rank);
      for (size_t p = 0; p < row.size(); ++p) {
        int64_t live[2] = {0, 0};
        for (size_t f = 0; f <= p; ++f) {
          if (row[f].phase != Phase::forward) continue;
          Operator back = row[f];
          back.phase = Phase::backward;
          bool ran =
              std::find(row.begin(), row.begin() + int64_t(p) + 1, back) != row.begin() + int64_t(p) + 1;
          live[row[f].module == Module::encoder] += !ran;
        }
        expected.backbone_in_flight = std::max(expected.backbone_in_flight, live[0]);
        expected.encoder_units = std::max(expected.encoder_units, live[1]);
        if (row[p].phase == Phase::generate) expected.generator_units = 1;
      }
      EXPECT_EQ(peaks[rank], expected) << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace bigmac
