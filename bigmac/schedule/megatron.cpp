#include "bigmac/schedule/megatron.h"

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/dependencies.h"

namespace bigmac {
namespace {

// One share for all items of a module and microbatch.
Shares shares_by_microbatch(const Step& step) {
  Shares shares;
  for (size_t n = 0; n < step.modules.size(); ++n) {
    const auto& module = step.modules[n];
    bool encodes = module.kind == Module::encoder;
    int32_t rank = rank_of_stage(step, encodes ? 0 : step.stages() - 1);
    for (uint32_t first = 0, last; first < module.items.size(); first = last) {
      uint32_t m = module.items[first].microbatch;
      auto unit = int32_t(m / step.unit_size(module.kind));
      shares.list.push_back({int32_t(n), unit, rank, uint32_t(shares.items.size()), 0});
      for (last = first; last < module.items.size() && module.items[last].microbatch == m; ++last)
        shares.items.push_back(last);
      shares.list.back().count = last - first;
    }
  }
  return shares;
}

}  // namespace

Schedule megatron_schedule(const Step& step) {
  Schedule base = base_table(step);
  Schedule out{.step = step,
               .operators = {},
               .row_begin = {0},
               .shares = shares_by_microbatch(step),
               .units = {},
               .overlapped = {}};
  Dependencies dependencies(out);
  for (int rank = 0; rank < step.ranks; ++rank) {
    for (const auto& op : base.row(rank)) {
      int64_t stage = dependencies.stage(rank, op.chunk);
      bool hands_back = gives_input_gradient(op.phase);
      if (op.phase == Phase::forward && stage == 0)
        for (int32_t share : dependencies.encoder_shares(op.index))
          out.operators.push_back(encoder_forward(share));
      if (hands_back && stage == dependencies.stages() - 1)
        for (int32_t share : dependencies.generator_shares(op.index))
          out.operators.push_back(generate(share));
      out.operators.push_back(op);
      if (hands_back && stage == 0)
        for (int32_t share : dependencies.encoder_shares(op.index))
          if (dependencies.has_backward(share)) out.operators.push_back(encoder_backward(share));
    }
    out.row_begin.push_back(int64_t(out.operators.size()));
  }
  return out;
}

}  // namespace bigmac
