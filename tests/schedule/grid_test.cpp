#include "bigmac/schedule/grid.h"

#include <gtest/gtest.h>

#include <sstream>

#include "bigmac/schedule/labels.h"
#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

TEST(Grid, OfATinyStepShowsEveryOperatorAndBubble) {
  EXPECT_EQ(to_grid(make_schedule(backbone_step(2, 1, 2))),
            "rank 0 |F0.0 F0.1      B0.0      B0.1\n"
            "rank 1 |     F0.0 B0.0 F0.1 B0.1\n");
}

TEST(Grid, OfASplitBackwardShowsBothHalves) {
  EXPECT_EQ(to_grid(make_schedule(step_of_base(Base::zb_h1, 2, 1, 2))),
            "rank 0 |F0.0 F0.1      I0.0 W0.0 I0.1 W0.1\n"
            "rank 1 |     F0.0 I0.0 F0.1 I0.1 W0.0 W0.1\n");
}

TEST(Grid, OfANestedStepShowsTheMicrobatchesOfItems) {
  EXPECT_EQ(to_grid(make_schedule(nested_step(2, 1, 2, true, true))),
            "rank 0 |EF0  F0.0 F0.1 G0             B0.0 B0.1 EB0\n"
            "rank 1 |EF1       F0.0 F0.1 G1   B0.0 B0.1      EB1\n");
}

TEST(Labels, NameAMicrobatchOneOfItsItemsOrAUnit) {
  Step step = nested_step(2, 1, 6, true, true);
  step.modules.push_back(one_item_each("audio", Module::encoder, 6));
  step.modules[0].items = {{0, 1}, {0, 1}, {1, 5}, {2, 3}, {3, 1}, {3, 1}, {4, 2}, {4, 2}};
  auto schedule = make_schedule(step);
  Labels labels(schedule);
  std::vector<std::string> names;
  for (size_t share = 0; share < schedule.shares.list.size(); ++share) {
    auto kind = schedule.module_of(schedule.shares.list[share]).kind;
    names.push_back(
        labels(kind == Module::generator ? generate(int64_t(share)) : encoder_forward(int64_t(share))));
  }
  // image: unit 0 5 | 1 1, unit 1 3 | 1 1, unit 2 2 | 2
  EXPECT_EQ(names, (std::vector<std::string>{"0EF1", "0EF0", "0EF2", "0EF3", "0EF4.0", "0EF4.1",  //
                                             "G0", "G1", "G2", "G3", "G4", "G5",                  //
                                             "1EF0", "1EF1", "1EF2", "1EF3", "1EF4", "1EF5"}));
  EXPECT_EQ(labels(encoder_backward(0)), "0EB1");
  EXPECT_EQ(labels(backbone_forward(1, 3)), "F1.3");
  step.modules = {{"image", Module::encoder, {{0, 5}, {0, 1}, {1, 3}, {1, 1}}, 0}};  // 5 | 3 1 1
  auto mixed = make_schedule(step);
  EXPECT_EQ(Labels(mixed)(encoder_forward(0)), "EF0.0");
  EXPECT_EQ(Labels(mixed)(encoder_backward(1)), "EBu0");
}

TEST(Grid, InColourHoldsTheSameText) {
  for (const auto& step : {nested_step(2, 2, 4, true, true), step_of_base(Base::zb_h1, 2, 1, 4)}) {
    auto schedule = make_schedule(step);
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
}

TEST(Grid, WithTenRanksAlignsTheirNumbers) {
  auto grid = to_grid(make_schedule(backbone_step(11, 1, 11)));
  EXPECT_TRUE(contains(grid, "rank  0 |F0.0"));
  EXPECT_TRUE(contains(grid, "\nrank 10 |"));
}

}  // namespace
}  // namespace bigmac
