#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

// bigmac report: why a measured step takes as long as it does, and what would help.
void add_report_command(CLI::App& program);

}  // namespace bigmac
