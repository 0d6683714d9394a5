#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/schedule/make.h"

namespace bigmac {

inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

inline void expect_told(const std::string& error, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(error.find(part), error.npos) << "lacks \"" << part << "\" in: " << error;
}

// With `from`, which must be there, replaced once.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

class RandomSteps {
 public:
  explicit RandomSteps(uint64_t seed) : random_(seed) {}

  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(random_); }

  Step next(Arrangement arrangement) {
    Step step;
    bool several_ranks = arrangement == Arrangement::disttrain;
    step.ranks = integer(several_ranks ? 4 : 1, 6);
    step.microbatches = integer(1, 20);
    step.arrangement = arrangement;
    step.base = Base(integer(0, int64_t(Base::dualpipe_v)));
    if (several_ranks) step.base = Base::one_f_one_b;
    bool folds = step.base == Base::zb_v || step.base == Base::dualpipe_v;
    if (folds) step.chunks = 2;
    if (step.base == Base::gpipe) step.chunks = integer(1, 3);
    if (step.base == Base::interleaved) {
      step.chunks = integer(2, 3);
      step.group = integer(0, 1) * step.ranks;
    }
    step.spread = integer(0, 3) > 0;
    step.generator_unit = integer(0, step.ranks);
    if (arrangement != Arrangement::llm_only || integer(0, 1) == 0) add_modules(step);
    if (integer(0, 2) == 0) {
      for (int64_t m = 0; m < step.microbatches; ++m) step.order.push_back(uint32_t(m));
      std::shuffle(step.order.begin(), step.order.end(), random_);
    }
    return step;
  }

 private:
  void add_modules(Step& step) {
    const char* names[] = {"image", "audio clips", "\xc3\xa9\\moji", "backbone"};
    for (int64_t n = integer(1, 4); n > 0; --n) {
      NestedModule module{names[n - 1], integer(0, 2) == 0 ? Module::generator : Module::encoder, {}};
      std::lognormal_distribution<double> size(0, 1);
      for (int64_t m = 0; m < step.microbatches; ++m)
        for (int64_t i = integer(0, 1) * integer(0, 3); i > 0; --i)
          module.items.push_back({uint32_t(m), integer(0, 1) == 0 ? 1 : size(random_)});
      if (integer(0, 3) == 0) module.warmup_units = 30;
      module.trained = module.kind == Module::generator || integer(0, 2) > 0;
      step.modules.push_back(std::move(module));
    }
  }

  std::mt19937_64 random_;
};

inline constexpr Arrangement kArrangements[] = {
    Arrangement::llm_only, Arrangement::nested,   Arrangement::nested_fill, Arrangement::three_phase,
    Arrangement::optimus,  Arrangement::megatron, Arrangement::disttrain};

}  // namespace bigmac
