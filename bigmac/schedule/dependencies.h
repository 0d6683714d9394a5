#pragma once

#include <vector>

#include "bigmac/schedule/table.h"

namespace bigmac {

// Whose output or activations an operator needs, besides the operators before it in its row.
//
//   F(s, m)  needs F(s-1, m), or on stage 0 the encoder F of every share with an item of m
//   B(s, m)  needs F(s, m) and B(s+1, m), or on the last stage G of every share with an item of m
//   I(s, m)  and W(s, m), where B(s, m) is split: I needs what B needs, W needs I(s, m)
//   encoder F(share) needs nothing; encoder B(share) needs its F and B(0, m) of every m it has items of; a
//   frozen encoder has no B, and nothing goes back to it
//   G(share) needs F(last stage, m) of every m it has items of
//
// This is the only definition of a dependency: the checker, the simulator, the plan of messages, the executor
// and the critical path all ask it.
//
// Operators have dense ids: backbone forwards by stage and microbatch; backwards likewise, I in the place of
// B; W likewise, where the step splits backwards; then the first operator (F or G) of each share, and the
// second (B) of each, also where a generator's or frozen encoder's share has none.
class Dependencies {
 public:
  explicit Dependencies(const Schedule& schedule) : Dependencies(schedule.step, schedule.shares) {}
  Dependencies(const Step& step, const Shares& shares);

  int64_t count() const { return count_; }
  int64_t backbone_count() const { return first_share_; }
  int64_t stages() const { return stages_; }
  int64_t microbatches() const { return microbatches_; }
  int rank_of(int64_t stage) const { return rank_of_[stage]; }
  int chunk_of(int64_t stage) const { return chunk_of_[stage]; }
  // The stage of a rank's chunk, -1 where the rank has fewer chunks.
  int64_t stage(int rank, int64_t chunk) const { return stage_of_[rank * chunks_ + chunk]; }

  int64_t forward_of(int64_t stage, int64_t m) const { return stage * microbatches_ + m; }
  int64_t backward_of(int64_t stage, int64_t m) const { return first_backward_ + stage * microbatches_ + m; }
  int64_t weight_of(int64_t stage, int64_t m) const { return first_weight_ + stage * microbatches_ + m; }
  int64_t first_of(int64_t share) const { return first_share_ + share; }
  int64_t second_of(int64_t share) const { return first_share_ + shares_ + share; }

  int64_t of(int rank, const Operator& op) const {
    if (op.module != Module::backbone)
      return op.phase == Phase::backward ? second_of(op.index) : first_of(op.index);
    int64_t s = stage(rank, op.chunk);
    if (op.phase == Phase::forward) return forward_of(s, op.index);
    return op.phase == Phase::weight ? weight_of(s, op.index) : backward_of(s, op.index);
  }

  struct Placed {
    int rank;
    Operator op;
  };
  // The inverse of `of`; a backward for B and I alike.
  Placed at(int64_t id) const;

  // Shares that have items of a microbatch; microbatches that a share has items of, ascending.
  std::span<const int32_t> encoder_shares(int64_t m) const { return encoder_shares_[m]; }
  std::span<const int32_t> generator_shares(int64_t m) const { return generator_shares_[m]; }
  std::span<const int32_t> microbatches_of(int64_t share) const { return share_microbatches_[share]; }
  int rank_of_share(int64_t share) const { return share_rank_[share]; }
  // Whether the share's gradient comes back to it: an encoder's that is trained.
  bool has_backward(int64_t share) const { return share_has_backward_[share] != 0; }

  // Calls visit(id, rank) for each.
  template <class Visit>
  void for_each_predecessor(int rank, const Operator& op, Visit&& visit) const;
  // The operators that need this one's output: the inverse of the above, without those that need only its
  // activations (B of the same stage, W, encoder B of the same share).
  template <class Visit>
  void for_each_receiver(int rank, const Operator& op, Visit&& visit) const;

 private:
  struct Lists {  // lists of numbers, one behind the other
    std::vector<int64_t> begin{0};
    std::vector<int32_t> values;
    std::span<const int32_t> operator[](int64_t i) const {
      return {values.data() + begin[i], values.data() + begin[i + 1]};
    }
  };
  static Lists inverse_of(const Lists& lists, int64_t count, const std::vector<uint8_t>& take);

  int64_t chunks_, stages_, microbatches_, shares_;
  int64_t first_backward_, first_weight_, first_share_, count_;
  std::vector<int32_t> rank_of_, chunk_of_, stage_of_, share_rank_;
  std::vector<uint8_t> share_generates_, share_has_backward_;
  Lists share_microbatches_, encoder_shares_, generator_shares_;
};

template <class Visit>
void Dependencies::for_each_predecessor(int rank, const Operator& op, Visit&& visit) const {
  auto from_shares = [&](std::span<const int32_t> shares) {
    for (int32_t share : shares) visit(first_of(share), share_rank_[share]);
  };
  int64_t m = op.index;
  if (op.module == Module::backbone) {
    int64_t s = stage(rank, op.chunk);
    switch (op.phase) {
      case Phase::forward:
        if (s > 0)
          visit(forward_of(s - 1, m), rank_of_[s - 1]);
        else
          from_shares(encoder_shares(m));
        return;
      case Phase::weight:
        visit(backward_of(s, m), rank);
        return;
      default:
        visit(forward_of(s, m), rank);
        if (s + 1 < stages_)
          visit(backward_of(s + 1, m), rank_of_[s + 1]);
        else
          from_shares(generator_shares(m));
        return;
    }
  }
  if (op.phase == Phase::backward) {
    visit(first_of(op.index), rank);
    for (int32_t of : microbatches_of(op.index)) visit(backward_of(0, of), rank_of_[0]);
  } else if (op.module == Module::generator) {
    for (int32_t of : microbatches_of(op.index)) visit(forward_of(stages_ - 1, of), rank_of_[stages_ - 1]);
  }
}

template <class Visit>
void Dependencies::for_each_receiver(int rank, const Operator& op, Visit&& visit) const {
  int64_t m = op.index;
  if (op.module == Module::backbone) {
    int64_t s = stage(rank, op.chunk);
    if (op.phase == Phase::forward) {
      if (s + 1 < stages_)
        visit(forward_of(s + 1, m), rank_of_[s + 1]);
      else
        for (int32_t share : generator_shares(m)) visit(first_of(share), share_rank_[share]);
    } else if (gives_input_gradient(op.phase)) {
      if (s > 0)
        visit(backward_of(s - 1, m), rank_of_[s - 1]);
      else
        for (int32_t share : encoder_shares(m))
          if (has_backward(share)) visit(second_of(share), share_rank_[share]);
    }
  } else if (op.phase == Phase::forward) {
    for (int32_t of : microbatches_of(op.index)) visit(forward_of(0, of), rank_of_[0]);
  } else if (op.phase == Phase::generate) {
    for (int32_t of : microbatches_of(op.index)) visit(backward_of(stages_ - 1, of), rank_of_[stages_ - 1]);
  }
}

}  // namespace bigmac
