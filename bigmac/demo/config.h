#pragma once

#include <optional>
#include <string>

#include "bigmac/data/batch.h"
#include "bigmac/nn/audio.h"
#include "bigmac/nn/decoder.h"
#include "bigmac/nn/diffusion.h"
#include "bigmac/nn/vision.h"
#include "bigmac/train/options.h"

namespace bigmac::demo {

train::TrainOptions default_options();

// Everything a training run is made from.
struct Config {
  nn::VisionConfig encoder;
  std::optional<nn::AudioConfig> audio;  // with it names are heard too
  nn::DecoderConfig backbone;
  nn::DiffusionConfig generator;

  // Weights of losses beside the text's 1.
  double drawing_weight = 1;
  double balance_weight = 1e-3;   // of experts: of the mean over the layers
  double router_z_weight = 1e-3;  // likewise

  data::DatasetConfig data;
  std::string spoken_cache = "out/spoken";  // where spoken names are kept; empty: nowhere
  data::BatchConfig batch;                  // what is not in the file follows from the rest (batches.h)

  train::TrainOptions options = default_options();

  // Sets what follows from other fields and throws InvalidInput where fields do not fit together.
  void complete();
};

// Reads YAML: the sections encoder, audio, backbone, generator, batch and data, and beside them the keys of
// TrainOptions (train/options_file.h). Unknown keys, values of the wrong kind and malformed YAML are
// InvalidInput with file:line:column and the nearest known key. Fields left out keep their defaults.
Config parse_config(const std::string& yaml, const std::string& file);
Config read_config(const std::string& file);

// YAML that parse_config reads back to the same configuration.
std::string to_yaml(const Config& config);

}  // namespace bigmac::demo
