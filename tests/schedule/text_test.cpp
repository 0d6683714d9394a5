#include "bigmac/schedule/text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/nest.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

TEST(Grid, OfATinyStepShowsEveryOperatorAndBubble) {
  EXPECT_EQ(to_grid(make_schedule(backbone_step(2, 1, 2))),
            "rank 0 |F0.0 F0.1      B0.0      B0.1\n"
            "rank 1 |     F0.0 B0.0 F0.1 B0.1\n");
}

TEST(Grid, OfANestedStepShowsTheItems) {
  EXPECT_EQ(to_grid(make_schedule(nested_step(2, 1, 2, true, true))),
            "rank 0 |EF0  F0.0 F0.1 G0             B0.0 B0.1 EB0\n"
            "rank 1 |EF1       F0.0 F0.1 G1   B0.0 B0.1      EB1\n");
}

TEST(Grid, InColourHoldsTheSameText) {
  auto schedule = make_schedule(nested_step(2, 2, 4, true, true));
  auto coloured = to_grid(schedule, true);
  std::string plain;
  bool escape = false;
  for (char letter : coloured) {
    if (letter == '\033') escape = true;
    if (!escape) plain += letter;
    if (letter == 'm') escape = false;
  }
  EXPECT_NE(coloured, plain);
  std::istringstream words(plain), expected(to_grid(schedule));
  std::string a, b;
  while (expected >> b) {
    ASSERT_TRUE(words >> a);
    EXPECT_EQ(a, b);
  }
  EXPECT_FALSE(words >> a);
}

TEST(Grid, WithTenRanksAlignsTheirNumbers) {
  auto grid = to_grid(make_schedule(backbone_step(11, 1, 11)));
  EXPECT_TRUE(contains(grid, "rank  0 |F0.0"));
  EXPECT_TRUE(contains(grid, "\nrank 10 |"));
}

TEST(Csv, HasAHeaderAndARowForEveryOperator) {
  EXPECT_EQ(to_csv(make_schedule(nested_step(2, 1, 2, true, true))),
            "rank,position,module,operator,chunk,microbatch\n"
            "0,0,encoder,F,,0\n"
            "0,1,backbone,F,0,0\n"
            "0,2,backbone,F,0,1\n"
            "0,3,generator,G,,0\n"
            "0,4,backbone,B,0,0\n"
            "0,5,backbone,B,0,1\n"
            "0,6,encoder,B,,0\n"
            "1,0,encoder,F,,1\n"
            "1,1,backbone,F,0,0\n"
            "1,2,backbone,F,0,1\n"
            "1,3,generator,G,,1\n"
            "1,4,backbone,B,0,0\n"
            "1,5,backbone,B,0,1\n"
            "1,6,encoder,B,,1\n");
}

TEST(Csv, NamesChunksOfTheBackbone) {
  auto csv = to_csv(make_schedule(backbone_step(1, 3, 12)));
  EXPECT_TRUE(contains(csv, "backbone,F,2,11\n"));
  EXPECT_TRUE(contains(csv, "backbone,B,2,11\n"));
}

TEST(Json, HoldsTheStepAndTheSameOperatorsAndUnits) {
  Random random(kSeed);
  for (int round = 0; round < 20; ++round) {
    int64_t ranks = integer(random, 1, 4), chunks = integer(random, 1, 3);
    Step step = nested_step(ranks, chunks, ranks * integer(random, 1, 4), round % 3 > 0, round % 3 != 1);
    keep_a_random_half(random, step.encoder);
    SCOPED_TRACE(describe(step));
    auto schedule = make_schedule(step);
    auto json = nlohmann::json::parse(to_json(schedule));
    EXPECT_EQ(json["ranks"], ranks);
    EXPECT_EQ(json["chunks"], chunks);
    EXPECT_EQ(json["microbatches"], step.microbatches);
    EXPECT_EQ(json["base"], chunks == 1 ? "1f1b" : "interleaved");
    EXPECT_EQ(json["group"], chunks == 1 ? 0 : ranks);
    EXPECT_EQ(json["schedule"], "nested");
    EXPECT_EQ(json["warmup_units"], step.has_encoder() ? std::min<int64_t>(3, step.microbatches / ranks) : 0);
    ASSERT_EQ(json["rows"].size(), size_t(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      auto row = schedule.row(rank);
      ASSERT_EQ(json["rows"][rank].size(), row.size());
      for (size_t p = 0; p < row.size(); ++p) {
        nlohmann::json expected{{"module", name(row[p].module)},
                                {"operator", letter(row[p].phase)},
                                {"microbatch", row[p].microbatch}};
        if (row[p].module == Module::backbone) expected["chunk"] = row[p].chunk;
        EXPECT_EQ(json["rows"][rank][p], expected);
      }
    }
    ASSERT_EQ(json["units"].size(), schedule.units.size());
    for (size_t u = 0; u < schedule.units.size(); ++u) {
      const auto& unit = schedule.units[u];
      nlohmann::json expected{{"module", name(unit.module)},
                              {"operator", letter(unit.phase)},
                              {"unit", unit.index},
                              {"places", unit.place}};
      EXPECT_EQ(json["units"][u], expected);
    }
  }
}

TEST(ThreePhase, RunsAllEncodersBeforeAndAllTheirBackwardsBehindTheBackbone) {
  Step step = nested_step(2, 2, 8, true, true);
  step.arrangement = Arrangement::three_phase;
  step.warmup_units = 1;  // does not matter here
  auto schedule = make_schedule(step);
  EXPECT_EQ(check(schedule), std::vector<std::string>{});
  EXPECT_EQ(check(schedule, Sends::blocking), std::vector<std::string>{});
  EXPECT_TRUE(Oracle(schedule).complete());
  for (int rank = 0; rank < 2; ++rank) {
    auto row = schedule.row(rank);
    for (int u = 0; u < 4; ++u) {
      EXPECT_EQ(row[size_t(u)], encoder_forward(2 * u + rank));
      EXPECT_EQ(row[row.size() - 4 + size_t(u)], encoder_backward(2 * u + rank));
    }
    EXPECT_EQ(peak_live(schedule)[rank].encoder_units, 4);
  }
  auto json = nlohmann::json::parse(to_json(schedule));
  EXPECT_EQ(json["schedule"], "three-phase");
  EXPECT_EQ(json["warmup_units"], 4);
}

TEST(ThreePhase, HoldsMoreEncoderUnitsTheMoreMicrobatches) {
  for (int64_t units : {2, 8, 32}) {
    Step step = nested_step(4, 2, 4 * units, true, false);
    step.arrangement = Arrangement::three_phase;
    for (const auto& peak : peak_live(make_schedule(step))) EXPECT_EQ(peak.encoder_units, units);
  }
}

}  // namespace
}  // namespace bigmac
