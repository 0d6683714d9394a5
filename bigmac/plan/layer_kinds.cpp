#include "bigmac/plan/layer_kinds.h"

#include <algorithm>

namespace bigmac {

// The first layer is a kind of its own: nothing lies before it.
LayerKinds::LayerKinds(const cost::Model& model) {
  for (const auto& layer : model.layers) {
    auto begin = kinds_.begin() + (kinds_.empty() ? 0 : 1);
    auto at = size_t(std::find(begin, kinds_.end(), layer) - kinds_.begin());
    if (at == kinds_.size()) {
      kinds_.push_back(layer);
      layers_.push_back(0);
    }
    kind_of_.push_back(at);
    ++layers_[at];
  }
}

}  // namespace bigmac
