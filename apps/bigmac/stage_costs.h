#pragma once

#include <optional>

#include "apps/bigmac/step_arguments.h"
#include "bigmac/formats/layout.h"

namespace bigmac {

// The layout, where one is given. Throws InvalidInput where it does not fit --pp, --vpp or --layers.
std::optional<Layout> read_layout(const StepArguments& arguments);

// The LLM's costs by stage and the latency, from --backbone, --embedding, --head and --latency. Without a
// layout the embedding is in the first stage and the loss in the last. Throws InvalidInput where no stage
// takes any time.
Costs stage_costs(const StepArguments& arguments, const std::optional<Layout>& layout, int64_t stages);

}  // namespace bigmac
