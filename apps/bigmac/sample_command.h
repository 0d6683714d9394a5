#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

void add_sample_command(CLI::App& program);

}  // namespace bigmac
