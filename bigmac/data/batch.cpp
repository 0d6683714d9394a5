#include "bigmac/data/batch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "bigmac/common/error.h"
#include "bigmac/data/text.h"

namespace bigmac::data {
namespace {

constexpr int64_t kIgnored = -100;

enum class Task { captioning, drawing };

struct Sample {
  Task task;
  int64_t index;  // in the dataset
  double time;
};

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
  if (kind < config.caption_share) return Task::captioning;
  if (kind < config.caption_share + config.draw_share) return Task::drawing;
  uint64_t first = random_word({kFirstTask, config.seed, step, microbatch}) & 1;
  return (first + sample) % 2 == 0 ? Task::captioning : Task::drawing;
}

// tokens, labels and the two kinds of rows; texts[i] is the caption of sample i.
Microbatch lay_out(const std::vector<Task>& tasks, const std::vector<std::string>& texts,
                   int64_t picture_tokens) {
  auto rows = static_cast<int64_t>(tasks.size());
  auto prefix = [&](int64_t row) {
    return tasks[static_cast<size_t>(row)] == Task::captioning ? picture_tokens : int64_t{1};
  };
  int64_t length = 0;
  for (int64_t row = 0; row < rows; ++row)
    length = std::max(length, prefix(row) + static_cast<int64_t>(texts[static_cast<size_t>(row)].size()) + 1);

  auto tokens = torch::full({rows, length}, int64_t{kPad}, torch::kInt64);
  auto labels = torch::full({rows, length}, kIgnored, torch::kInt64);
  std::vector<int64_t> picture_rows, target_rows;
  std::vector<torch::Tensor> masks;
  auto token = tokens.accessor<int64_t, 2>(), label = labels.accessor<int64_t, 2>();
  for (int64_t row = 0; row < rows; ++row) {
    bool captioning = tasks[static_cast<size_t>(row)] == Task::captioning;
    auto text = encode(texts[static_cast<size_t>(row)]);
    text.push_back(kEnd);
    int64_t begin = prefix(row), end = begin + static_cast<int64_t>(text.size());
    for (int64_t i = 0; i < begin; ++i) token[row][i] = captioning ? kPicture : kDraw;
    for (int64_t i = begin; i < end; ++i) {
      token[row][i] = text[static_cast<size_t>(i - begin)];
      if (captioning) label[row][i - 1] = token[row][i];
    }
    if (captioning) {
      picture_rows.push_back(row);
    } else {
      target_rows.push_back(row);
      auto mask = torch::zeros({length}, torch::kBool);
      mask.slice(0, begin, end).fill_(true);
      masks.push_back(mask);
    }
  }
  Microbatch microbatch;
  microbatch.tokens = tokens;
  microbatch.labels = labels;
  microbatch.picture_rows = torch::tensor(picture_rows, torch::kInt64);
  microbatch.target_rows = torch::tensor(target_rows, torch::kInt64);
  microbatch.target_mask = masks.empty() ? torch::zeros({0, length}, torch::kBool) : torch::stack(masks);
  return microbatch;
}

Microbatch make_microbatch(const Dataset& dataset, const BatchConfig& config,
                           const std::vector<Sample>& samples, uint64_t noise_seed) {
  std::vector<Task> tasks;
  std::vector<std::string> texts;
  std::vector<torch::Tensor> pictures, targets;
  std::vector<double> times;
  for (const auto& sample : samples) {
    tasks.push_back(sample.task);
    texts.push_back(dataset.pairs()[static_cast<size_t>(sample.index)].name);
    bool captioning = sample.task == Task::captioning;
    (captioning ? pictures : targets).push_back(dataset.picture(sample.index));
    for (int64_t draw = 0; draw < config.draws && !captioning; ++draw)
      times.push_back(
          std::fmod(sample.time + static_cast<double>(draw) / static_cast<double>(config.draws), 1.0));
  }
  Microbatch microbatch = lay_out(tasks, texts, config.picture_tokens);
  if (!pictures.empty()) microbatch.pictures = torch::stack(pictures);
  if (!targets.empty()) microbatch.targets = torch::stack(targets).repeat_interleave(config.draws, 0);
  microbatch.target_rows = microbatch.target_rows.repeat_interleave(config.draws, 0);
  microbatch.target_mask = microbatch.target_mask.repeat_interleave(config.draws, 0);
  microbatch.times = torch::tensor(times, torch::kFloat32);
  microbatch.draws = config.draws;
  auto generator = at::detail::createCPUGenerator(noise_seed);
  microbatch.noise = torch::randn({static_cast<int64_t>(times.size()), 3, dataset.side(), dataset.side()},
                                  generator, torch::TensorOptions(torch::kFloat32));
  return microbatch;
}

void check(const Dataset& dataset, const BatchConfig& config, int64_t step) {
  auto at_least_one = [](const char* what, int64_t value) {
    if (value < 1) throw InvalidInput(concat(what, " is ", value, "; it must be at least 1"));
  };
  at_least_one("the number of microbatches", config.microbatches);
  at_least_one("the number of samples in a microbatch", config.samples);
  at_least_one("the number of picture tokens", config.picture_tokens);
  at_least_one("the number of draws of a target", config.draws);
  double captioning = config.caption_share, drawing = config.draw_share;
  if (!(captioning >= 0 && drawing >= 0 && captioning + drawing <= 1))
    throw InvalidInput(concat("the shares of microbatches with captioning only and drawing only are ",
                              captioning, " and ", drawing,
                              "; each must be at least 0 and their sum at most 1"));
  if (step < 0) throw InvalidInput(concat("the step is ", step, "; it must be at least 0"));
  if (dataset.training().empty()) throw InvalidInput("the dataset has no training pairs");
}

}  // namespace

Batch make_batch(const Dataset& dataset, const BatchConfig& config, int64_t step) {
  check(dataset, config, step);
  auto counter = static_cast<uint64_t>(step);
  auto indices = step_order(dataset, config, counter);
  Batch batch;
  auto next = indices.begin();
  for (uint64_t m = 0; m < static_cast<uint64_t>(config.microbatches); ++m) {
    std::vector<Sample> samples;
    for (uint64_t s = 0; s < static_cast<uint64_t>(config.samples); ++s)
      samples.push_back(
          {task_of(config, counter, m, s), *next++, random_unit({kTime, config.seed, counter, m, s})});
    auto microbatch =
        make_microbatch(dataset, config, samples, random_word({kNoise, config.seed, counter, m}));
    batch.valid_tokens += microbatch.labels.ne(kIgnored).sum().item<int64_t>();
    if (microbatch.has_targets()) batch.target_values += microbatch.targets.numel();
    batch.microbatches.push_back(std::move(microbatch));
  }
  return batch;
}

Microbatch make_caption_prompt(const Dataset& dataset, int64_t index, int64_t picture_tokens) {
  if (picture_tokens < 1)
    throw InvalidInput(concat("the number of picture tokens is ", picture_tokens, "; it must be at least 1"));
  Microbatch prompt;
  prompt.pictures = dataset.picture(index).unsqueeze(0);
  prompt.tokens = torch::full({1, picture_tokens}, int64_t{kPicture}, torch::kInt64);
  prompt.labels = torch::full({1, picture_tokens}, kIgnored, torch::kInt64);
  prompt.picture_rows = torch::zeros({1}, torch::kInt64);
  prompt.target_rows = torch::zeros({0}, torch::kInt64);
  prompt.target_mask = torch::zeros({0, picture_tokens}, torch::kBool);
  prompt.noise = torch::zeros({0, 3, dataset.side(), dataset.side()});
  prompt.times = torch::zeros({0});
  return prompt;
}

Microbatch make_draw_prompt(const std::string& name) {
  return lay_out({Task::drawing}, {name}, 1);
}

}  // namespace bigmac::data
