#include "bigmac/data/batch.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bigmac/data/text.h"
#include "tests/data/support.h"

namespace bigmac::data {
namespace {

// Pair i is called after i, with names of different lengths; every tenth is held out.
Dataset numbered(int64_t count = 110, int64_t side = 4) {
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < count; ++i)
    pairs.push_back(
        {concat("piñata ", std::string(static_cast<size_t>(i % 7), 'x'), i), concat(i), i % 10 == 3});
  auto pictures = torch::arange(count, torch::kInt64).to(torch::kUInt8).view({count, 1, 1, 1});
  return Dataset(std::move(pairs), pictures.repeat({1, 3, side, side}));
}

std::vector<int64_t> values_of(const torch::Tensor& tensor) {
  return {tensor.data_ptr<int64_t>(), tensor.data_ptr<int64_t>() + tensor.numel()};
}

bool same(const std::vector<Sample>& a, const std::vector<Sample>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Sample& x, const Sample& y) {
    return x.task == y.task && x.index == y.index && torch::equal(x.tokens, y.tokens) &&
           torch::equal(x.labels, y.labels) && x.times.defined() == y.times.defined() &&
           (!x.times.defined() || torch::equal(x.times, y.times)) && x.noise_seed == y.noise_seed;
  });
}

std::vector<int64_t> indices_of(const std::vector<Sample>& samples) {
  std::vector<int64_t> indices;
  for (const auto& sample : samples) indices.push_back(sample.index);
  return indices;
}

int64_t count(const std::vector<Sample>& samples, Task task) {
  return std::count_if(samples.begin(), samples.end(),
                       [&](const Sample& sample) { return sample.task == task; });
}

// Clips of i % 5 + 1 tokens.
BatchConfig with_sound(BatchConfig config = {}) {
  config.sound_tokens = [](int64_t index) { return index % 5 + 1; };
  return config;
}

// Each microbatch's tasks, over some steps.
std::vector<std::set<Task>> tasks_of_microbatches(const BatchConfig& config, int64_t steps) {
  auto dataset = numbered();
  std::vector<std::set<Task>> all;
  for (int64_t step = 0; step < steps; ++step) {
    auto samples = make_samples(dataset, config, step);
    for (size_t at = 0; at < samples.size(); ++at) {
      if (at % size_t(config.samples) == 0) all.emplace_back();
      all.back().insert(samples[at].task);
    }
  }
  return all;
}

TEST(Samples, OfTheSameStepAreTheSameInAnyOrderOfCalls) {
  auto dataset = numbered();
  std::map<int64_t, std::vector<Sample>> forward;
  for (int64_t step = 0; step < 12; ++step) forward[step] = make_samples(dataset, {}, step);
  torch::manual_seed(99);
  for (int64_t step = 11; step >= 0; --step)
    EXPECT_TRUE(same(make_samples(dataset, {}, step), forward[step]));
}

TEST(Samples, LeaveTorchsOwnGeneratorAlone) {
  auto dataset = numbered();
  torch::manual_seed(5);
  auto expected = torch::rand({4});
  torch::manual_seed(5);
  for (const auto& sample : make_samples(dataset, {}, 3))
    if (sample.task == Task::drawing) make_noise(sample, 4);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

TEST(Samples, OfOtherStepsAndSeedsDiffer) {
  auto dataset = numbered();
  auto first = make_samples(dataset, {}, 0);
  EXPECT_NE(indices_of(first), indices_of(make_samples(dataset, {}, 1)));
  EXPECT_NE(indices_of(first), indices_of(make_samples(dataset, {.seed = 2}, 0)));
  std::set<uint64_t> seeds;
  std::set<float> times;
  for (uint64_t seed : {1, 2})
    for (int64_t step = 0; step < 3; ++step)
      for (const auto& sample :
           make_samples(dataset, {.seed = seed, .caption_share = 0, .draw_share = 1}, step)) {
        seeds.insert(sample.noise_seed);
        times.insert(sample.times.item<float>());
      }
  EXPECT_EQ(seeds.size(), 2u * 3 * 32);
  EXPECT_EQ(times.size(), 2u * 3 * 32);
}

TEST(Samples, AreTheSameHoweverManyMicrobatchesAreInAReplica) {
  // What decides is the microbatch's number in the whole step.
  auto dataset = numbered();
  auto eight = make_samples(dataset, {.microbatches = 8}, 0),
       two = make_samples(dataset, {.microbatches = 2}, 0);
  eight.resize(two.size());
  EXPECT_TRUE(same(eight, two));
}

TEST(Samples, OfSomeMicrobatchesAreOfOneTaskAndOfOthersOfAll) {
  auto shares = [](const BatchConfig& config) {
    std::map<std::set<Task>, double> of_kinds;
    auto all = tasks_of_microbatches(config, 50);
    for (const auto& tasks : all) of_kinds[tasks] += 1 / double(all.size());
    return of_kinds;
  };
  auto two = shares({});
  EXPECT_EQ(two.size(), 3u);
  EXPECT_NEAR(two[{Task::captioning}], 0.35, 0.08);
  EXPECT_NEAR(two[{Task::drawing}], 0.35, 0.08);
  EXPECT_NEAR((two[{Task::captioning, Task::drawing}]), 0.30, 0.08);
  auto three = shares(with_sound({.caption_share = 0.2, .draw_share = 0.1, .hear_share = 0.4}));
  EXPECT_EQ(three.size(), 4u);
  EXPECT_NEAR(three[{Task::captioning}], 0.2, 0.08);
  EXPECT_NEAR(three[{Task::drawing}], 0.1, 0.08);
  EXPECT_NEAR(three[{Task::hearing}], 0.4, 0.08);
  EXPECT_NEAR((three[{Task::captioning, Task::drawing, Task::hearing}]), 0.3, 0.08);
}

TEST(Samples, WithSharesOfOneAreOfOneTask) {
  auto dataset = numbered();
  auto only = [&](const BatchConfig& config, Task task) {
    for (int64_t step = 0; step < 10; ++step) {
      auto samples = make_samples(dataset, config, step);
      EXPECT_EQ(count(samples, task), int64_t(samples.size()));
    }
  };
  only({.caption_share = 1, .draw_share = 0}, Task::captioning);
  only({.caption_share = 0, .draw_share = 1}, Task::drawing);
  only(with_sound({.caption_share = 0, .draw_share = 0, .hear_share = 1}), Task::hearing);
}

TEST(Samples, OfAMixedMicrobatchTakeTheTasksInTurnFromAnyOfThem) {
  auto dataset = numbered();
  std::set<Task> firsts;
  for (int64_t step = 0; step < 8; ++step) {
    auto samples =
        make_samples(dataset, with_sound({.samples = 6, .caption_share = 0, .draw_share = 0}), step);
    for (size_t m = 0; m < 8; ++m) {
      std::vector<Sample> own(samples.begin() + long(6 * m), samples.begin() + long(6 * m + 6));
      for (auto task : {Task::captioning, Task::drawing, Task::hearing}) EXPECT_EQ(count(own, task), 2);
      firsts.insert(own[0].task);
    }
  }
  EXPECT_EQ(firsts.size(), 3u);
}

TEST(Samples, OfAnEpochAreEachTrainingPairOnceAndNoHeldOutPair) {
  auto dataset = numbered();  // 99 to train on; an epoch ends inside a step
  std::set<int64_t> training(dataset.training().begin(), dataset.training().end());
  ASSERT_EQ(training.size(), 99u);
  std::vector<int64_t> seen;
  for (int64_t step = 0; seen.size() < 3 * 99; ++step)
    for (int64_t index : indices_of(make_samples(dataset, {}, step))) seen.push_back(index);
  std::vector<std::vector<int64_t>> epochs;
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    auto begin = seen.begin() + static_cast<std::ptrdiff_t>(99 * epoch);
    epochs.emplace_back(begin, begin + 99);
    EXPECT_EQ(std::set<int64_t>(begin, begin + 99), training);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(Samples, MoreThanTheDatasetHasRunThroughSeveralEpochs) {
  std::map<int64_t, int> counts;
  for (int64_t index : indices_of(make_samples(numbered(6), {}, 2))) ++counts[index];  // 32 of 5 pairs
  EXPECT_EQ(counts.size(), 5u);
  for (const auto& [index, times] : counts) EXPECT_NEAR(times, 6.4, 1.5) << index;
}

TEST(Samples, OfACaptionOrAClipAreItsTokensThenTheNameThenTheEnd) {
  auto dataset = numbered();
  auto expect_laid_out = [&](const Sample& sample, int64_t prefix, int64_t token) {
    std::vector<int64_t> expected(static_cast<size_t>(prefix), token);
    for (int64_t byte : encode(dataset.pairs()[static_cast<size_t>(sample.index)].name))
      expected.push_back(byte);
    expected.push_back(kEnd);
    auto tokens = values_of(sample.tokens), labels = values_of(sample.labels);
    EXPECT_EQ(tokens, expected);
    ASSERT_EQ(labels.size(), tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i)
      EXPECT_EQ(labels[i], int64_t(i) + 1 >= prefix && i + 1 < tokens.size() ? tokens[i + 1] : kNoLabel) << i;
    EXPECT_FALSE(sample.times.defined());
  };
  for (const auto& sample :
       make_samples(dataset, {.picture_tokens = 3, .caption_share = 1, .draw_share = 0}, 4))
    expect_laid_out(sample, 3, kPicture);
  for (const auto& sample :
       make_samples(dataset, with_sound({.caption_share = 0, .draw_share = 0, .hear_share = 1}), 4))
    expect_laid_out(sample, sample.index % 5 + 1, kSound);
}

TEST(Samples, OfADrawingHaveTimesAndNoTextLoss) {
  auto dataset = numbered();
  for (const auto& sample : make_samples(dataset, {.draws = 3, .caption_share = 0, .draw_share = 1}, 4)) {
    auto name = dataset.pairs()[static_cast<size_t>(sample.index)].name;
    EXPECT_TRUE(torch::equal(sample.tokens, make_draw_prompt(name)));
    EXPECT_TRUE(sample.labels.eq(kNoLabel).all().item<bool>());
    EXPECT_EQ(sample.labels.sizes(), sample.tokens.sizes());
    // A third of the way round from one to the next.
    auto times = sample.times.to(torch::kFloat64);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_NEAR(std::fmod(times[i].item<double>() - times[0].item<double>() + 2, 1.0), double(i) / 3, 1e-6);
    auto noise = make_noise(sample, 4);
    EXPECT_EQ(noise.sizes(), (std::vector<int64_t>{3, 3, 4, 4}));
    EXPECT_TRUE(torch::equal(noise, make_noise(sample, 4)));
  }
}

TEST(Samples, HaveGaussianNoiseAndUniformTimes) {
  auto dataset = numbered(110, 16);
  std::vector<torch::Tensor> noise, times;
  for (int64_t step = 0; step < 20; ++step)
    for (const auto& sample : make_samples(dataset, {.caption_share = 0, .draw_share = 1}, step)) {
      noise.push_back(make_noise(sample, 16).flatten());
      times.push_back(sample.times);
    }
  auto values = torch::cat(noise), moments = torch::cat(times);
  EXPECT_NEAR(values.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(values.std().item<double>(), 1, 0.01);
  EXPECT_NEAR(moments.mean().item<double>(), 0.5, 0.05);
  EXPECT_NEAR(moments.std().item<double>(), std::sqrt(1 / 12.0), 0.03);
  EXPECT_GT(moments.min().item<float>(), 0);
  EXPECT_LT(moments.max().item<float>(), 1);
}

TEST(Samples, DifferInLength) {
  std::set<int64_t> lengths;
  for (const auto& sample : make_samples(numbered(), {}, 0)) lengths.insert(sample.tokens.size(0));
  EXPECT_GT(lengths.size(), 3u);
}

TEST(Samples, OfADrawPromptAreTheNameBetweenItsTokens) {
  EXPECT_EQ(values_of(make_draw_prompt("cat")), (std::vector<int64_t>{kDraw, 'c', 'a', 't', kEnd}));
}

TEST(Samples, OfWrongConfigurationsAreRefusedByName) {
  auto dataset = numbered();
  auto refused = [&](const BatchConfig& config, int64_t step = 0) {
    return message_of([&] { make_samples(dataset, config, step); });
  };
  EXPECT_CONTAINS(refused({.microbatches = 0}), "microbatches is 0; it must be at least 1");
  EXPECT_CONTAINS(refused({.samples = -1}), "samples in a microbatch is -1");
  EXPECT_CONTAINS(refused({.picture_tokens = 0}), "picture tokens is 0");
  EXPECT_CONTAINS(refused({.draws = 0}), "draws of a target is 0");
  EXPECT_CONTAINS(refused({.caption_share = 0.7, .draw_share = 0.4}), "0.7, 0.4 and 0");
  EXPECT_CONTAINS(refused({.caption_share = -0.1}), "-0.1");
  EXPECT_CONTAINS(refused({.draw_share = 0, .hear_share = 0.25}), "0.25, but there is nothing to hear");
  EXPECT_CONTAINS(refused({}, -1), "step is -1");
  Dataset held_out({{"a", "b", true}}, torch::zeros({1, 3, 4, 4}, torch::kUInt8));
  EXPECT_CONTAINS(message_of([&] { make_samples(held_out, {}, 0); }), "no training pairs");
}

}  // namespace
}  // namespace bigmac::data
