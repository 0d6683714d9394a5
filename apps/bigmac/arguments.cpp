#include "apps/bigmac/arguments.h"

#include <charconv>
#include <vector>

#include "apps/bigmac/console.h"
#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr double kLongestTime = 1e12;

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_time(std::string_view text, double& time) {
  return parse_number(text, time) && time >= 0 && time <= kLongestTime;
}

InvalidInput must_be(const std::string& name, std::string_view legal, const std::string& text) {
  return InvalidInput(concat(name, " must be ", legal, ", got '", text, "'"));
}

CLI::Option* add_text(CLI::App& command, const std::string& name, const std::string& value_name,
                      const std::function<void(const std::string&)>& take, const std::string& help) {
  return command.add_option_function<std::string>(name, take, help)->type_name(value_name);
}

}  // namespace

CLI::Option* add_count(CLI::App& command, const std::string& name, int64_t& count, const std::string& help) {
  return add_whole(
      command, name, 1, [&count](int64_t value) { count = value; }, help);
}

CLI::Option* add_whole(CLI::App& command, const std::string& name, int64_t least,
                       std::function<void(int64_t)> take, const std::string& help) {
  auto take_text = [name, least, take = std::move(take)](const std::string& text) {
    int64_t value = 0;
    if (!parse_number(text, value) || value < least || value > kMostOperators)
      throw must_be(name, concat("a whole number from ", least, " to ", kMostOperators), text);
    take(value);
  };
  return add_text(command, name, "N", take_text, help);
}

CLI::Option* add_time(CLI::App& command, const std::string& name, double& time, const std::string& help) {
  auto take = [name, &time](const std::string& text) {
    if (!parse_time(text, time)) throw must_be(name, concat("a number from 0 to ", kLongestTime), text);
  };
  return add_text(command, name, "TIME", take, help);
}

CLI::Option* add_work(CLI::App& command, const std::string& name, std::optional<WorkTimes>& work,
                      const std::string& help) {
  auto take = [name, &work](const std::string& text) {
    auto comma = std::min(text.find(','), text.size());
    WorkTimes times;
    bool parsed = comma < text.size() && parse_time(std::string_view(text).substr(0, comma), times.forward) &&
                  parse_time(std::string_view(text).substr(comma + 1), times.backward);
    if (!parsed)
      throw must_be(
          name, concat("two numbers from 0 to ", kLongestTime, " as FORWARD,BACKWARD, such as 0.5,1"), text);
    work = times;
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

void add_table_options(CLI::App& command, TableArguments& table) {
  add_count(command, "--pp", table.ranks, "P, pipeline ranks")->required();
  add_count(command, "--vpp", table.chunks, "V, chunks (virtual pipeline stages) on each rank")
      ->default_str("1");
  add_count(command, "--microbatches", table.microbatches,
            "M, microbatches of the step; a multiple of P with an encoder or generator")
      ->required();
  add_choice(
      command, "--base", "1f1b|interleaved",
      [&table](const std::string& text) { table.base = base_from_name(text); },
      "Order of the LLM's own operators, as Megatron Core has it")
      ->default_str("1f1b with --vpp 1, else interleaved");
  add_count(command, "--group", table.group, "G, microbatches in a group of the interleaved order")
      ->default_str("P");
  add_choice(
      command, "--schedule", "nested|llm-only|three-phase",
      [&table](const std::string& text) { table.arrangement = arrangement_from_name(text); },
      "Where encoder and generator work goes: nested in the LLM's order, nowhere, or all encoder forwards "
      "before and all encoder backwards behind the LLM's work")
      ->default_str("nested with --encoder or --generator, else llm-only");
  add_count(command, "--warmup-units", table.warmup_units,
            "W, how many units of P microbatches the nested encoder runs ahead of its backward")
      ->default_str("3");
}

Step make_step(const TableArguments& table, bool encoder, bool generator) {
  Step step;
  step.ranks = table.ranks;
  step.chunks = table.chunks;
  step.microbatches = table.microbatches;
  step.base = table.base.value_or(table.chunks == 1 ? Base::one_f_one_b : Base::interleaved);
  step.group = table.group;
  step.warmup_units = table.warmup_units;
  step.arrangement =
      table.arrangement.value_or(encoder || generator ? Arrangement::nested : Arrangement::llm_only);
  check_counts(step);
  if (step.arrangement == Arrangement::llm_only) {
    if (encoder || generator)
      print_note(
          "an llm-only step has no encoder and generator operators: --encoder and --generator have no "
          "effect");
    check_step(step);
    return step;
  }
  if (!encoder && !generator)
    print_note(concat("without --encoder or --generator a ", name(step.arrangement),
                      " step is the LLM's own schedule"));
  auto microbatches = size_t(step.microbatches);
  if (encoder) step.encoder.assign(microbatches, 1);
  if (generator) step.generator.assign(microbatches, 1);
  check_step(step);
  return step;
}

}  // namespace bigmac
