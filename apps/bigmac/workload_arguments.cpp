#include "apps/bigmac/workload_arguments.h"

#include <algorithm>

#include "bigmac/common/names.h"
#include "bigmac/formats/units.h"
#include "bigmac/simulate/memory.h"
#include "bigmac/workload/read_workload.h"

namespace bigmac {
namespace {

constexpr int64_t kMostThreads = 1024;
constexpr int64_t kMostSamples = int64_t{1} << 20;  // of a step

// What stands between the commas, each once.
template <class Value, class Parse>
std::vector<Value> parse_list(const std::string& option, const std::string& text, Parse parse) {
  std::vector<Value> values;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    auto part = text.substr(begin, end - begin);
    auto value = parse(part);
    if (std::find(values.begin(), values.end(), value) != values.end())
      throw InvalidInput(concat(option, " has '", part, "' twice"));
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

CLI::Option* add_counts(CLI::App& command, const std::string& option, std::vector<int64_t>& counts,
                        const std::string& help) {
  auto take = [&counts, option](const std::string& text) {
    counts =
        parse_list<int64_t>(option, text, [&](const std::string& part) { return parse_count(option, part); });
  };
  return command.add_option_function<std::string>(option, take, help)->type_name("N,...");
}

template <class Value, class Parse>
CLI::Option* add_names(CLI::App& command, const std::string& option, std::vector<Value>& values, Parse parse,
                       const std::string& help) {
  auto parse_named = [parse, option](const std::string& part) {
    try {
      return parse(part);
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat(option, ": ", error.what()));
    }
  };
  auto take = [&values, parse_named, option](const std::string& text) {
    values = parse_list<Value>(option, text, parse_named);
  };
  return command.add_option_function<std::string>(option, take, help)->type_name("NAME,...");
}

std::vector<cost::Recompute> parse_levels(const std::string& text) {
  auto parse = [](const std::string& part) {
    try {
      return cost::recompute_from_name(part);
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat("--recompute: ", error.what()));
    }
  };
  return parse_list<cost::Recompute>("--recompute", text, parse);
}

void take_recompute(const std::vector<NamedText>& given, Workload& workload) {
  std::vector<WorkloadModule*> modules{&workload.backbone};
  for (auto& module : workload.modules) modules.push_back(&module);
  std::vector<std::string> names;
  names.reserve(modules.size());
  for (const auto* module : modules) names.push_back(module->name);
  for (const auto& [name, text] : given) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      throw InvalidInput(concat("--recompute: ", unknown_name("module", name, names)));
    for (auto* module : modules)
      if (name.empty() || module->name == name) module->recompute = parse_levels(text);
  }
}

void check_gpus(const Workload& workload) {
  int64_t node = workload.hardware.gpus_per_node;
  if (workload.gpus > node && workload.gpus % node != 0)
    throw InvalidInput(concat("--gpus must be whole nodes of ", node, " GPUs, got ", workload.gpus, "; take ",
                              workload.gpus / node * node, " or ", (workload.gpus / node + 1) * node));
  for (const auto& module : workload.modules)
    if (workload.gpus % module.shard != 0)
      throw InvalidInput(concat("--gpus: '", module.name, "' is shared out over ", module.shard,
                                " GPUs, which ", workload.gpus, " do not divide by"));
}

void check_batches(const Workload& workload) {
  for (int64_t samples : workload.samples_per_gpu)
    if (samples > kMostSamples / workload.gpus)
      throw InvalidInput(concat(samples, " samples a GPU on ", workload.gpus, " GPUs are more than ",
                                kMostSamples, " in a step; take ",
                                std::max<int64_t>(kMostSamples / workload.gpus, 1), " or fewer"));
}

}  // namespace

void add_workload_options(CLI::App& command, WorkloadArguments& arguments, const std::string& systems,
                          const std::string& bases) {
  command
      .add_option("WORKLOAD", arguments.file, "A workload's YAML: models, data, cluster (docs/workloads.md)")
      ->required()
      ->type_name("FILE");
  constexpr const char* kOwn = "the workload's";
  auto own_or = [](const std::string& others) { return "the workload's, else " + others; };
  add_whole(
      command, "--gpus", 1, [&](int64_t gpus) { arguments.gpus = gpus; },
      "GPUs: a node's or fewer, or whole nodes")
      ->default_str(kOwn);
  add_choice(
      command, "--memory", "BYTES", [&](const std::string& text) { arguments.memory = bytes_from(text); },
      "What a GPU may hold, such as 80GiB or 141GB")
      ->default_str(kOwn);
  add_choice(
      command, "--hardware", "H800|H100|H200|A100",
      [&](const std::string& text) { arguments.hardware = cost::hardware_from_name(text); },
      "The GPUs and their links, and their memory unless the workload or --memory gives another")
      ->default_str(kOwn);
  add_names(command, "--schedule", arguments.search.arrangements, arrangement_from_name,
            "Only these systems: megatron, disttrain, three-phase, optimus, nested, nested-fill")
      ->default_str(own_or(systems));
  add_names(command, "--base", arguments.search.bases, made_base_from_name,
            "Only these orders of the LLM: 1f1b, interleaved, zb-h1, zb-v, dualpipe-v, gpipe")
      ->default_str(own_or(bases));
  add_counts(command, "--tp", arguments.search.tensor, "Only these sizes of tensor parallelism")
      ->default_str(own_or("1,2,4,... to a node"));
  add_counts(command, "--pp", arguments.search.pipeline, "Only these P, pipeline ranks")
      ->default_str(own_or("what divides the GPUs, to 64 with 2 layers a rank"));
  add_counts(command, "--vpp", arguments.search.chunks,
             "Only these V, chunks (virtual pipeline stages) on each rank")
      ->default_str(own_or("1,2,3,4,6,8"));
  add_counts(command, "--ep", arguments.search.expert, "Only these sizes of expert parallelism")
      ->default_str(own_or("1,2,4,... to the experts"));
  add_counts(command, "--microbatch", arguments.search.microbatch,
             "Only these numbers of samples a microbatch")
      ->default_str(own_or("1,2,4"));
  add_counts(command, "--warmup-units", arguments.search.warmup_units,
             "Only these W, units that a nested encoder runs ahead of its backward")
      ->default_str(own_or("all that make sense"));
  add_named(
      command, "--recompute", "[NAME=]LEVEL,...", arguments.recompute,
      [](const std::string& text) { parse_levels(text); },
      "Only these levels, none, selective or full, for the module NAME or for all of them")
      ->default_str(own_or("all that make sense"));
  add_whole(
      command, "--threads", 1,
      [&](int64_t threads) {
        if (threads > kMostThreads)
          throw must_be("--threads", concat("a whole number from 1 to ", kMostThreads),
                        std::to_string(threads));
        arguments.threads = threads;
      },
      "Threads to search with; the result is the same")
      ->default_str("as many as the machine has");
}

void add_batch_option(CLI::App& command, WorkloadArguments& arguments, const std::string& type,
                      const std::string& help, const std::string& fallback) {
  add_counts(command, "--samples-per-gpu", arguments.samples_per_gpu, help)
      ->type_name(type)
      ->default_str(fallback);
}

Workload workload_of(const WorkloadArguments& arguments) {
  Workload workload = read_workload(arguments.file);
  if (arguments.hardware) {
    bool own_memory = workload.memory != workload.hardware.memory;
    workload.hardware = *arguments.hardware;
    if (!own_memory) workload.memory = workload.hardware.memory;
  }
  if (arguments.memory) workload.memory = *arguments.memory;
  if (!(workload.memory > workload.reserved))
    throw InvalidInput(concat("--memory must be more than the ", bytes_text(workload.reserved),
                              " that the workload reserves, got ", bytes_text(workload.memory)));
  if (arguments.gpus) workload.gpus = *arguments.gpus;
  check_gpus(workload);
  if (!arguments.samples_per_gpu.empty()) workload.samples_per_gpu = arguments.samples_per_gpu;
  check_batches(workload);
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
  replace(workload.search.warmup_units, given.warmup_units);
  take_recompute(arguments.recompute, workload);
  return workload;
}

}  // namespace bigmac
