// What uneven items cost, with and without spreading.
#include <gtest/gtest.h>

#include <iostream>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/make.h"
#include "bigmac/schedule/order.h"
#include "bigmac/simulate/simulate.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

// P=8, V=2, M=64; 8 images a microbatch on average, of log-normal sizes (sigma 1), which take half of the
// LLM's forward a microbatch on average, and their backward twice that.
struct Batch {
  Step step = nested_step(8, 2, 64, true, false);
  Costs costs;
  double plain = 0, work = 0;

  explicit Batch(uint64_t seed) {
    Random random(seed);
    std::poisson_distribution<int64_t> count(8);
    std::lognormal_distribution<double> size(0, 1);
    auto& items = step.modules[0].items;
    items.clear();
    double total = 0;
    for (uint32_t m = 0; m < 64; ++m)
      for (int64_t n = count(random); n > 0; --n) items.push_back({m, size(random)});
    for (const auto& item : items) total += item.size;
    // The LLM's forward of a microbatch is 1 a stage.
    double forward = 0.5 * 16 * 64 / total;
    costs.modules = {{forward, 2 * forward}};
    work = 3 * forward * total;
    plain = Oracle(make_schedule(without_nesting(step)))
                .length(Reckoned(make_schedule(without_nesting(step)), {}));
  }
};

// The least that any spreading of a unit's items can take: an item cannot be cut.
double of_whole_items(const Batch& batch) {
  double sum = batch.plain;
  const auto& costs = batch.costs.modules[0];
  for (uint32_t first = 0; first < 64; first += 8) {
    double total = 0, largest = 0;
    for (const auto& item : batch.step.modules[0].items)
      if (item.microbatch >= first && item.microbatch < first + 8) {
        total += item.size;
        largest = std::max(largest, item.size);
      }
    sum += std::max(total / 8, largest) * (costs.forward + costs.backward);
  }
  return sum;
}

// Four per cent on the mean of many batches. One batch may lose more, where a single image is longer than an
// eighth of its unit; then no way to spread whole images loses less.
TEST(UnevenData, IsNestedWithinFourPerCentOfTheBackboneAndTheMeanOfTheWork) {
  const int batches = 100;
  double spread = 0, as_they_come = 0, balanced = 0;
  for (uint64_t seed = 0; seed < batches; ++seed) {
    Batch batch(kSeed + seed);
    SCOPED_TRACE(concat("seed ", kSeed + seed));
    double ideal = batch.plain + batch.work / 8;
    auto length = [&](bool spreads) {
      batch.step.spread = spreads;
      return simulate(make_schedule(batch.step, batch.costs), batch.costs).length();
    };
    double with = length(true), without = length(false);
    EXPECT_LE(with, 1.01 * of_whole_items(batch));
    EXPECT_LT(with, without);
    spread += with / ideal / batches;
    as_they_come += without / ideal / batches;
    batch.step.spread = true;
    batch.step = reordered(batch.step, balanced_order(batch.step, batch.costs));
    balanced += length(true) / ideal / batches;
  }
  EXPECT_LE(spread, 1.04);
  EXPECT_GE(as_they_come, 1.1);
  EXPECT_LE(balanced, 1.02);
  std::cout << "step(nested) / (step(LLM) + work/P), mean of " << batches << " batches: " << spread
            << " with items spread by size, " << balanced << " with microbatches reordered too, "
            << as_they_come << " with each item on its microbatch's rank\n";
}

}  // namespace
}  // namespace bigmac
