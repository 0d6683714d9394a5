#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "bigmac/command/arguments.h"
#include "bigmac/workload/workload.h"

namespace bigmac {

// A workload file and what the command line changes of it.
struct WorkloadArguments {
  std::string file;
  std::optional<int64_t> gpus;
  std::optional<double> memory;
  std::optional<cost::Hardware> hardware;
  std::vector<int64_t> samples_per_gpu;
  Search search;
  std::vector<NamedText> recompute;
  int64_t threads = 0;
};

// `systems`, `bases`: what is searched where neither the workload nor an option names any.
void add_workload_options(CLI::App& command, WorkloadArguments& arguments, const std::string& systems,
                          const std::string& bases);
// --samples-per-gpu
void add_batch_option(CLI::App& command, WorkloadArguments& arguments, const std::string& type,
                      const std::string& help, const std::string& fallback);

// Throws InvalidInput naming the option or the place in the file.
Workload workload_of(const WorkloadArguments& arguments);

}  // namespace bigmac
