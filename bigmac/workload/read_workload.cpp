#include "bigmac/workload/read_workload.h"

#include <algorithm>
#include <filesystem>

#include "bigmac/common/read_file.h"
#include "bigmac/workload/fields.h"
#include "bigmac/workload/read_cluster.h"
#include "bigmac/workload/read_module.h"
#include "bigmac/workload/read_search.h"

namespace bigmac {
namespace {

constexpr double kMostTokens = 1e9, kMostBytes = 64;

cost::Precision read_precision(YamlSection section) {
  cost::Precision precision;
  for (auto [key, value] : {std::pair{"parameter", &precision.parameter},
                            {"gradient", &precision.gradient},
                            {"optimizer", &precision.optimizer}}) {
    section.read(key, *value, bytes_from);
    check(section, key, *value > 0 && *value <= kMostBytes,
          concat("must be above 0 and at most ", kMostBytes), *value);
  }
  section.done();
  return precision;
}

void read_modules(YamlSection& root, const std::string& folder, Workload& workload) {
  std::vector<std::string> names{workload.backbone.name};
  for (auto [key, kind] : {std::pair{"encoders", Module::encoder}, {"generators", Module::generator}})
    for (const auto& section : root.sections(key)) {
      auto module = read_module(section, kind, folder);
      if (std::find(names.begin(), names.end(), module.name) != names.end())
        section.refuse("name",
                       concat(": another module is named '", module.name, "' too; names must differ"));
      check(section, "shard", workload.gpus % module.shard == 0,
            concat("must divide the ", workload.gpus, " GPUs"), module.shard);
      const auto& items = module.items;
      double given = (1 - items.empty) * items.mean * items.tokens / double(module.model.merge);
      if (kind == Module::encoder && given > workload.tokens)
        section.refuse("items", concat(": ", (1 - items.empty) * items.mean, " items of ", items.tokens,
                                       " tokens give the LLM ", given, " tokens a sample (",
                                       module.model.merge, " become one), which has only ", workload.tokens));
      names.push_back(module.name);
      workload.modules.push_back(std::move(module));
    }
  bool trains = !workload.backbone.frozen;
  for (const auto& module : workload.modules) trains |= !module.frozen;
  if (!trains) root.refuse("every module is frozen: there is nothing to train");
}

}  // namespace

Workload parse_workload(const std::string& yaml, const std::string& file) {
  YamlSection root(load_yaml(yaml, file), file, "");
  auto folder = std::filesystem::path(file).parent_path().string();
  Workload workload;
  workload.name = std::filesystem::path(file).stem().string();
  for (const char* key : {"tokens", "samples_per_gpu", "backbone", "cluster"}) root.need(key);
  root.read("name", workload.name);
  read_count(root, "tokens", workload.tokens, kMostTokens);
  root.read_list("samples_per_gpu", workload.samples_per_gpu, [](const std::string& text) {
    int64_t samples = count_from(text);
    if (samples < 1 || samples > 1 << 20) throw InvalidInput(concat("must be from 1 to 1M, got ", samples));
    return samples;
  });
  root.read("seed", workload.seed);
  root.read("shard_optimizer", workload.shard_optimizer);
  workload.precision = read_precision(root.section("precision"));
  auto backbone = root.section("backbone"), cluster = root.section("cluster"),
       search = root.section("search");
  for (const char* key : {"encoders", "generators"}) root.node(key);
  root.done();
  workload.backbone = read_module(backbone, Module::backbone, folder);
  read_cluster(cluster, workload);
  read_modules(root, folder, workload);
  workload.search = read_search(search, workload);
  return workload;
}

Workload read_workload(const std::string& path) {
  return parse_workload(read_file(path, kMostWorkloadBytes, "a workload's YAML"), path);
}

}  // namespace bigmac
