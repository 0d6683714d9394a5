#pragma once

#include <string>

#include "bigmac/train/options.h"
#include "bigmac/train/yaml_fields.h"

namespace bigmac::train {

// The keys of TrainOptions in a YAML file:
//
//   parallel: {pp, vpp, dp, microbatches, schedule, base, warmup_units, generator_unit, order, split, layout,
//   measured_split,
//              gather, ranks_as, threads_per_rank}
//   modules: {NAME: {shard, recompute}}
//   freeze, train: [patterns of parameters' names]
//   optimizer: {learning_rate, warmup_steps, final_learning_rate, weight_decay, beta1, beta2, eps, clip_norm}
//   checkpoints: {folder, every, keep, resume}
//   profile: {folder, every, keep, memory}
//   steps, seed, device, dtype
//
// File: YamlReader or YamlWriter.
template <class File>
void describe(File& file, TrainOptions& options);

// Reads a file of these keys alone; what is left out keeps its value in `defaults`. Errors are InvalidInput
// with file:line:column and the nearest known key.
TrainOptions read_options(const std::string& file, const TrainOptions& defaults = {});
TrainOptions parse_options(const std::string& yaml, const std::string& file,
                           const TrainOptions& defaults = {});
std::string to_yaml(const TrainOptions& options);

struct ModuleKeys {
  Sharding shard = Sharding::replicated;
  bool recompute = false;
};

template <class File>
void describe(File& file, TrainOptions& o) {
  file.section("parallel", [&](auto& s) {
    s.field("pp", o.pp);
    s.field("vpp", o.vpp);
    s.field("dp", o.dp);
    s.field("microbatches", o.microbatches);
    s.named("schedule", o.schedule, arrangement_from_name, [](Arrangement a) { return bigmac::name(a); });
    s.named("base", o.base, made_base_from_name, [](Base b) { return bigmac::name(b); });
    s.field("warmup_units", o.warmup_units);
    s.field("generator_unit", o.generator_unit);
    s.named("order", o.order, order_from_name, [](Order order) { return name(order); });
    s.list("split", o.cut.split);
    if (std::is_same_v<File, YamlReader> || !o.cut.layout.empty()) s.field("layout", o.cut.layout);
    s.field("measured_split", o.measured_split);
    s.named("gather", o.gather, gather_from_name, [](Gather gather) { return name(gather); });
    s.named("ranks_as", o.ranks_as, ranks_as_from_name, [](RanksAs ranks) { return name(ranks); });
    s.field("threads_per_rank", o.threads_per_rank);
  });
  std::map<std::string, ModuleKeys> modules;
  for (const auto& [module, sharding] : o.shard) modules[module].shard = sharding;
  for (const auto& module : o.recompute) modules[module].recompute = true;
  file.mapping("modules", modules, [](auto& s, ModuleKeys& keys) {
    s.named("shard", keys.shard, sharding_from_name, [](Sharding sharding) { return name(sharding); });
    s.field("recompute", keys.recompute);
  });
  o.shard.clear();
  o.recompute.clear();
  for (const auto& [module, keys] : modules) {
    o.shard[module] = keys.shard;
    if (keys.recompute) o.recompute.push_back(module);
  }
  file.list("freeze", o.trained.freeze);
  file.list("train", o.trained.train);
  file.section("optimizer", [&](auto& s) {
    s.field("learning_rate", o.optimizer.learning_rate);
    s.field("warmup_steps", o.optimizer.warmup_steps);
    s.field("final_learning_rate", o.optimizer.final_learning_rate);
    s.field("weight_decay", o.optimizer.weight_decay);
    s.field("beta1", o.optimizer.beta1);
    s.field("beta2", o.optimizer.beta2);
    s.field("eps", o.optimizer.eps);
    s.field("clip_norm", o.optimizer.clip_norm);
  });
  file.section("checkpoints", [&](auto& s) {
    if (std::is_same_v<File, YamlReader> || !o.checkpoints.empty()) s.field("folder", o.checkpoints);
    s.field("every", o.checkpoint_every);
    s.field("keep", o.keep_checkpoints);
    s.field("resume", o.resume);
  });
  file.section("profile", [&](auto& s) {
    if (std::is_same_v<File, YamlReader> || !o.profile.folder.empty()) s.field("folder", o.profile.folder);
    s.field("every", o.profile.every);
    s.field("keep", o.profile.keep);
    s.field("memory", o.profile.memory);
  });
  file.field("steps", o.steps);
  file.field("seed", o.seed);
  file.field("device", o.device);
  file.field("dtype", o.dtype);
}

}  // namespace bigmac::train
