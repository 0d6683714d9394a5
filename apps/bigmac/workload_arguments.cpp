#include "apps/bigmac/workload_arguments.h"

#include <algorithm>

#include "apps/bigmac/arguments.h"
#include "bigmac/common/names.h"
#include "bigmac/formats/units.h"
#include "bigmac/simulate/memory.h"
#include "bigmac/workload/read_workload.h"

namespace bigmac {
namespace {

// Calls take(part) for each part between commas.
template <class Take>
void for_each_part(const std::string& text, Take&& take) {
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    take(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

void add_counts(CLI::App& command, const std::string& option, std::vector<int64_t>& counts, const std::string& help) {
  auto take = [&counts, option](const std::string& text) {
    counts.clear();
    for_each_part(text, [&](const std::string& part) { counts.push_back(parse_count(option, part)); });
  };
  add_choice(command, option, "N,...", take, help);
}

template <class Value, class Parse>
void add_names(CLI::App& command, const std::string& option, std::vector<Value>& values, Parse parse,
               const std::string& help) {
  auto take = [&values, parse](const std::string& text) {
    values.clear();
    for_each_part(text, [&](const std::string& part) { values.push_back(parse(part)); });
  };
  add_choice(command, option, "NAME,...", take, help);
}

std::vector<cost::Recompute> parse_levels(const std::string& text) {
  std::vector<cost::Recompute> levels;
  for_each_part(text, [&](const std::string& part) { levels.push_back(cost::recompute_from_name(part)); });
  return levels;
}

// What names a module wins over what is for all.
void set_recompute(const std::vector<NamedText>& values, Workload& workload) {
  std::vector<WorkloadModule*> modules{&workload.backbone};
  std::vector<std::string> names{workload.backbone.name};
  for (auto& module : workload.modules) {
    modules.push_back(&module);
    names.push_back(module.name);
  }
  for (bool named : {false, true})
    for (const auto& value : values) {
      if (value.name.empty() == named) continue;
      if (named && std::find(names.begin(), names.end(), value.name) == names.end())
        throw InvalidInput("--recompute: " + unknown_name("module", value.name, names));
      for (auto* module : modules)
        if (!named || module->name == value.name) module->recompute = parse_levels(value.text);
    }
}

}  // namespace

void add_workload_options(CLI::App& command, WorkloadArguments& arguments) {
  command.add_option("WORKLOAD", arguments.file, "A workload's YAML (docs/workloads.md)")->required();
  add_whole(command, "--gpus", 1, [&](int64_t gpus) { arguments.gpus = gpus; }, "GPUs, in place of the workload's");
  add_choice(
      command, "--memory", "BYTES", [&](const std::string& text) { arguments.memory = bytes_from(text); },
      "What a GPU may hold, such as 80GiB, in place of the workload's");
  add_choice(
      command, "--hardware", "NAME", [&](const std::string& text) { arguments.hardware = text; },
      "H800, H100, H200 or A100, in place of the workload's");
  add_counts(command, "--samples-per-gpu", arguments.samples_per_gpu,
             "The batch: samples of a step over GPUs, in place of the workload's");
  add_names(command, "--schedule", arguments.search.arrangements, arrangement_from_name,
            "Only these: megatron, disttrain, three-phase, optimus, nested, nested-fill");
  add_names(command, "--base", arguments.search.bases, made_base_from_name,
            "Only these orders of the LLM: 1f1b, interleaved, zb-h1, zb-v, dualpipe-v, gpipe");
  add_counts(command, "--tp", arguments.search.tensor, "Only these sizes of tensor parallelism");
  add_counts(command, "--pp", arguments.search.pipeline, "Only these numbers of pipeline ranks");
  add_counts(command, "--vpp", arguments.search.chunks, "Only these numbers of chunks a rank");
  add_counts(command, "--ep", arguments.search.expert, "Only these sizes of expert parallelism");
  add_counts(command, "--microbatch", arguments.search.microbatch, "Only these numbers of samples a microbatch");
  add_named(
      command, "--recompute", "[NAME=]LEVEL,...", arguments.recompute,
      [](const std::string& text) { parse_levels(text); },
      "Only these levels of recompute (none, selective, full) of the module NAME, or of all");
  add_whole(command, "--threads", 1, [&](int64_t threads) { arguments.threads = threads; },
            "Threads to search with (default: as many as the machine has)");
}

Workload workload_of(const WorkloadArguments& arguments) {
  Workload workload = read_workload(arguments.file);
  if (arguments.hardware) {
    bool own_memory = workload.memory != workload.hardware.memory;
    workload.hardware = cost::hardware_from_name(*arguments.hardware);
    if (!own_memory) workload.memory = workload.hardware.memory;
  }
  if (arguments.memory) workload.memory = *arguments.memory;
  if (!(workload.memory > workload.reserved))
    throw InvalidInput(concat("--memory must be more than the ", bytes_text(workload.reserved),
                              " that the workload reserves, got ", bytes_text(workload.memory)));
  if (arguments.gpus) workload.gpus = *arguments.gpus;
  int64_t node = workload.hardware.gpus_per_node;
  if (workload.gpus > node && workload.gpus % node != 0)
    throw InvalidInput(concat("--gpus must be whole nodes of ", node, " GPUs, got ", workload.gpus, "; take ",
                              workload.gpus / node * node, " or ", (workload.gpus / node + 1) * node));
  for (const auto& module : workload.modules)
    if (workload.gpus % module.shard != 0)
      throw InvalidInput(concat("--gpus: '", module.name, "' is shared out over ", module.shard, " GPUs, which ",
                                workload.gpus, " do not divide by"));
  if (!arguments.samples_per_gpu.empty()) workload.samples_per_gpu = arguments.samples_per_gpu;
  auto replace = [](auto& list, const auto& given) {
    if (!given.empty()) list = given;
  };
  const Search& given = arguments.search;
  replace(workload.search.tensor, given.tensor);
  replace(workload.search.pipeline, given.pipeline);
  replace(workload.search.chunks, given.chunks);
  replace(workload.search.expert, given.expert);
  replace(workload.search.microbatch, given.microbatch);
  replace(workload.search.arrangements, given.arrangements);
  replace(workload.search.bases, given.bases);
  set_recompute(arguments.recompute, workload);
  return workload;
}

}  // namespace bigmac
