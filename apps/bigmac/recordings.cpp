#include "apps/bigmac/recordings.h"

#include <filesystem>
#include <fstream>

#include "apps/bigmac/reading.h"
#include "bigmac/command/console.h"
#include "bigmac/formats/read_table.h"
#include "bigmac/measured/recorded.h"
#include "bigmac/schedule/check.h"
#include "bigmac/simulate/simulate.h"

namespace bigmac {
namespace {

// The first bytes of a file; none of what cannot be opened, which its reader then says.
std::string beginning_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(4096, '\0');
  file.read(begin.data(), std::streamsize(begin.size()));
  begin.resize(size_t(file.gcount()));
  return begin;
}

bool is_table(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  auto begin = beginning_of(path);
  std::string_view text = begin;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  auto at = text.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos) return false;
  char first = text[at];
  if (first == '{') return text.find("\"bigmac_table\"") != std::string_view::npos;
  return first == '#' || first == '(' || first == ',' || first == '"' || (first >= '0' && first <= '9') ||
         text.starts_with("rank,");
}

std::string named(const std::string& name, const std::string& path) {
  if (!name.empty()) return name;
  auto file = std::filesystem::path(path).filename().string();
  return file.empty() ? path : file;
}

Recording from_table(const std::string& path, const std::string& name, const RecordingOptions& options) {
  Recording recording;
  recording.name = concat(named(name, path), ", simulated");
  recording.schedule = read_table(path).schedule;
  if (auto problems = check(recording.schedule); !problems.empty())
    throw InvalidInput(concat("'", path, "' holds no table that runs: ", problems.front(),
                              problems.size() > 1 ? "; bigmac check has the rest" : ""));
  auto costs = costs_of(recording.schedule.step, options);
  recording.timeline = simulate(recording.schedule, costs);
  recording.notes.emplace_back("simulated, messages taking no more than their latency");
  return recording;
}

Recording from_measurement(const std::string& path, const std::string& name,
                           const RecordingOptions& options) {
  auto iteration = options.iteration ? std::optional(std::to_string(*options.iteration)) : std::nullopt;
  auto recording = recorded_step({path}, with_progress(options.read), iteration);
  auto step = recording.name.rfind(", step ");
  recording.name = named(name, path) + (step == std::string::npos ? "" : recording.name.substr(step));
  return recording;
}

}  // namespace

void add_recording_options(CLI::App& command, RecordingOptions& options) {
  add_whole(
      command, "--step,--iteration", 0, [&options](int64_t number) { options.iteration = number; },
      "Of measured steps, this one")
      ->default_str("the one of median length");
  add_reading_options(command, options.read);
  add_work(command, "--backbone", options.backbone,
           "Of tables: times of one chunk of the LLM on one microbatch")
      ->default_str("1,2");
  add_two_times(command, "--encoder", options.encoder,
                "Of tables: times of the encoders on an item of size 1")
      ->default_str("0.5,1");
  add_two_times(command, "--generator", options.generator, "Of tables: times of the generators, likewise")
      ->default_str("1,2");
  add_time(command, "--latency", options.latency, "Of tables: time of a message between two ranks")
      ->default_str("0");
}

Costs costs_of(const Step& step, const RecordingOptions& options) {
  const auto& [forward, backward, weight] = options.backbone;
  Costs costs{.forward = {forward}, .backward = {backward}, .latency = options.latency};
  if (weight) costs.weight = {*weight};
  for (const auto& module : step.modules) {
    const auto& times = module.kind == Module::encoder ? options.encoder : options.generator;
    costs.modules.push_back({times.forward, times.backward});
  }
  return costs;
}

Recording read_recording(const std::string& path, const std::string& name, const RecordingOptions& options) {
  return is_table(path) ? from_table(path, name, options) : from_measurement(path, name, options);
}

void print_notes_of_damage(const Recording& recording) {
  if (recording.missing.empty()) return;
  for (const auto& note : recording.notes) print_note(note);
}

}  // namespace bigmac
