#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/system/system.h"

namespace bigmac {
namespace {

// A module as far as its wiring goes.
struct Node {
  std::string name;
  Module kind = Module::backbone;
  const Ports* consumes;
  const Ports* produces;
};

std::string title(const Node& node) {
  return concat(name(node.kind), " '", node.name, "'");
}

struct Source {
  std::string title;  // "the data", "encoder 'vision'"
  int node = -1;      // -1: the data
  const Port* port = nullptr;
};

class Wires {
 public:
  Wires(const Ports& data, std::vector<Node> nodes) : nodes_(std::move(nodes)) {
    for (const auto& port : data) add({"the data", -1, &port});
    for (size_t n = 0; n < nodes_.size(); ++n)
      for (const auto& port : *nodes_[n].produces) add({title(nodes_[n]), int(n), &port});
  }

  void check() {
    for (const auto& node : nodes_) check_names(node);
    check_cycles();
    for (const auto& node : nodes_) check_kinds(node);
    check_all_used();
  }

 private:
  void add(Source source) {
    const auto& name = source.port->name;
    if (name.empty() || name.find_first_of("\t\n") != std::string::npos)
      throw InvalidInput(
          concat("[system] ", source.title, ": '", name,
                 "' is no name for a value; it must not be empty or hold a tab or a line end"));
    auto [place, added] = sources_.emplace(name, source);
    if (!added)
      throw InvalidInput(concat("[system] '", name, "' is produced twice, by ", place->second.title, " and ",
                                place->second.node == source.node ? "again" : "by ",
                                place->second.node == source.node ? "" : source.title));
  }

  std::vector<std::string> known() const {
    std::vector<std::string> names;
    for (const auto& [name, source] : sources_) names.push_back(name);
    return names;
  }

  void check_names(const Node& node) {
    std::set<std::string> seen;
    for (const auto& port : *node.consumes) {
      if (!seen.insert(port.name).second)
        throw InvalidInput(concat("[system] ", title(node), " consumes '", port.name, "' twice"));
      auto found = sources_.find(port.name);
      if (found == sources_.end())
        throw InvalidInput(concat("[system] ", title(node), " consumes '", port.name,
                                  "', which nothing produces: ", unknown_name("value", port.name, known())));
      if (!fit(*found->second.port, port))
        throw InvalidInput(concat("[system] '", port.name, "' does not fit: ", found->second.title,
                                  " produces it ", describe(*found->second.port), ", ", title(node),
                                  " consumes it ", describe(port)));
    }
  }

  void check_cycles() {
    std::vector<int> state(nodes_.size(), 0), path;
    for (size_t n = 0; n < nodes_.size(); ++n) visit(int(n), state, path);
  }

  void visit(int n, std::vector<int>& state, std::vector<int>& path) {
    if (state[size_t(n)] == 2) return;
    path.push_back(n);
    if (state[size_t(n)] == 1) {
      auto from = std::find(path.begin(), path.end(), n);
      std::string text = title(nodes_[size_t(n)]);
      for (auto at = from + 1; at != path.end(); ++at)
        text += concat(at == from + 1 ? "" : ", which", " takes from ", title(nodes_[size_t(*at)]));
      throw InvalidInput(
          concat("[system] a cycle: ", text, "; values go from encoders to the backbone to generators"));
    }
    state[size_t(n)] = 1;
    for (const auto& port : *nodes_[size_t(n)].consumes)
      if (int from = sources_.at(port.name).node; from >= 0) visit(from, state, path);
    state[size_t(n)] = 2;
    path.pop_back();
  }

  void check_kinds(const Node& node) {
    if (node.kind == Module::generator && !node.produces->empty())
      throw InvalidInput(concat("[system] ", title(node), " produces '", node.produces->front().name,
                                "'; a generator gives its loss alone"));
    bool takes_data = false;
    for (const auto& port : *node.consumes) {
      const auto& source = sources_.at(port.name);
      takes_data |= source.node < 0;
      if (source.node < 0) continue;
      auto from = nodes_[size_t(source.node)].kind;
      if (node.kind == Module::encoder)
        throw InvalidInput(concat("[system] ", title(node), " consumes '", port.name, "' of ", source.title,
                                  from == Module::encoder ? "; an encoder takes data alone: make them one"
                                                          : "; that is what generators do"));
      if (node.kind == Module::generator && from == Module::encoder)
        throw InvalidInput(concat("[system] ", title(node), " consumes '", port.name, "' of ", source.title,
                                  "; a generator takes data and what the backbone produces: hand it through "
                                  "the backbone"));
    }
    if (node.kind != Module::backbone && !takes_data)
      throw InvalidInput(concat("[system] ", title(node),
                                " consumes no data, so that nothing says how many items a sample has"));
    if (node.kind == Module::encoder && node.produces->empty())
      throw InvalidInput(concat("[system] ", title(node), " produces nothing"));
  }

  void check_all_used() {
    std::set<std::string> consumed;
    for (const auto& node : nodes_)
      for (const auto& port : *node.consumes) consumed.insert(port.name);
    std::vector<std::string> names(consumed.begin(), consumed.end());
    for (const auto& [name, source] : sources_)
      if (source.node >= 0 && !consumed.contains(name))
        throw InvalidInput(
            concat("[system] ", source.title, " produces '", name,
                   "', which nothing consumes: ", unknown_name("consumed value", name, names)));
  }

  std::vector<Node> nodes_;
  std::map<std::string, Source> sources_;
};

void check_backbone(const BackboneDeclaration& backbone) {
  auto require = [&](bool there, const char* part) {
    if (!there) throw InvalidInput(concat("[system] backbone '", backbone.name, "' has no ", part));
  };
  require(backbone.embedding.has_value(), "embedding");
  require(!backbone.layers.empty(), "layers");
  require(backbone.head.has_value(), "head");
  std::vector<std::string> parts;
  for (const auto* layer : backbone.all()) {
    parts.push_back(layer->name);
    if (!(layer->cost >= 0) || !std::isfinite(layer->cost))
      throw InvalidInput(concat("[system] ", backbone.name, ".", layer->name, " costs ", layer->cost,
                                ", expected a finite number from 0"));
  }
  for (const auto& tie : backbone.ties)
    for (const auto& parameter : {tie.parameter, tie.to})
      if (std::none_of(parts.begin(), parts.end(),
                       [&](const auto& part) { return parameter.starts_with(part + "."); }))
        throw InvalidInput(concat("[system] tie: '", parameter, "' of backbone '", backbone.name,
                                  "' is in no part of it; parameters are called embedding.*, layers.0.* to "
                                  "layers.",
                                  backbone.layers.size() - 1, ".* and head.*"));
}

}  // namespace

void System::check() const {
  if (backbones_ != 1) throw InvalidInput(concat("[system] has ", backbones_, " backbones, expected one"));
  check_backbone(*backbone_);
  std::vector<Node> nodes;
  for (const auto& module : modules_)
    nodes.push_back({module.name, module.kind, &module.consumes, &module.produces});
  nodes.push_back({backbone_->name, Module::backbone, &backbone_->consumes, &backbone_->produces});
  std::set<std::string> names;
  for (const auto& node : nodes) {
    if (node.name.empty() || node.name.find_first_of(".\t\n*?") != std::string::npos)
      throw InvalidInput(concat("[system] '", node.name,
                                "' is no name for a module; it must not be empty or "
                                "hold a dot, a tab, a line end, * or ?"));
    if (!names.insert(node.name).second)
      throw InvalidInput(concat("[system] two modules are called '", node.name, "'"));
  }
  Wires(data_, nodes).check();
  std::vector<std::string> losses;
  for (const auto& loss : losses_) {
    if (std::find(losses.begin(), losses.end(), loss.name) != losses.end())
      throw InvalidInput(concat("[system] loss '", loss.name, "' is declared twice"));
    if (!loss.count)
      throw InvalidInput(concat("[system] loss '", loss.name, "' does not say what it is counted by"));
    if (!std::isfinite(loss.weight))
      throw InvalidInput(
          concat("[system] loss '", loss.name, "' has weight ", loss.weight, ", expected a finite number"));
    losses.push_back(loss.name);
  }
  if (losses.empty())
    throw InvalidInput("[system] has no loss; declare what the backbone or a generator gives");
  for (const auto& module : modules_)
    if (module.kind == Module::generator &&
        std::find(losses.begin(), losses.end(), module.name) == losses.end())
      throw InvalidInput(concat("[system] the loss of generator '", module.name,
                                "' is not declared: ", unknown_name("loss", module.name, losses)));
}

}  // namespace bigmac
