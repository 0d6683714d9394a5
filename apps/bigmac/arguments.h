#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "bigmac/schedule/step.h"

namespace bigmac {

// Options of the kinds that commands share. Each throws InvalidInput that names the option, what it got and
// what is legal.

// A whole number from 1 to kMostOperators.
CLI::Option* add_count(CLI::App& command, const std::string& name, int64_t& count, const std::string& help);

// A whole number from `least` to kMostOperators.
CLI::Option* add_whole(CLI::App& command, const std::string& name, int64_t least,
                       std::function<void(int64_t)> take, const std::string& help);

// A time: a number from 0 to 1e12.
CLI::Option* add_time(CLI::App& command, const std::string& name, double& time, const std::string& help);

// "forward,backward": the times of a module's two operators.
struct WorkTimes {
  double forward = 0;
  double backward = 0;
};
CLI::Option* add_work(CLI::App& command, const std::string& name, std::optional<WorkTimes>& work,
                      const std::string& help);

// Something that is on or off; takes no value.
CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& on, const std::string& help);

// A file to write.
CLI::Option* add_path(CLI::App& command, const std::string& name, std::optional<std::string>& path,
                      const std::string& help);

// One of a few names. take(text) throws InvalidInput for a name that it does not know.
CLI::Option* add_choice(CLI::App& command, const std::string& name, const std::string& names,
                        std::function<void(const std::string&)> take, const std::string& help);

// What a step's table is made from, as far as it is the same in every command.
struct TableArguments {
  int64_t ranks = 0;
  int64_t chunks = 1;
  int64_t microbatches = 0;
  std::optional<Base> base;  // default: 1f1b with one chunk, else interleaved
  int64_t group = 0;
  std::optional<Arrangement> arrangement;  // default: nested with an encoder or generator, else llm-only
  int64_t warmup_units = 3;
};

// --pp, --vpp, --microbatches, --base, --group, --schedule, --warmup-units
void add_table_options(CLI::App& command, TableArguments& table);

// The step, every microbatch with encoder input and generator target where these are given. An llm-only step
// has neither. Notes on stderr say which arguments have no effect. Throws InvalidInput for counts that are
// not legal.
Step make_step(const TableArguments& table, bool encoder, bool generator);

}  // namespace bigmac
