#pragma once

#include <vector>

#include "bigmac/cost/model.h"

namespace bigmac {

// A model's layers that differ, and which of them each layer is: what is counted for one holds for all alike.
class LayerKinds {
 public:
  explicit LayerKinds(const cost::Model& model);

  // By layer, what `count(layer, is_first)` says of its kind.
  template <class Count>
  auto by_layer(Count&& count) const {
    std::vector<decltype(count(kinds_[0], true))> of_kind, out;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) of_kind.push_back(count(kinds_[kind], kind == 0));
    for (size_t kind : kind_of_) out.push_back(of_kind[kind]);
    return out;
  }

  // The same added up over all layers.
  template <class Count>
  auto sum(Count&& count) const {
    decltype(count(kinds_[0], true)) total{};
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      auto one = count(kinds_[kind], kind == 0);
      for (size_t n = 0; n < layers_[kind]; ++n) total += one;
    }
    return total;
  }

 private:
  std::vector<cost::Layer> kinds_;
  std::vector<size_t> kind_of_, layers_;  // by layer; by kind: how many
};

}  // namespace bigmac
