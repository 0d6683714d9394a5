#pragma once

#include "bigmac/train/session.h"

namespace bigmac::train {

// A program that trains a system: main() returns what this returns. Options come from the defaults, from the
// YAML file of --config (options_file.h) and from the command line (--help lists them), the later over the
// earlier. Shows progress on a terminal, prints a line a step with --verbose, and writes a JSON line a step
// with --metrics FILE. Exit codes: 0 done, 1 failed while running, 2 wrong input.
// `more`: reports of the caller's own besides (session.h), such as `prepare` to start from given parameters.
int run_program(const System& system, const Batches& batches, int argc, char** argv,
                const TrainOptions& defaults = {}, const Reports& more = {});

}  // namespace bigmac::train
