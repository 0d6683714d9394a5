#pragma once

#include <optional>
#include <string>

#include "bigmac/data/batch.h"
#include "bigmac/nn/decoder.h"
#include "bigmac/nn/diffusion.h"
#include "bigmac/nn/vision.h"
#include "bigmac/schedule/step.h"

namespace bigmac::train {

enum class RanksAs { threads, processes };
RanksAs ranks_as_from_name(const std::string& text);  // InvalidInput with the nearest known name

// In which order a step runs its microbatches: as the batch has them, or so that units cost about their mean
// (bigmac/schedule/order.h).
enum class Order { as_is, balanced };
Order order_from_name(const std::string& text);

struct OptimizerConfig {
  double learning_rate = 1e-3;
  int64_t warmup_steps = 40;          // linear: step s takes (s + 1) / warmup_steps of the rate
  double final_learning_rate = 1e-4;  // of the cosine, at the last step
  double weight_decay = 0.05;         // on matrices; not on norms, biases
  double beta1 = 0.9;
  double beta2 = 0.95;
  double clip_norm = 1.0;  // of all gradients together
};

// Everything a training run is made from.
struct Config {
  nn::VisionConfig encoder;
  nn::DecoderConfig backbone;
  nn::DiffusionConfig generator;

  int64_t pp = 1;   // pipeline ranks
  int64_t vpp = 1;  // chunks a rank
  Arrangement schedule = Arrangement::nested;
  std::optional<Base> base;    // none: 1f1b where vpp is 1, else interleaved
  int64_t warmup_units = 0;    // of the encoder; 0: as many as it takes
  int64_t generator_unit = 0;  // microbatches; 0: pp
  Order order = Order::as_is;
  RanksAs ranks_as = RanksAs::threads;
  int64_t threads_per_rank = 1;

  data::DatasetConfig data;
  data::BatchConfig batch;  // picture_tokens and seed follow from the encoder and `seed`
  OptimizerConfig optimizer;
  double generator_weight = 1.0;  // of the generator's loss beside the backbone's

  int64_t steps = 100;
  uint64_t seed = 1;
  std::string device = "cpu";     // or cuda, cuda:1, ...
  std::string dtype = "float32";  // or float64

  // Sets what follows from other fields and throws InvalidInput where fields do not fit together.
  void complete();
};

// The step that a configuration declares, without the items of its batch.
Step step_of(const Config& config);

// The step's modules.
inline constexpr int kImage = 0;    // the encoder; an item is a picture, its size the number of its patches
inline constexpr int kDrawing = 1;  // the generator; an item is a target, its size that of all its draws
Step with_items(Step step, const Config& config, std::vector<Item> pictures, std::vector<Item> targets);
double picture_size(const Config& config);
double target_size(const Config& config);

// Reads YAML. Unknown keys, values of the wrong kind and malformed YAML are InvalidInput with
// file:line:column and the nearest known key. Fields left out keep their defaults.
Config parse_config(const std::string& yaml, const std::string& file);
Config read_config(const std::string& file);

// YAML that parse_config reads back to the same configuration.
std::string to_yaml(const Config& config);

}  // namespace bigmac::train
