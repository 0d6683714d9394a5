#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bigmac/data/dataset.h"

namespace bigmac::data {

// B samples of two tasks:
//   captioning  [picture x picture_tokens][caption bytes][end], loss on the caption bytes and `end`
//   drawing     [draw][caption bytes][end], no loss on the text; the picture is the generator's target
// L is the length of the longest sample and differs from microbatch to microbatch.
struct Microbatch {
  torch::Tensor tokens;    // [B, L] int64, right-padded with `pad`
  torch::Tensor labels;    // [B, L] int64: the next token to predict at each position, -100 where none counts
  torch::Tensor pictures;  // [n, 3, S, S] float in [-1, 1], undefined when n = 0
  torch::Tensor picture_rows;  // [n] int64, the sample each picture belongs to, ascending
  torch::Tensor targets;       // [k, 3, S, S] float in [-1, 1], undefined when k = 0
  torch::Tensor target_rows;   // [k] int64, ascending, each sample `draws` times: k is targets * draws
  torch::Tensor target_mask;   // [k, L] bool, true at the caption bytes and `end` of that sample
  torch::Tensor noise;         // [k, 3, S, S] float, Gaussian
  torch::Tensor times;         // [k] float in (0, 1)
  int64_t draws = 1;           // rows of a target, one behind the other

  bool has_pictures() const { return pictures.defined(); }
  bool has_targets() const { return targets.defined(); }
  int64_t picture_count() const { return picture_rows.numel(); }
  int64_t target_count() const { return target_rows.numel() / draws; }
};

// Counts over all microbatches.
struct Batch {
  std::vector<Microbatch> microbatches;
  int64_t valid_tokens = 0;   // labels other than -100
  int64_t target_values = 0;  // elements of `targets`
};

struct BatchConfig {
  int64_t microbatches = 8;
  int64_t samples = 4;  // per microbatch
  int64_t picture_tokens = 16;
  // Each target counts `draws` times, with noise of its own and times spread evenly over (0, 1): the text's
  // states serve all of them.
  int64_t draws = 1;
  uint64_t seed = 1;
  // The shares of microbatches with captioning only and with drawing only; the rest holds both tasks
  // in turn (one of them where samples = 1).
  double caption_share = 0.35;
  double draw_share = 0.35;
};

// The batch of a step: a pure function of its arguments. The samples of consecutive steps run through
// the training pairs in an order shuffled anew each epoch, so that an epoch takes each pair once.
// Throws InvalidInput for counts below 1, shares outside [0, 1] or above 1 together, a negative step,
// or a dataset without training pairs.
Batch make_batch(const Dataset& dataset, const BatchConfig& config, int64_t step);

// One sample without loss, for a caption to be written after its tokens [1, picture_tokens].
Microbatch make_caption_prompt(const Dataset& dataset, int64_t index, int64_t picture_tokens);

// One sample without loss, [draw][name][end], with target_rows and target_mask for the generator;
// targets, noise and times are undefined.
Microbatch make_draw_prompt(const std::string& name);

}  // namespace bigmac::data
