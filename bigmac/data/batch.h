#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bigmac/data/dataset.h"

namespace bigmac::data {

enum class Task { captioning, drawing, hearing };

inline constexpr int64_t kNoLabel = -100;

// A sample of one task:
//   captioning  [picture x picture_tokens][name bytes][end], loss on the name's bytes and `end`
//   hearing     [sound x sound_tokens(index)][name bytes][end], likewise
//   drawing     [draw][name bytes][end], no loss on the text; the picture is the generator's target
struct Sample {
  Task task = Task::captioning;
  int64_t index = 0;     // of its pair in the dataset
  torch::Tensor tokens;  // [L] int64
  torch::Tensor labels;  // [L] int64: the next token to predict at each position, kNoLabel where none counts
  torch::Tensor times;   // [draws] float in (0, 1), of a drawing sample; else undefined
  uint64_t noise_seed = 0;  // of make_noise()
};

struct BatchConfig {
  int64_t microbatches = 8;  // of the whole step
  int64_t samples = 4;       // in each
  int64_t picture_tokens = 16;
  // Each target counts `draws` times, with noise of its own and times spread evenly over (0, 1): the text's
  // states serve all of them.
  int64_t draws = 1;
  uint64_t seed = 1;
  // The shares of microbatches with captioning, drawing or hearing only; the rest holds all tasks in turn
  // (one of them where samples = 1).
  double caption_share = 0.35;
  double draw_share = 0.35;
  double hear_share = 0;
  // Tokens of a pair's spoken name; none: nothing is heard.
  std::function<int64_t(int64_t index)> sound_tokens{};

  // Throws InvalidInput for counts below 1, shares outside [0, 1] or above 1 together, and a share of hearing
  // without sound_tokens.
  void check() const;
};

// The samples of a step, microbatch by microbatch: a pure function of its arguments. Those of consecutive
// steps run through the training pairs in an order shuffled anew each epoch, so that an epoch takes each pair
// once. Throws InvalidInput as check(), for a negative step, or a dataset without training pairs.
std::vector<Sample> make_samples(const Dataset& dataset, const BatchConfig& config, int64_t step);

// A drawing sample's noise: [draws, 3, side, side] float, Gaussian.
torch::Tensor make_noise(const Sample& sample, int64_t side);

// [draw][name bytes][end], for a picture to be drawn: [L] int64.
torch::Tensor make_draw_prompt(const std::string& name);

}  // namespace bigmac::data
