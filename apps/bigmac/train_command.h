#pragma once

#include <CLI/CLI.hpp>

namespace bigmac {

void add_train_command(CLI::App& program);

}  // namespace bigmac
