#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

// bigmac replay: a measured step, what its operators cost, and what they would take under any schedule.
void add_replay_command(CLI::App& program);

}  // namespace bigmac
