#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

// bigmac simulate: how long a step would take, and what its ranks would do and hold.
void add_simulate_command(CLI::App& program);

}  // namespace bigmac
