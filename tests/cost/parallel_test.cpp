#include "bigmac/cost/parallel.h"

#include <array>

#include "tests/cost/layers.h"

namespace bigmac {
namespace {

using namespace cost;

TEST(Parallel, CountsGpusAndReplicas) {
  Parallel parallel{.tensor = 2, .pipeline = 4, .data = 16, .expert = 8};
  EXPECT_EQ(parallel.gpus(), 128);
  EXPECT_EQ(parallel.expert_data(), 4);
}

TEST(Parallel, HasSequenceParallelismWithTensorParallelismOnly) {
  EXPECT_FALSE(Parallel{}.sequence());
  EXPECT_TRUE((Parallel{.tensor = 2}.sequence()));
  EXPECT_FALSE((Parallel{.tensor = 2, .sequence_parallel = false}.sequence()));
}

TEST(Parallel, NamesRecompute) {
  for (auto recompute : {Recompute::none, Recompute::selective, Recompute::full})
    EXPECT_EQ(recompute_from_name(name(recompute)), recompute);
  EXPECT_EQ(name(Recompute::selective), "selective");
  EXPECT_EQ(error_of([] { recompute_from_name("ful"); }),
            "unknown recompute 'ful' (did you mean 'full'?); known: none, selective, full");
}

TEST(Parallel, RefusesSizesThatAreNone) {
  struct Field {
    const char* name;
    int64_t Parallel::*of;
  };
  for (const auto& field : {Field{"tensor", &Parallel::tensor}, Field{"pipeline", &Parallel::pipeline},
                            Field{"data", &Parallel::data}, Field{"expert", &Parallel::expert}})
    for (int64_t value : {int64_t(0), int64_t(-2), kMostParallel + 1, INT64_MAX}) {
      Parallel parallel;
      parallel.*field.of = value;
      EXPECT_EQ(error_of([&] { check(parallel); }),
                concat("[parallel] ", field.name, " must be between 1 and 1000000, got ", value));
    }
}

TEST(Parallel, RefusesExpertsThatDoNotDivideTheirGpus) {
  EXPECT_EQ(error_of([] { check(Parallel{.tensor = 2, .pipeline = 8, .data = 3, .expert = 4}); }),
            "[parallel] expert 4 must divide tensor * data = 2 * 3 = 6");
  EXPECT_NO_THROW(check(Parallel{.tensor = 2, .data = 3, .expert = 6}));
}

TEST(Parallel, RefusesLayersThatItCannotCut) {
  std::array layers{qwen3_moe()};
  auto error = [&](const Parallel& parallel) { return error_of([&] { check_fits(layers, parallel); }); };
  for (int64_t tensor : {1, 2, 4}) EXPECT_EQ(error({.tensor = tensor}), "no error") << tensor;
  EXPECT_EQ(error({.tensor = 8}),
            "[parallel] tensor 8 does not divide the 4 kv heads of part in moe layer; the next smaller that "
            "does is 4");
  EXPECT_EQ(
      error({.tensor = 3}),
      "[parallel] tensor 3 does not divide the 4096 outputs of part in moe layer; the next smaller that "
      "does is 2");
  EXPECT_EQ(
      error({.data = 96, .expert = 48}),
      "[parallel] expert 48 does not divide the 128 experts of part in moe layer; the next smaller that "
      "does is 32");
  EXPECT_EQ(error({.tensor = 2, .sequence_parallel = false}),
            "[parallel] tensor 2 with the experts of part in moe layer needs sequence parallelism");
  EXPECT_EQ(error({.tensor = 0}), "[parallel] tensor must be between 1 and 1000000, got 0");
}

TEST(Parallel, RefusesInputsOfPartsCutByRowsButNotVocabularies) {
  auto error = [](const Part& cut, int64_t tensor) {
    std::array layers{Layer{"head", {cut}}};
    return error_of([&] { check_fits(layers, {.tensor = tensor}); });
  };
  EXPECT_EQ(
      error(linear_part(10, 64, Cut::rows), 4),
      "[parallel] tensor 4 does not divide the 10 inputs of part in head; the next smaller that does is 2");
  EXPECT_EQ(error(linear_part(64, 151935, Cut::vocabulary), 4), "no error");
  EXPECT_EQ(
      error(attention_part(30, 30, 64), 4),
      "[parallel] tensor 4 does not divide the 30 heads of part in head; the next smaller that does is 3");
}

}  // namespace
}  // namespace bigmac
