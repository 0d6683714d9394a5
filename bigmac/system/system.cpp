#include "bigmac/system/system.h"

#include <algorithm>

#include "bigmac/common/error.h"

namespace bigmac {

std::vector<const LayerDeclaration*> BackboneDeclaration::all() const {
  std::vector<const LayerDeclaration*> list;
  if (embedding) list.push_back(&*embedding);
  for (const auto& layer : layers) list.push_back(&layer);
  if (head) list.push_back(&*head);
  return list;
}

void LayerDeclaration::run_on(torch::nn::Module& module, Items samples, Flow& flow,
                              std::vector<Values>& out) const {
  if (!uses) return run(module, samples, flow, out);
  Flow used;
  for (const auto& value : *uses)
    if (flow.has(value)) used.set(value, flow.group(value));
  run(module, samples, used, out);
  for (const auto& value : *uses)
    if (!used.has(value)) flow.erase(value);
  for (const auto& value : used.names()) {
    if (std::find(uses->begin(), uses->end(), value) == uses->end())
      throw InvalidInput(concat("[system] it sets '", value, "', which is not among what it says it uses"));
    flow.set(value, used.group(value));
  }
  for (const auto& [loss, sum] : used.losses()) flow.loss(loss, sum);
}

Backbone& Backbone::embedding_cost(double cost) {
  if (!declaration_.embedding) throw InvalidInput("[system] embedding_cost before embedding");
  declaration_.embedding->cost = cost;
  return *this;
}

Backbone& Backbone::head_cost(double cost) {
  if (!declaration_.head) throw InvalidInput("[system] head_cost before head");
  declaration_.head->cost = cost;
  return *this;
}

System& System::data(Ports ports) {
  data_.insert(data_.end(), ports.begin(), ports.end());
  return *this;
}

Backbone System::backbone(std::string name, Wiring wiring) {
  ++backbones_;
  backbone_ = std::make_shared<BackboneDeclaration>();
  backbone_->name = std::move(name);
  backbone_->consumes = std::move(wiring.consumes);
  backbone_->produces = std::move(wiring.produces);
  return Backbone(*backbone_);
}

System& System::loss(std::string name, std::function<double(const Values&)> count, double weight) {
  losses_.push_back({std::move(name), std::move(count), weight});
  return *this;
}

System& System::initialise(std::function<void(torch::nn::Module&, uint64_t, std::string_view)> function) {
  initialise_ = std::move(function);
  return *this;
}

std::vector<std::string> System::names() const {
  std::vector<std::string> names;
  for (const auto& module : modules_) names.push_back(module.name);
  if (backbone_) names.push_back(backbone_->name);
  return names;
}

}  // namespace bigmac
