#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bigmac/common/error.h"
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

// "forward,backward", or for the LLM also "forward,input,weight": a backward in its two parts.
struct WorkTimes {
  double forward = 0;
  double backward = 0;
  std::optional<double> weight;  // the weights' part of `backward`
};
CLI::Option* add_work(CLI::App& command, const std::string& name, WorkTimes& work, const std::string& help);
// The same, forward and backward only.
CLI::Option* add_two_times(CLI::App& command, const std::string& name, WorkTimes& work,
                           const std::string& help);

// Something that is on or off; takes no value.
CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& on, const std::string& help);

// A file to write.
CLI::Option* add_path(CLI::App& command, const std::string& name, std::optional<std::string>& path,
                      const std::string& help);

// One of a few names. take(text) throws InvalidInput for a name that it does not know.
CLI::Option* add_choice(CLI::App& command, const std::string& name, const std::string& names,
                        std::function<void(const std::string&)> take, const std::string& help);

// "[NAME=]VALUE", NAME of letters, digits, - and _. May be given several times. check(text) throws
// InvalidInput for a value that is not legal.
struct NamedText {
  std::string name;  // empty where none is given
  std::string text;
};
CLI::Option* add_named(CLI::App& command, const std::string& name, const std::string& value_name,
                       std::vector<NamedText>& values, std::function<void(const std::string&)> check,
                       const std::string& help);

// Lets an option be given without its value; it is `value` then.
CLI::Option* value_may_be_left_out(CLI::Option* option, const std::string& value);

// For option values with parts. The first two: whether all of `text` is such a number, and its value.
bool parse_whole(std::string_view text, int64_t& number);
bool parse_number(std::string_view text, double& number);
std::vector<double> parse_numbers(std::string_view text);  // between commas; none where something else is
WorkTimes parse_work(const std::string& option, const std::string& text);
int64_t parse_count(const std::string& option, const std::string& text);

// "--pp must be a whole number from 1 to 8, got 'x'"
InvalidInput must_be(const std::string& option, std::string_view legal, const std::string& got);

}  // namespace bigmac
