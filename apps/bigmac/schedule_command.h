#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

// bigmac schedule: prints the table of a step.
void add_schedule_command(CLI::App& program);

}  // namespace bigmac
