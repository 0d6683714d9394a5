#include "bigmac/command/help.h"

#include <sstream>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kMeaning = 24;  // where an option's meaning starts

// Breaks lines at blanks so that they fit; what is a line of its own stays one.
std::string wrapped(const std::string& text, size_t indent) {
  std::string out, line, word;
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string margin(indent, ' '), filled;
    while (words >> word) {
      if (!filled.empty() && indent + filled.size() + 1 + word.size() > kColumns) {
        out += margin + filled + "\n";
        filled.clear();
      }
      filled += (filled.empty() ? "" : " ") + word;
    }
    out += filled.empty() ? "\n" : margin + filled + "\n";
  }
  return out;
}

std::string side_by_side(const std::string& name, const std::string& meaning) {
  auto text = wrapped(meaning, kMeaning);
  return name.size() + 2 <= kMeaning ? name + text.substr(name.size()) : name + "\n" + text;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const auto* command : program.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

bool is_option(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-';
}

std::string describe_program(const CLI::App& program) {
  auto left = program.remaining();
  if (left.empty()) {
    std::string text = "a command is missing; known:";
    const char* separator = " ";
    for (const auto& name : command_names(program)) {
      text += separator + name;
      separator = ", ";
    }
    return text;
  }
  if (!is_option(left[0])) return unknown_name("command", left[0], command_names(program));
  return concat("unknown option '", left[0], "' before the command: options stand behind it");
}

std::string unknown_option(const std::string& name, const CLI::App& command) {
  auto nearest = nearest_name(name, option_names(command));
  if (nearest.empty()) return unknown_name("option", name, option_names(command));
  return concat("unknown option '", name, "' (did you mean '", nearest, "'?)");
}

std::string describe_command(const CLI::ParseError& error, const CLI::App& command) {
  auto left = command.remaining();
  if (!left.empty() && is_option(left[0]))
    return unknown_option(left[0].substr(0, left[0].find('=')), command);
  if (!left.empty()) return concat("argument '", left[0], "' is not expected");
  if (error.get_name() == "ArgumentMismatch") {
    for (const auto* option : command.get_options())
      if (option->count() > 1 && option->get_type_size() != 0 &&
          option->get_multi_option_policy() != CLI::MultiOptionPolicy::TakeAll)
        return concat(option->get_name(), " is given ", option->count(), " times; give it once");
    // "--pp: 1 required N missing" or "encoder was given a disallowed flag override"
    std::string what = error.what();
    auto name = what.substr(0, what.find_first_of(": "));
    return name[0] == '-' ? name + " needs a value" : "--" + name + " takes no value";
  }
  return error.what();
}

}  // namespace

HelpFormatter::HelpFormatter() {
  label("OPTIONS", "OPTION...");
  label("SUBCOMMAND", "COMMAND");
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string text = "  " + make_option_name(option, is_positional);
  if (option->get_type_size() != 0 && !option->get_type_name().empty()) text += " " + option->get_type_name();
  std::string meaning = option->get_description();
  if (option->get_required()) meaning += " (required)";
  if (!option->get_default_str().empty()) meaning += " (default: " + option->get_default_str() + ")";
  return side_by_side(text, meaning);
}

std::string HelpFormatter::make_usage(const CLI::App* command, std::string name) const {
  return "\n" + CLI::Formatter::make_usage(command, name);
}

std::string HelpFormatter::make_description(const CLI::App* command) const {
  return wrapped(command->get_description(), 0);
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  auto about = command->get_description();
  return side_by_side("  " + command->get_name(), about.substr(0, about.find('\n')));
}

std::string describe(const CLI::ParseError& error, const CLI::App& program) {
  if (program.get_subcommands({}).empty())
    return concat(describe_command(error, program), "; see ", program.get_name(), " --help");
  auto given = program.get_subcommands();
  bool in_program = given.empty() || !program.remaining().empty();
  if (in_program) return concat(describe_program(program), "; see bigmac --help");
  return concat(describe_command(error, *given[0]), "; see bigmac ", given[0]->get_name(), " --help");
}

}  // namespace bigmac
