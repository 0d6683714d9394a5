#include "bigmac/system/batch.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/system/support.h"

namespace bigmac {
namespace {

TEST(MicrobatchSizes, AreThoseOfTheFieldsExamples) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(microbatch_sizes(7, 3), (Sizes{3, 3, 1}));
  EXPECT_EQ(microbatch_sizes(9, 4), (Sizes{3, 2, 2, 2}));
  EXPECT_EQ(microbatch_sizes(8, 4), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(microbatch_sizes(5, 5), (Sizes{1, 1, 1, 1, 1}));
  EXPECT_EQ(microbatch_sizes(10, 4), (Sizes{3, 3, 3, 1}));
  EXPECT_EQ(microbatch_sizes(1, 1), (Sizes{1}));
}

// As many a microbatch as are needed and the last ones fewer, unless some would get none.
TEST(MicrobatchSizes, AddUpAreNeverZeroAndNeverGrow) {
  for (int64_t samples = 1; samples <= 40; ++samples)
    for (int64_t microbatches = 1; microbatches <= std::min<int64_t>(12, samples); ++microbatches) {
      auto sizes = microbatch_sizes(samples, microbatches);
      SCOPED_TRACE(concat(samples, " in ", microbatches));
      ASSERT_EQ(int64_t(sizes.size()), microbatches);
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), samples);
      EXPECT_TRUE(std::is_sorted(sizes.rbegin(), sizes.rend()));
      EXPECT_GE(sizes.back(), 1);
      int64_t needed = 1;
      while (needed * microbatches < samples) ++needed;
      EXPECT_EQ(sizes.front(), needed);
      bool in_front =
          std::all_of(sizes.begin(), sizes.end() - 1, [&](int64_t size) { return size == needed; });
      EXPECT_TRUE(in_front || needed * (microbatches - 1) >= samples);
      EXPECT_TRUE(in_front || sizes.front() - sizes.back() <= 1);
    }
}

TEST(MicrobatchSizes, RefuseFewerSamplesThanMicrobatches) {
  EXPECT_EQ(complaint([] { microbatch_sizes(0, 12); }),
            "[batch] a step has no samples; its batches gave none");
  for (int64_t samples = 1; samples < 12; ++samples)
    EXPECT_EQ(complaint([&] { microbatch_sizes(samples, 12); }),
              concat("[batch] ", samples, " samples for 12 microbatches (of all replicas); take at most ",
                     samples, " microbatches or at least 12 samples"));
  EXPECT_EQ(complaint([] { microbatch_sizes(4, 0); }), "[batch] 0 microbatches, expected 1 or more");
}

// Pictures with a caption each, audio, and targets; two losses.
System system() {
  System system;
  system.data({"pixels", "grid", "clip", "target", "noise", "tokens"})
      .encoder(
          "vision",
          {{"pixels", "grid"}, {"picture"}, [](const Values& item) { return item["pixels"].item<double>(); }},
          make_matrix, [](Matrix&, Items) { return std::vector<Values>(); })
      .encoder("audio", {{"clip"}, {"sound"}}, make_matrix,
               [](Matrix&, Items) { return std::vector<Values>(); })
      .generator("painter", {{"states", "target", "noise"}}, make_matrix,
                 [](Matrix&, Items) { return torch::Tensor(); })
      .backbone("llm", {{"tokens", "picture", "sound"}, {"states"}})
      .embedding(make_matrix, [](Matrix&, Items, Flow&) {})
      .layers(
          1, [](int64_t) { return make_matrix(); }, [](Matrix&, Flow&) {})
      .head(make_matrix, [](Matrix&, Items, Flow&, std::vector<Values>&) {});
  system.loss("text", [](const Values& sample) { return double(sample["tokens"].size(0)); })
      .loss(
          "painter", [](const Values& sample) { return double(sample.count("target")); }, 0.5);
  return system;
}

torch::Tensor scalar(double value) {
  return torch::full({}, value, torch::kFloat64);
}

// Sample i holds tokens that start with i; its pictures have sizes 10 i + 1, 10 i + 2, ...
Values sample_of(int i, int pictures, int clips, int targets, int tokens) {
  Values sample;
  auto group = [&](const char* name, int count) {
    Tensors tensors;
    for (int k = 1; k <= count; ++k) tensors.push_back(scalar(10.0 * i + k));
    sample.set(name, tensors);
  };
  group("pixels", pictures);
  group("grid", pictures);
  group("clip", clips);
  group("target", targets);
  group("noise", targets);
  sample.set("tokens", torch::full({tokens}, i, torch::kLong));
  return sample;
}

std::vector<Values> random_samples(std::mt19937& random, int count) {
  std::vector<Values> samples;
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  for (int i = 0; i < count; ++i) samples.push_back(sample_of(i, below(4), below(2), below(3), 1 + below(9)));
  return samples;
}

int64_t number_of(const Values& sample) {
  return sample["tokens"][0].item<int64_t>();
}

TEST(Batch, KeepsSamplesAndTheirItemsInOrder) {
  auto declared = system();
  std::vector<Values> samples{sample_of(0, 2, 0, 1, 3), sample_of(1, 0, 1, 0, 4), sample_of(2, 1, 0, 2, 5),
                              sample_of(3, 3, 1, 0, 2)};
  Batch batch(declared, samples, 3);
  EXPECT_EQ(batch.microbatches(), 3);
  EXPECT_EQ(batch.samples(), 4);
  ASSERT_EQ(batch.microbatch(0).size(), 2u);  // 4 in 3 are 2, 1, 1
  EXPECT_EQ(number_of(batch.microbatch(0)[1]), 1);
  EXPECT_EQ(number_of(batch.microbatch(2)[0]), 3);
  auto items = batch.items(0, 0);
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1].sample, 0);
  EXPECT_EQ(items[1].index, 1);
  EXPECT_EQ(batch.items(0, 2).size(), 3u);
  EXPECT_EQ(batch.items(1, 0).size(), 1u);
  EXPECT_EQ(batch.items(1, 0)[0].sample, 1);
  EXPECT_EQ(batch.items(2, 1).size(), 2u);
  auto listed = batch.step_items(declared, 0);
  std::vector<bigmac::Item> expected{{0, 1}, {0, 2}, {1, 21}, {2, 31}, {2, 32}, {2, 33}};
  EXPECT_EQ(listed, expected);
  EXPECT_EQ(batch.step_items(declared, 2), (std::vector<bigmac::Item>{{0, 1}, {1, 1}, {1, 1}}));
}

// What a module takes is one item of the sample, and nothing is loaded before it is asked for.
TEST(Batch, LoadsAnItemsDataWhenTheyAreAskedFor) {
  auto declared = system();
  Values sample = sample_of(4, 0, 0, 0, 1);
  std::vector<size_t> loads;
  for (const char* name : {"pixels", "grid"})
    sample.set_each_later(name, 3, [&](size_t k) {
      loads.push_back(k);
      return scalar(double(k));
    });
  Batch batch(declared, {sample}, 1);
  EXPECT_TRUE(loads.empty());
  auto item = item_data(declared, declared.modules()[0], batch.microbatch(0)[0], 2);
  EXPECT_EQ(item.names(), (std::vector<std::string>{"grid", "pixels"}));
  EXPECT_TRUE(loads.empty());
  EXPECT_EQ(item["pixels"].item<double>(), 2);
  EXPECT_EQ(loads, std::vector<size_t>{2});
  auto generated = item_data(declared, declared.modules()[2], sample_of(4, 0, 0, 2, 1), 1);
  EXPECT_EQ(generated.names(), (std::vector<std::string>{"noise", "target"}));
}

TEST(Batch, NamesTheSampleThatHoldsWhatIsNotDeclared) {
  auto declared = system();
  std::vector<Values> samples{sample_of(0, 0, 0, 0, 1), sample_of(1, 0, 0, 0, 1)};
  samples[1].set("pixel", scalar(1));
  EXPECT_EQ(
      complaint([&] { Batch(declared, samples, 2); }),
      "[batch] sample 1 holds 'pixel', which the system's data do not declare: unknown value 'pixel' (did "
      "you mean 'pixels'?); known: pixels, grid, clip, target, noise, tokens");
}

TEST(Batch, NamesTheSampleWhoseGroupsDiffer) {
  auto declared = system();
  std::vector<Values> samples;
  for (int i = 0; i < 3; ++i) samples.push_back(sample_of(i, 2, 0, 2, 1));
  auto one_grid = samples, no_noise = samples;
  one_grid[2].set("grid", scalar(1));
  EXPECT_EQ(complaint([&] { Batch(declared, one_grid, 3); }),
            "[batch] sample 2 has 2 tensors of 'pixels' and 1 of 'grid', of which encoder 'vision' takes one "
            "each an item");
  no_noise[1].erase("noise");
  EXPECT_EQ(
      complaint([&] { Batch(declared, no_noise, 3); }),
      "[batch] sample 1 has 2 tensors of 'target' and 0 of 'noise', of which generator 'painter' takes one "
      "each an item");
  // On every rank, whichever replica the sample belongs to.
  for (int64_t replica : {0, 1, 2})
    EXPECT_NE(complaint([&] { Batch(declared, no_noise, 1, 3, replica); }), "no error");
}

TEST(Batch, RefusesSizesAndCountsThatAreNone) {
  auto declared = system();
  auto sized = [&](double size) {
    auto sample = sample_of(0, 1, 0, 0, 1);
    sample.set("pixels", scalar(size));
    return complaint([&] { Batch(declared, {sample}, 1).step_items(declared, 0); });
  };
  EXPECT_EQ(sized(0), "[batch] an item of 'vision' has size 0, expected a finite number above 0");
  EXPECT_EQ(sized(INFINITY), "[batch] an item of 'vision' has size inf, expected a finite number above 0");
  EXPECT_EQ(sized(1e-3), "no error");
  auto odd = system();
  odd.loss("odd", [](const Values&) { return -1.0; });
  EXPECT_EQ(complaint([&] {
              Batch(odd, {sample_of(0, 0, 0, 0, 1), sample_of(1, 0, 0, 0, 1)}, 1);
            }),
            "[batch] loss 'odd' is counted as -2 over the step, expected a finite number from 0");
}

TEST(Batch, OfAllReplicasIsTheWhole) {
  auto declared = system();
  std::mt19937 random(11);
  for (int trial = 0; trial < 50; ++trial) {
    int64_t replicas = 1 + int64_t(random() % 4), microbatches = 1 + int64_t(random() % 4);
    auto samples = random_samples(random, int(replicas * microbatches + int64_t(random() % 9)));
    Batch whole(declared, samples, replicas * microbatches);
    int64_t seen = 0;
    for (int64_t replica = 0; replica < replicas; ++replica) {
      Batch part(declared, samples, microbatches, replicas, replica);
      EXPECT_EQ(part.samples(), int64_t(samples.size()));
      ASSERT_EQ(part.microbatches(), microbatches);
      for (size_t loss = 0; loss < 2; ++loss) EXPECT_EQ(part.scale(loss), whole.scale(loss));
      for (int m = 0; m < int(microbatches); ++m) {
        int of_whole = int(replica * microbatches) + m;
        const auto &own = part.microbatch(m), &expected = whole.microbatch(of_whole);
        ASSERT_EQ(own.size(), expected.size());
        for (size_t i = 0; i < own.size(); ++i) {
          EXPECT_EQ(number_of(own[i]), seen++);
          EXPECT_EQ(number_of(expected[i]), number_of(own[i]));
        }
        for (int module = 0; module < 3; ++module) {
          const auto &a = part.items(module, m), &b = whole.items(module, of_whole);
          EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
            return x.sample == y.sample && x.index == y.index;
          }));
        }
      }
    }
    EXPECT_EQ(seen, int64_t(samples.size()));
  }
}

TEST(Batch, DividesLossesByWhatIsCountedInTheWholeStep) {
  auto declared = system();
  std::vector<Values> samples{sample_of(0, 0, 0, 2, 100), sample_of(1, 0, 0, 0, 7),
                              sample_of(2, 0, 0, 3, 43)};
  for (int64_t replica : {0, 1, 2}) {
    Batch batch(declared, samples, 1, 3, replica);
    EXPECT_DOUBLE_EQ(batch.scale(0), 1.0 / 150);
    EXPECT_DOUBLE_EQ(batch.scale(1), 0.5 / 5);
  }
  Batch nothing_drawn(declared, {sample_of(0, 0, 0, 0, 4)}, 1);
  EXPECT_EQ(nothing_drawn.scale(1), 0);
}

}  // namespace
}  // namespace bigmac
