#pragma once

#include <string>
#include <vector>

#include "bigmac/formats/torch_csv.h"
#include "bigmac/schedule/step.h"

namespace bigmac {

constexpr bool is_computation(TorchKind kind) {
  return kind == TorchKind::forward || kind == TorchKind::input_gradient ||
         kind == TorchKind::weight_gradient || kind == TorchKind::full_backward;
}

// The step of a torch table (torch_table.h), with M from its computation and, where `communication`, from its
// sends and receives too. `file` is named in errors.
Step step_of(const TorchTable& table, const std::string& file, bool communication);

}  // namespace bigmac
