#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "bigmac/schedule/operator.h"

namespace bigmac {

// What the name of an event in a trace says of a backbone operator; -1 for what it does not say.
struct OperatorName {
  Phase phase = Phase::forward;
  int64_t stage = -1;  // of the whole pipeline
  int64_t chunk = -1;  // of its rank
  int64_t microbatch = -1;

  bool operator==(const OperatorName&) const = default;
};

// Understands, upper or lower case:
//
//   F0.3  B0.3  I0.3  W0.3                 bigmac: chunk.microbatch
//   PP:2F3  2F3  2B3  2I3  2W3             torch.distributed.pipelining's runtime: stage, action, microbatch
//   Forward 3  Backward 3  B 3  fwd_mb3    its plain schedules, and what people write: a phase (f, fwd,
//   bwd step chunk 1 microbatch 3          forward, b, bwd, backward, i, dgrad, w, wgrad), then any of step,
//                                          compute, pass, and the number of the microbatch (mb), of the
//                                          chunk and of the stage
//   forward-compute  backward_step         Megatron's timers and functions, which do not say which
//   .../pipeline_parallel/schedules.py(197): forward_step        the same, as torch.profiler's with_stack
//                                          writes it
std::optional<OperatorName> parse_operator_name(std::string_view name);

// For errors: the names above in a line.
inline constexpr std::string_view kOperatorNames =
    "F0.3 (chunk.microbatch), PP:2F3 (stage, action, microbatch), 'Forward 3', 'Backward 3', 'fwd mb 3', "
    "forward-compute, backward-compute, forward_step, backward_step";

}  // namespace bigmac
