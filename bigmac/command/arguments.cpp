#include "bigmac/command/arguments.h"

#include <algorithm>
#include <charconv>

#include "bigmac/common/names.h"

namespace bigmac {
namespace {

constexpr double kLongestTime = 1e12;

template <class Number>
bool parse(std::string_view text, Number& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_time(double time) {
  return time >= 0 && time <= kLongestTime;
}

// Between commas; empty where something else stands there.
std::vector<double> parse_times(std::string_view text) {
  auto times = parse_numbers(text);
  if (!std::all_of(times.begin(), times.end(), is_time)) times.clear();
  return times;
}

int64_t parse_whole_from(const std::string& option, int64_t least, const std::string& text) {
  int64_t value = 0;
  if (!parse(text, value) || value < least || value > kMostOperators)
    throw must_be(option, concat("a whole number from ", least, " to ", kMostOperators), text);
  return value;
}

CLI::Option* add_text(CLI::App& command, const std::string& name, const std::string& value_name,
                      const std::function<void(const std::string&)>& take, const std::string& help) {
  return command.add_option_function<std::string>(name, take, help)->type_name(value_name);
}

bool is_name(std::string_view text) {
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto is_part = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  return !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), is_part);
}

NamedText split_name(const std::string& text) {
  auto equals = text.find('=');
  if (equals == std::string::npos || !is_name(std::string_view(text).substr(0, equals))) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

bool parse_whole(std::string_view text, int64_t& number) {
  return parse(text, number);
}

bool parse_number(std::string_view text, double& number) {
  return parse(text, number);
}

std::vector<double> parse_numbers(std::string_view text) {
  std::vector<double> numbers;
  while (true) {
    auto comma = std::min(text.find(','), text.size());
    if (!parse(text.substr(0, comma), numbers.emplace_back())) return {};
    if (comma == text.size()) return numbers;
    text.remove_prefix(comma + 1);
  }
}

InvalidInput must_be(const std::string& option, std::string_view legal, const std::string& got) {
  return InvalidInput(concat(option, " must be ", legal, ", got '", got, "'"));
}

int64_t parse_count(const std::string& option, const std::string& text) {
  return parse_whole_from(option, 1, text);
}

WorkTimes parse_work(const std::string& option, const std::string& text) {
  auto times = parse_times(text);
  if (times.size() != 2)
    throw must_be(option,
                  concat("two numbers from 0 to ", kLongestTime,
                         " as FORWARD,BACKWARD, such as 0.5,1 or, with a name, image=0.5,1"),
                  text);
  return {times[0], times[1], {}};
}

CLI::Option* add_count(CLI::App& command, const std::string& name, int64_t& count, const std::string& help) {
  return add_whole(
      command, name, 1, [&count](int64_t value) { count = value; }, help);
}

CLI::Option* add_whole(CLI::App& command, const std::string& name, int64_t least,
                       std::function<void(int64_t)> take, const std::string& help) {
  // By several names: errors have the first.
  auto take_text = [first = name.substr(0, name.find(',')), least, take = std::move(take)](
                       const std::string& text) { take(parse_whole_from(first, least, text)); };
  return add_text(command, name, "N", take_text, help);
}

CLI::Option* add_time(CLI::App& command, const std::string& name, double& time, const std::string& help) {
  auto take = [name, &time](const std::string& text) {
    if (!parse(text, time) || !is_time(time))
      throw must_be(name, concat("a number from 0 to ", kLongestTime), text);
  };
  return add_text(command, name, "TIME", take, help);
}

CLI::Option* add_work(CLI::App& command, const std::string& name, WorkTimes& work, const std::string& help) {
  auto take = [name, &work](const std::string& text) {
    auto times = parse_times(text);
    if (times.size() == 2)
      work = {times[0], times[1], {}};
    else if (times.size() == 3)
      work = {times[0], times[1] + times[2], times[2]};
    else
      throw must_be(name,
                    concat("numbers from 0 to ", kLongestTime,
                           " as FORWARD,BACKWARD, such as 1,2, or FORWARD,INPUT,WEIGHT, such as 1,1,1"),
                    text);
  };
  return add_text(command, name, "F,B|F,I,W", take, help);
}

CLI::Option* add_two_times(CLI::App& command, const std::string& name, WorkTimes& work,
                           const std::string& help) {
  auto take = [name, &work](const std::string& text) {
    auto times = parse_times(text);
    if (times.size() != 2)
      throw must_be(
          name, concat("two numbers from 0 to ", kLongestTime, " as FORWARD,BACKWARD, such as 0.5,1"), text);
    work = {times[0], times[1], {}};
  };
  return add_text(command, name, "F,B", take, help);
}

CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& on, const std::string& help) {
  return command.add_flag(name, on, help)->disable_flag_override();
}

CLI::Option* add_path(CLI::App& command, const std::string& name, std::optional<std::string>& path,
                      const std::string& help) {
  return add_text(
      command, name, "FILE", [&path](const std::string& text) { path = text; }, help);
}

CLI::Option* add_choice(CLI::App& command, const std::string& name, const std::string& names,
                        std::function<void(const std::string&)> take, const std::string& help) {
  auto take_named = [name, take = std::move(take)](const std::string& text) {
    try {
      take(text);
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat(name, ": ", error.what()));
    }
  };
  return add_text(command, name, names, take_named, help);
}

CLI::Option* add_named(CLI::App& command, const std::string& name, const std::string& value_name,
                       std::vector<NamedText>& values, std::function<void(const std::string&)> check,
                       const std::string& help) {
  CLI::callback_t take = [&values, check = std::move(check)](const CLI::results_t& texts) {
    for (const auto& text : texts) check(values.emplace_back(split_name(text)).text);
    return true;
  };
  return command.add_option(name, take, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name(value_name);
}

CLI::Option* value_may_be_left_out(CLI::Option* option, const std::string& value) {
  // CLI11 takes the default for a value that is left out.
  option->expected(0, 1)->allow_extra_args(false)->default_str(value);
  return option->type_name(concat("[", option->get_type_name(), "]"));
}

}  // namespace bigmac
