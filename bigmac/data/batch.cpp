#include "bigmac/data/batch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "bigmac/common/error.h"
#include "bigmac/data/text.h"

namespace bigmac::data {
namespace {

// What a random number is for.
enum Purpose : uint64_t { kOrder = 1, kKind, kFirstTask, kNoise, kTime };

// splitmix64's finalizer, over one word after the other.
uint64_t random_word(std::initializer_list<uint64_t> counter) {
  uint64_t state = 0;
  for (uint64_t word : counter) {
    state += word + 0x9e3779b97f4a7c15u;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
    state ^= state >> 31;
  }
  return state;
}

// In (0, 1), with 24 bits, so that neither end is reached as a float either.
double random_unit(std::initializer_list<uint64_t> counter) {
  return (static_cast<double>(random_word(counter) >> 41) + 0.5) / 8388608.0;
}

std::vector<int64_t> epoch_order(const std::vector<int64_t>& training, uint64_t seed, uint64_t epoch) {
  auto order = training;
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random_word({kOrder, seed, epoch, left}) % left]);
  return order;
}

// The training pairs of one step, one sample after the other.
std::vector<int64_t> step_order(const Dataset& dataset, const BatchConfig& config, uint64_t step) {
  const auto& training = dataset.training();
  uint64_t count = static_cast<uint64_t>(config.microbatches * config.samples), length = training.size();
  std::vector<int64_t> indices, order;
  for (uint64_t serial = step * count; indices.size() < count; ++serial) {
    if (order.empty() || serial % length == 0) order = epoch_order(training, config.seed, serial / length);
    indices.push_back(order[serial % length]);
  }
  return indices;
}

Task task_of(const BatchConfig& config, uint64_t step, uint64_t microbatch, uint64_t sample) {
  double kind = random_unit({kKind, config.seed, step, microbatch});
  if ((kind -= config.caption_share) < 0) return Task::captioning;
  if ((kind -= config.draw_share) < 0) return Task::drawing;
  if (kind < config.hear_share) return Task::hearing;
  uint64_t tasks = config.sound_tokens ? 3 : 2;
  uint64_t first = random_word({kFirstTask, config.seed, step, microbatch}) % tasks;
  return Task((first + sample) % tasks);
}

torch::Tensor to_tensor(const std::vector<int64_t>& values) {
  return torch::tensor(values, torch::dtype(torch::kInt64));
}

// `prefix` times a token, the name, the end.
std::vector<int64_t> lay_out(int64_t prefix, SpecialToken token, const std::string& name) {
  std::vector<int64_t> tokens(static_cast<size_t>(prefix), token);
  for (int64_t byte : encode(name)) tokens.push_back(byte);
  tokens.push_back(kEnd);
  return tokens;
}

// Every token behind the prefix is to be predicted.
std::vector<int64_t> labels_of(const std::vector<int64_t>& tokens, int64_t prefix) {
  std::vector<int64_t> labels(tokens.size(), kNoLabel);
  for (auto i = static_cast<size_t>(prefix); i < tokens.size(); ++i) labels[i - 1] = tokens[i];
  return labels;
}

Sample make_sample(const Dataset& dataset, const BatchConfig& config, Task task, int64_t index) {
  const auto& name = dataset.pairs()[static_cast<size_t>(index)].name;
  Sample sample;
  sample.task = task;
  sample.index = index;
  if (task == Task::drawing) {
    sample.tokens = make_draw_prompt(name);
    sample.labels = torch::full_like(sample.tokens, kNoLabel);
    return sample;
  }
  bool heard = task == Task::hearing;
  int64_t prefix = heard ? config.sound_tokens(index) : config.picture_tokens;
  auto tokens = lay_out(prefix, heard ? kSound : kPicture, name);
  sample.tokens = to_tensor(tokens);
  sample.labels = to_tensor(labels_of(tokens, prefix));
  return sample;
}

// `draws` times, evenly spread over (0, 1) from the first.
torch::Tensor spread_times(double first, int64_t draws) {
  std::vector<double> times;
  for (int64_t draw = 0; draw < draws; ++draw)
    times.push_back(std::fmod(first + static_cast<double>(draw) / static_cast<double>(draws), 1.0));
  return torch::tensor(times, torch::dtype(torch::kFloat32));
}

}  // namespace

void BatchConfig::check() const {
  auto at_least_one = [](const char* what, int64_t value) {
    if (value < 1)
      throw InvalidInput(concat("the number of ", what, " is ", value, "; it must be at least 1"));
  };
  at_least_one("microbatches", microbatches);
  at_least_one("samples in a microbatch", samples);
  at_least_one("picture tokens", picture_tokens);
  at_least_one("draws of a target", draws);
  if (!(caption_share >= 0 && draw_share >= 0 && hear_share >= 0 &&
        caption_share + draw_share + hear_share <= 1))
    throw InvalidInput(concat("the shares of microbatches with captioning, drawing and hearing only are ",
                              caption_share, ", ", draw_share, " and ", hear_share,
                              "; each must be at least 0 and their sum at most 1"));
  if (hear_share > 0 && !sound_tokens)
    throw InvalidInput(concat("the share of microbatches with hearing only is ", hear_share,
                              ", but there is nothing to hear"));
}

std::vector<Sample> make_samples(const Dataset& dataset, const BatchConfig& config, int64_t step) {
  config.check();
  if (step < 0) throw InvalidInput(concat("the step is ", step, "; it must be at least 0"));
  if (dataset.training().empty()) throw InvalidInput("the dataset has no training pairs");
  auto counter = static_cast<uint64_t>(step);
  auto indices = step_order(dataset, config, counter);
  std::vector<Sample> samples;
  for (uint64_t m = 0; m < static_cast<uint64_t>(config.microbatches); ++m)
    for (uint64_t s = 0; s < static_cast<uint64_t>(config.samples); ++s) {
      auto task = task_of(config, counter, m, s);
      samples.push_back(make_sample(dataset, config, task, indices[samples.size()]));
      if (task != Task::drawing) continue;
      samples.back().times = spread_times(random_unit({kTime, config.seed, counter, m, s}), config.draws);
      samples.back().noise_seed = random_word({kNoise, config.seed, counter, m, s});
    }
  return samples;
}

torch::Tensor make_noise(const Sample& sample, int64_t side) {
  auto generator = at::detail::createCPUGenerator(sample.noise_seed);
  return torch::randn({sample.times.size(0), 3, side, side}, generator,
                      torch::TensorOptions(torch::kFloat32));
}

torch::Tensor make_draw_prompt(const std::string& name) {
  return to_tensor(lay_out(1, kDraw, name));
}

}  // namespace bigmac::data
