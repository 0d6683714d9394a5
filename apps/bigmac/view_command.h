#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

void add_view_command(CLI::App& program);

}  // namespace bigmac
