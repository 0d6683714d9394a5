#pragma once

#include <algorithm>

#include "bigmac/schedule/dependencies.h"
#include "bigmac/simulate/memory.h"

namespace bigmac {

enum class Held : uint8_t {
  activations,      // of a stage
  recomputed,       // of a stage
  forward_work,     // of a stage
  received,         // activations before a stage
  received_back,    // gradients behind a stage
  item,             // activations of a module
  item_recomputed,  // of a module
  item_out,         // of a module, handed on: an encoder's output, a generator's input
  item_back,        // its gradient
};

// Everything that the operators of a timeline hold. Throws InvalidInput where timeline or bytes do not fit
// the schedule. The arguments must outlive it.
class Holdings {
 public:
  Holdings(const Schedule& schedule, const Timeline& timeline, const Bytes& bytes);

  const Schedule& schedule() const { return schedule_; }
  double start() const { return timeline_.start; }
  const std::vector<Slice>& row(int rank) const { return timeline_.rows[rank].operators; }
  double constant(int rank) const { return constant_[rank]; }
  double end_of(int64_t id) const { return ends_[id]; }
  // In its rank's row. Throws InvalidInput for an operator that the schedule lacks.
  size_t position_of(int64_t id) const {
    if (positions_[id] < 0) refuse_missing(id);
    return size_t(positions_[id]);
  }

  // What a rank lets go when one of its operators ends. Calls, for all of more than 0 bytes,
  //   started(held, which, bytes, count, id)  held since the operator `id` of the same rank started
  //   arrived(held, which, bytes, count, id)  held since the operator `id` of any rank ended
  // `which` is a stage or a module, `count` microbatches or items.
  template <class Started, class Arrived>
  void let_go(int rank, const Operator& op, Started&& started, Arrived&& arrived) const;

 private:
  // What a share hands over of one of its microbatches.
  struct Part {
    double bytes = 0;
    int64_t items = 0;
  };
  // Likewise, by the share's place in the lists of Dependencies.
  template <class Visit>
  void for_each_part(std::span<const int32_t> shares, int64_t m, Visit&& visit) const;
  template <class Visit>
  void for_each_part(int64_t share, Visit&& visit) const;
  [[noreturn]] void refuse_missing(int64_t id) const;

  const Schedule& schedule_;
  const Timeline& timeline_;
  Dependencies dependencies_;
  std::vector<double> constant_;  // by rank
  std::vector<double> stage_, stage_work_, forward_work_;
  double boundary_;
  std::vector<double> item_, item_work_;  // by share
  std::vector<int64_t> part_begin_;       // by share; empty where nothing is handed over
  std::vector<Part> parts_;
  std::vector<double> ends_;        // by operator id
  std::vector<int32_t> positions_;  // likewise
};

template <class Visit>
void Holdings::for_each_part(std::span<const int32_t> shares, int64_t m, Visit&& visit) const {
  if (part_begin_.empty()) return;
  for (int32_t share : shares) {
    auto microbatches = dependencies_.microbatches_of(share);
    auto at = std::lower_bound(microbatches.begin(), microbatches.end(), int32_t(m)) - microbatches.begin();
    const Part& part = parts_[part_begin_[share] + at];
    if (part.bytes > 0)
      visit(schedule_.shares.list[share].module, part.bytes, part.items, dependencies_.first_of(share));
  }
}

template <class Visit>
void Holdings::for_each_part(int64_t share, Visit&& visit) const {
  if (part_begin_.empty()) return;
  const Part* part = &parts_[part_begin_[share]];
  for (int32_t m : dependencies_.microbatches_of(share)) {
    if (part->bytes > 0) visit(schedule_.shares.list[share].module, part->bytes, part->items, m);
    ++part;
  }
}

template <class Started, class Arrived>
void Holdings::let_go(int rank, const Operator& op, Started&& started, Arrived&& arrived) const {
  const auto& of = dependencies_;
  if (op.module != Module::backbone) {
    const Share& share = schedule_.shares.list[op.index];
    if (op.phase == Phase::forward) {
      // A frozen encoder keeps nothing for a backward.
      if (!of.has_backward(op.index) && item_[op.index] > 0)
        started(Held::item, share.module, item_[op.index], share.count, of.first_of(op.index));
      return;
    }
    bool generates = op.phase == Phase::generate;
    int64_t first = of.first_of(op.index), own = generates ? first : of.second_of(op.index);
    if (item_[op.index] > 0) started(Held::item, share.module, item_[op.index], share.count, first);
    if (item_work_[op.index] > 0)
      started(Held::item_recomputed, share.module, item_work_[op.index], share.count, own);
    for_each_part(op.index, [&](int64_t module, double bytes, int64_t items, int64_t m) {
      arrived(generates ? Held::item_out : Held::item_back, module, bytes, items,
              generates ? of.forward_of(of.stages() - 1, m) : of.backward_of(0, m));
    });
    return;
  }
  int64_t s = of.stage(rank, op.chunk), m = op.index;
  if (op.phase == Phase::forward) {
    if (forward_work_[s] > 0) started(Held::forward_work, s, forward_work_[s], 1, of.forward_of(s, m));
    if (s > 0) {
      if (boundary_ > 0 && of.rank_of(s - 1) != rank)
        arrived(Held::received, s, boundary_, 1, of.forward_of(s - 1, m));
      return;
    }
    for_each_part(of.encoder_shares(m), m, [&](int64_t module, double bytes, int64_t items, int64_t id) {
      arrived(Held::item_out, module, bytes, items, id);
    });
    return;
  }
  if (frees_activations(op.phase)) {
    if (stage_[s] > 0) started(Held::activations, s, stage_[s], 1, of.forward_of(s, m));
    if (stage_work_[s] > 0) started(Held::recomputed, s, stage_work_[s], 1, of.backward_of(s, m));
  }
  if (!gives_input_gradient(op.phase)) return;
  if (s + 1 < of.stages()) {
    if (boundary_ > 0 && of.rank_of(s + 1) != rank)
      arrived(Held::received_back, s, boundary_, 1, of.backward_of(s + 1, m));
    return;
  }
  for_each_part(of.generator_shares(m), m, [&](int64_t module, double bytes, int64_t items, int64_t id) {
    arrived(Held::item_back, module, bytes, items, id);
  });
}

}  // namespace bigmac
