#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

void add_run_command(CLI::App& program);

}  // namespace bigmac
