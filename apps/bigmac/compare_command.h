#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

// bigmac compare WORKLOAD: all systems side by side.
void add_compare_command(CLI::App& program);

}  // namespace bigmac
