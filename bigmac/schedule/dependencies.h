#pragma once

#include "bigmac/schedule/step.h"

namespace bigmac {

// Whose output or activations an operator needs, besides the operators before it in its row.
//
//   F(s, m)  needs F(s-1, m), or on stage 0 the encoder's F(m) where m has encoder input
//   B(s, m)  needs F(s, m) and B(s+1, m), or on the last stage G(m) where m has a generator target
//   encoder F(m) needs nothing; encoder B(m) needs encoder F(m) and B(0, m)
//   G(m)     needs F(last stage, m)
//
// Calls visit(id, rank) for each. This is the only definition of a dependency: the checker, the simulator
// and the plan of messages all ask it.
template <class Visit>
void for_each_predecessor(const Step& step, const Ids& ids, int rank, const Operator& op, Visit&& visit) {
  int64_t m = op.microbatch;
  if (op.module == Module::backbone) {
    int64_t s = ids.stage(rank, op);
    if (op.phase == Phase::forward) {
      if (s > 0)
        visit(ids.forward_of(s - 1, m), rank > 0 ? rank - 1 : int(step.ranks) - 1);
      else if (step.arrangement != Arrangement::llm_only && step.has_encoder() && step.encoder[m])
        visit(ids.encoder_forward_of(m), unit_rank(step, m));
    } else {
      visit(ids.forward_of(s, m), rank);
      if (s + 1 < ids.stages)
        visit(ids.backward_of(s + 1, m), rank + 1 < step.ranks ? rank + 1 : 0);
      else if (step.arrangement != Arrangement::llm_only && step.has_generator() && step.generator[m])
        visit(ids.generate_of(m), unit_rank(step, m));
    }
  } else if (op.module == Module::encoder) {
    if (op.phase == Phase::backward) {
      visit(ids.encoder_forward_of(m), rank);
      visit(ids.backward_of(0, m), 0);
    }
  } else {
    visit(ids.forward_of(ids.stages - 1, m), int(step.ranks) - 1);
  }
}

// The operators that need this one's output: the inverse of the above, without the operator's own rank's
// activations (F to B of the same stage).
template <class Visit>
void for_each_receiver(const Step& step, const Ids& ids, int rank, const Operator& op, Visit&& visit) {
  int64_t m = op.microbatch;
  bool nests = step.arrangement != Arrangement::llm_only;
  if (op.module == Module::backbone) {
    int64_t s = ids.stage(rank, op);
    if (op.phase == Phase::forward) {
      if (s + 1 < ids.stages)
        visit(ids.forward_of(s + 1, m), rank + 1 < step.ranks ? rank + 1 : 0);
      else if (nests && step.has_generator() && step.generator[m])
        visit(ids.generate_of(m), unit_rank(step, m));
    } else {
      if (s > 0)
        visit(ids.backward_of(s - 1, m), rank > 0 ? rank - 1 : int(step.ranks) - 1);
      else if (nests && step.has_encoder() && step.encoder[m])
        visit(ids.encoder_backward_of(m), unit_rank(step, m));
    }
  } else if (op.module == Module::encoder) {
    if (op.phase == Phase::forward) visit(ids.forward_of(0, m), 0);
  } else {
    visit(ids.backward_of(ids.stages - 1, m), int(step.ranks) - 1);
  }
}

}  // namespace bigmac
