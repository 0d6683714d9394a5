#pragma once

#include "bigmac/schedule/table.h"

namespace bigmac {

// The encoder inside the first stage and the generator inside the last, as Megatron Core puts a multimodal
// model's parts: the rank of stage 0 runs all items of a microbatch right before its forward there and their
// backward, unless they are a frozen encoder's, right behind its backward; the last stage's rank runs the
// generator right before its backward. Those ranks do all the work of these modules, so the stages should
// hold fewer layers (Costs, one a stage).
Schedule megatron_schedule(const Step& step);

}  // namespace bigmac
