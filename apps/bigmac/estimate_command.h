#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

// bigmac estimate CONFIG: parameters, FLOPs and memory of a model.
void add_estimate_command(CLI::App& program);

}  // namespace bigmac
