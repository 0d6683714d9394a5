#include "bigmac/workload/read_module.h"

#include <cmath>
#include <filesystem>

#include "bigmac/cost/read_model.h"
#include "bigmac/formats/units.h"
#include "bigmac/workload/fields.h"

namespace bigmac {
namespace {

constexpr double kMostItems = 4096, kMostTokens = 1e9, kMostSigma = 4;

const char* family_text(cost::Family family) {
  switch (family) {
    case cost::Family::decoder:
      return "an LLM";
    case cost::Family::vision:
      return "a vision encoder";
    case cost::Family::diffusion:
      return "a diffusion model";
    case cost::Family::audio:
      return "an audio encoder";
  }
  return "";
}

void check_family(const YamlSection& section, Module kind, cost::Family family) {
  using cost::Family;
  bool fits = kind == Module::backbone    ? family == Family::decoder
              : kind == Module::generator ? family == Family::diffusion
                                          : family == Family::vision || family == Family::audio;
  if (fits) return;
  section.refuse("model",
                 concat(" is ", family_text(family), "; right would be ",
                        kind == Module::backbone    ? "an LLM"
                        : kind == Module::generator ? "a diffusion model"
                                                    : "a vision or audio encoder (of a configuration that "
                                                      "holds an LLM too: part: vision, or audio)"));
}

// A path, or the configuration's own fields.
cost::Model read_its_model(YamlSection& section, const std::string& folder) {
  auto part = cost::Tower::whole;
  section.read("part", part, cost::tower_from_name);
  auto node = section.need("model").node("model");
  if (!section.has("model")) return {};
  if (node.IsSequence()) section.refuse("model", " must be a path or a mapping of a configuration's fields");
  try {
    if (node.IsScalar()) return cost::read_model_file(std::filesystem::path(folder) / node.Scalar(), part);
    // The dashes make it YAML, whatever style it was written in.
    return cost::read_model("---\n" + YAML::Dump(node), section.name() + ".model", part);
  } catch (const InvalidInput& error) {
    throw InvalidInput(section.where(node) + error.what());
  }
}

cost::Efficiency read_efficiency(YamlSection section) {
  cost::Efficiency efficiency;
  for (auto [key, value] : {std::pair{"linear", &efficiency.linear},
                            {"experts", &efficiency.experts},
                            {"attention", &efficiency.attention},
                            {"memory", &efficiency.memory},
                            {"links", &efficiency.links}}) {
    section.read(key, *value);
    check(section, key, *value > 0 && *value <= 1, "must be above 0 and at most 1", *value);
  }
  section.done();
  return efficiency;
}

ItemDistribution read_items(YamlSection section) {
  ItemDistribution items;
  section.read("mean", items.mean);
  check(section, "mean", items.mean >= 1 && items.mean <= kMostItems,
        concat("must be from 1 to ", kMostItems, " (samples without any are counted in `empty`)"),
        items.mean);
  section.read("fixed", items.fixed);
  check(section, "mean", !items.fixed || items.mean == std::floor(items.mean),
        "must be whole where every sample has that many (fixed: true)", items.mean);
  section.read("empty", items.empty);
  check(section, "empty", items.empty >= 0 && items.empty < 1, "must be at least 0 and below 1", items.empty);
  section.need("tokens");
  read_count(section, "tokens", items.tokens, kMostTokens);
  section.read("sigma", items.sigma);
  check(section, "sigma", items.sigma >= 0 && items.sigma <= kMostSigma,
        concat("must be from 0 to ", kMostSigma), items.sigma);
  read_count(section, "least", items.least, kMostTokens);
  read_count(section, "most", items.most, kMostTokens);
  section.done();
  check(section, "least", items.least <= items.tokens, concat("must be at most the mean of ", items.tokens),
        items.least);
  check(section, "most", items.most >= items.tokens, concat("must be at least the mean of ", items.tokens),
        items.most);
  return items;
}

}  // namespace

WorkloadModule read_module(YamlSection section, Module kind, const std::string& folder) {
  WorkloadModule module;
  module.kind = kind;
  module.name = kind == Module::backbone ? "backbone" : "";
  if (kind != Module::backbone) section.need("name");
  section.read("name", module.name);
  module.model = read_its_model(section, folder);
  module.efficiency = read_efficiency(section.section("efficiency"));
  section.read("frozen", module.frozen);
  section.read_list("recompute", module.recompute, cost::recompute_from_name);
  section.read("expert_imbalance", module.expert_imbalance);
  check(section, "expert_imbalance", module.expert_imbalance >= 1 && module.expert_imbalance <= 1e6,
        "must be at least 1 (the busiest rank's rows over the mean)", module.expert_imbalance);
  if (kind != Module::backbone) {
    section.need("items");
    if (section.has("items")) module.items = read_items(section.section("items"));
    section.read("shard", module.shard, count_from);
    check(section, "shard", module.shard >= 1, "must be at least 1", module.shard);
  }
  if (kind == Module::generator) {
    section.need("text");
    read_count(section, "text", module.text, kMostTokens);
  }
  section.done();
  check_family(section, kind, module.model.family);
  if (module.name.empty()) section.refuse("name", " must not be empty");
  return module;
}

}  // namespace bigmac
