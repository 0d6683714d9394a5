#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace bigmac {

// The layout of --help: a line for what a command does, its usage, every option with its meaning and its
// default or "required", wrapped to 100 columns.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_usage(const CLI::App* command, std::string name) const override;
  std::string make_description(const CLI::App* command) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

// What CLI11 found wrong with the arguments, in our words: an unknown command or option with the nearest
// known one, and where to read on.
std::string describe(const CLI::ParseError& error, const CLI::App& program);

}  // namespace bigmac
