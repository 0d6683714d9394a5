#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "apps/bigmac/arguments.h"
#include "bigmac/workload/workload.h"

namespace bigmac {

// A workload file and what the command line changes of it.
struct WorkloadArguments {
  std::string file;
  std::optional<int64_t> gpus;
  std::optional<double> memory;
  std::optional<std::string> hardware;
  std::vector<int64_t> samples_per_gpu;
  Search search;
  std::vector<NamedText> recompute;  // of a module, or of all
  int64_t threads = 0;
};

void add_workload_options(CLI::App& command, WorkloadArguments& arguments);

// Throws InvalidInput naming the option or the place in the file.
Workload workload_of(const WorkloadArguments& arguments);

}  // namespace bigmac
