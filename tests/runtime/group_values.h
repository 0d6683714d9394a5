#pragma once

#include <numeric>
#include <vector>

#include "bigmac/runtime/transport.h"
#include "tests/runtime/both_transports.h"

// Values that the tests of groups and windows exchange.
namespace bigmac {

inline constexpr torch::ScalarType kGathered[] = {torch::kFloat64, torch::kFloat32, torch::kBFloat16,
                                                  torch::kHalf,    torch::kInt64,   torch::kInt32,
                                                  torch::kInt16,   torch::kUInt8,   torch::kBool};
inline constexpr torch::ScalarType kFloats[] = {torch::kFloat64, torch::kFloat32, torch::kBFloat16};

inline torch::Tensor normal(int64_t count, torch::ScalarType dtype, uint64_t seed) {
  return torch::randn({count}, at::detail::createCPUGenerator(seed), torch::kFloat64).to(dtype);
}
// Their sums over a few ranks are exact in every dtype, in any order.
inline torch::Tensor whole_numbers(int64_t count, torch::ScalarType dtype, uint64_t seed) {
  return torch::randint(dtype == torch::kUInt8 || dtype == torch::kBool ? 0 : -8, 9, {count},
                        at::detail::createCPUGenerator(seed))
      .to(dtype);
}

// Every subset that this rank is in, in one order on all ranks.
inline std::vector<std::vector<int>> subsets_with(const Transport& transport) {
  std::vector<std::vector<int>> subsets;
  for (int bits = 1; bits < 1 << transport.size(); ++bits) {
    if (!(bits >> transport.rank() & 1)) continue;
    auto& subset = subsets.emplace_back();
    for (int rank = 0; rank < transport.size(); ++rank)
      if (bits >> rank & 1) subset.push_back(rank);
  }
  return subsets;
}

inline std::vector<int> all_of(const Transport& transport) {
  std::vector<int> ranks(size_t(transport.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

inline bool has_same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::equal(a.view(torch::kUInt8), b.view(torch::kUInt8));
}

// Whether the call is refused with a text of this beginning.
template <class Call>
void require_refusal(const Call& call, const std::string& beginning) {
  try {
    call();
  } catch (const InvalidInput& error) {
    require(std::string(error.what()).starts_with(beginning), beginning + ", got " + error.what());
    return;
  }
  throw Failure("accepted; expected " + beginning);
}

// Runs bodies over threads and processes.
class OverBoth : public testing::TestWithParam<RanksAs> {
 protected:
  void SetUp() override {
    if (GetParam() == RanksAs::processes) BIGMAC_NEEDS_PROCESSES();
  }
  // Of processes, which take seconds to start, the last alone: their subsets are of all sizes.
  std::vector<int> sizes(std::vector<int> all) const {
    return GetParam() == RanksAs::threads ? all : std::vector<int>{all.back()};
  }
};

}  // namespace bigmac
