#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "bigmac/train/options.h"

namespace bigmac::train {

// What the command line says over a file's options.
class TrainArguments {
 public:
  // Adds --pp, --vpp, --dp, --microbatches, --schedule and so on to a command.
  void add_to(CLI::App& command);
  void apply(TrainOptions& options) const;

 private:
  std::vector<std::function<void(TrainOptions&)>> changes_;
};

}  // namespace bigmac::train
