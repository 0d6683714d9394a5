#pragma once

#include <optional>

#include "bigmac/analysis/causes.h"

namespace bigmac {

// A step with the faults found so far taken out.
struct Cleared {
  const Schedule& schedule;
  const Layout& layout;  // without stages where it is not known
  StepModel model;
  Kinds kinds;
  std::vector<uint8_t> placed{};  // by module: its work is taken to be spread
};

// Each looks for one fault, takes it out of the model and says what it was; what it costs is found by
// running the model before and behind that. None where there is no such fault.
using Finder = std::optional<Finding> (*)(Cleared&);

std::optional<Finding> clear_items(Cleared& step);
std::optional<Finding> clear_microbatches(Cleared& step);
std::optional<Finding> clear_operators(Cleared& step);
std::optional<Finding> clear_rank(Cleared& step);  // the slowest; call again for more
std::optional<Finding> clear_stages(Cleared& step);
std::optional<Finding> clear_placement(Cleared& step);
std::optional<Finding> clear_link(Cleared& step);  // the slowest; likewise
std::optional<Finding> clear_order(Cleared& step);
std::optional<Finding> clear_units(Cleared& step);
std::optional<Finding> clear_embeddings(Cleared& step);
std::optional<Finding> clear_generators(Cleared& step);
std::optional<Finding> clear_messages(Cleared& step);
std::optional<Finding> clear_exchanges(Cleared& step);
std::optional<Finding> clear_between(Cleared& step);

}  // namespace bigmac
