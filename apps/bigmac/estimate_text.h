#pragma once

#include <string>
#include <vector>

#include "bigmac/cost/count.h"
#include "bigmac/cost/layer_bytes.h"
#include "bigmac/cost/layer_time.h"

namespace bigmac {

// What is estimated of a model: on what, and how it is run.
struct Estimated {
  const cost::Model& model;
  cost::Sequences sequences;
  cost::Parallel parallel;
  cost::Training training;
  cost::Hardware hardware;
};

// What is counted of layers alike.
struct Counted {
  std::string name;
  int64_t layers = 0;
  cost::Parameters parameters;
  cost::Flops flops;
  cost::LayerBytes bytes;  // `working` is that of the largest layer
  cost::StateBytes state;
  cost::LayerTime time;

  void add(const Counted& other);
};

// A line for each kind of layer, in the order of their first, and one of all.
struct Counts {
  std::vector<Counted> kinds;
  Counted all;
};
Counts count(const Estimated& estimated);

std::string to_text(const Estimated& estimated, const Counts& counts);
std::string to_json(const Estimated& estimated, const Counts& counts);

}  // namespace bigmac
