#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

// bigmac check: whether a table from a file is complete and runs, and how long it takes.
void add_check_command(CLI::App& program);

}  // namespace bigmac
