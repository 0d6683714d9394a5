#include "bigmac/schedule/dependencies.h"

namespace bigmac {

Dependencies::Dependencies(const Step& step, const Shares& shares)
    : chunks_(step.chunks),
      stages_(step.stages()),
      microbatches_(step.microbatches),
      shares_(int64_t(shares.list.size())),
      first_backward_(stages_ * microbatches_),
      first_weight_(2 * first_backward_),
      first_share_(first_weight_ + (step.splits_backward() ? first_backward_ : 0)),
      count_(first_share_ + 2 * shares_),
      stage_of_(size_t(step.ranks * step.chunks), -1) {
  std::vector<int32_t> held(size_t(step.ranks), 0);
  for (int64_t s = 0; s < stages_; ++s) {
    int rank = rank_of_stage(step, s);
    rank_of_.push_back(rank);
    chunk_of_.push_back(held[rank]);
    stage_of_[rank * chunks_ + held[rank]++] = int32_t(s);
  }
  std::vector<uint8_t> share_encodes;
  for (const auto& share : shares.list) {
    const auto& module = step.modules[share.module];
    int64_t before = -1;
    for (uint32_t item : shares.items_of(share)) {
      int64_t m = module.items[item].microbatch;
      if (m != before) share_microbatches_.values.push_back(int32_t(m));
      before = m;
    }
    share_microbatches_.begin.push_back(int64_t(share_microbatches_.values.size()));
    share_rank_.push_back(share.rank);
    share_encodes.push_back(module.kind == Module::encoder);
    share_generates_.push_back(module.kind == Module::generator);
    share_has_backward_.push_back(module.runs(Phase::backward));
  }
  encoder_shares_ = inverse_of(share_microbatches_, microbatches_, share_encodes);
  generator_shares_ = inverse_of(share_microbatches_, microbatches_, share_generates_);
}

Dependencies::Lists Dependencies::inverse_of(const Lists& lists, int64_t count,
                                             const std::vector<uint8_t>& take) {
  Lists inverse;
  inverse.begin.assign(size_t(count) + 1, 0);
  auto for_each = [&](auto visit) {
    for (size_t i = 0; i < take.size(); ++i)
      if (take[i])
        for (int32_t value : lists[int64_t(i)]) visit(int32_t(i), value);
  };
  for_each([&](int32_t, int32_t value) { ++inverse.begin[value + 1]; });
  for (int64_t i = 0; i < count; ++i) inverse.begin[i + 1] += inverse.begin[i];
  inverse.values.resize(size_t(inverse.begin[count]));
  auto next = inverse.begin;
  for_each([&](int32_t i, int32_t value) { inverse.values[next[value]++] = i; });
  return inverse;
}

Dependencies::Placed Dependencies::at(int64_t id) const {
  if (id >= first_share_) {
    int64_t share = (id - first_share_) % shares_;
    if (id >= first_share_ + shares_) return {share_rank_[share], encoder_backward(share)};
    return {share_rank_[share], share_generates_[share] ? generate(share) : encoder_forward(share)};
  }
  int64_t within = id % first_backward_;
  int64_t s = within / microbatches_;
  Phase phase = id < first_backward_ ? Phase::forward : id < first_weight_ ? Phase::backward : Phase::weight;
  return {rank_of_[s], backbone(phase, chunk_of_[s], within % microbatches_)};
}

}  // namespace bigmac
