#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

// bigmac plan WORKLOAD: the configurations to run it with.
void add_plan_command(CLI::App& program);

}  // namespace bigmac
