#pragma once

#include <vector>

#include "bigmac/formats/layout.h"
#include "bigmac/schedule/costs.h"

namespace bigmac {

// A split of the same layers that is even by time.
struct LayerSplit {
  Layout layout;
  std::vector<double> scale;  // by stage, what it takes then / what it took
};

// `times` are what the stages of `layout` took on a microbatch. A stage's layers take alike; what the first
// and the last take more than such layers elsewhere (the median stage's) is the embedding's and the head's
// and stays there, as MTP layers do. Every stage keeps a layer, as far as there are that many. Layers go one
// by one to the stage that takes least with one more, ties to the later.
LayerSplit balanced_split(const Layout& layout, const std::vector<double>& times);

// Times of one layer by stage; 0 where a stage holds none. Those of the first and the last stage hold what
// the embedding and the head take.
std::vector<double> layer_times(const Layout& layout, const std::vector<double>& times);

// Costs of the backbone where every stage takes what the mean stage takes; of stages cut into equal parts.
Costs evened(Costs costs);
Costs cut_in_parts(Costs costs, int64_t parts);

}  // namespace bigmac
