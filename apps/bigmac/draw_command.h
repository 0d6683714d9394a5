#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

void add_draw_command(CLI::App& program);

}  // namespace bigmac
