#include "bigmac/system/port.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace bigmac {
namespace {

// Over all shapes of up to two dimensions of 1, 2 or any.
TEST(Ports, FitWhereEverySaidDimensionIsEqualOrAny) {
  std::vector<Port> ports{"x"};
  std::vector<std::vector<int64_t>> shapes{{}};
  for (int64_t a : {int64_t{1}, int64_t{2}, any}) {
    shapes.push_back({a});
    for (int64_t b : {int64_t{1}, int64_t{2}, any}) shapes.push_back({a, b});
  }
  for (const auto& shape : shapes) ports.emplace_back("x", shape);
  int fitting = 0;
  for (const auto& a : ports)
    for (const auto& b : ports) {
      bool expected = true;
      if (a.shape && b.shape) {
        expected = a.shape->size() == b.shape->size();
        for (size_t i = 0; expected && i < a.shape->size(); ++i) {
          auto x = (*a.shape)[i], y = (*b.shape)[i];
          expected = x < 0 || y < 0 || x == y;
        }
      }
      EXPECT_EQ(fit(a, b), expected) << describe(a) << " and " << describe(b);
      fitting += fit(a, b);
      if (!a.shape || std::count(a.shape->begin(), a.shape->end(), any)) continue;
      EXPECT_EQ(fits(torch::zeros(*a.shape), b), expected) << describe(a) << " in " << describe(b);
    }
  EXPECT_GT(fitting, int(ports.size()));
  EXPECT_TRUE(fits(torch::zeros({0, 3}), Port("x", {any, 3})));
}

}  // namespace
}  // namespace bigmac
