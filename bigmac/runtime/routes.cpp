#include "bigmac/runtime/routes.h"

#include <algorithm>

namespace bigmac {

Routes::Routes(const Schedule& schedule)
    : dependencies_(schedule),
      of_share_(schedule.shares.list.size()),
      encoded_(size_t(schedule.step.microbatches)),
      generated_(size_t(schedule.step.microbatches)) {
  const Step& step = schedule.step;
  std::vector<int32_t> first;  // item of each module
  for (size_t n = 0; n < step.modules.size(); ++n) {
    first.push_back(int32_t(places_.size()));
    for (const auto& item : step.modules[n].items) {
      bool follows =
          int32_t(places_.size()) > first[n] && places_.back().microbatch == int32_t(item.microbatch);
      places_.push_back({int32_t(n), int32_t(item.microbatch), follows ? places_.back().number + 1 : 0, -1});
    }
  }
  first_edge_ = 2 * int64_t(places_.size());
  for (size_t s = 0; s < schedule.shares.list.size(); ++s) {
    const Share& share = schedule.shares.list[s];
    for (uint32_t i : schedule.shares.items_of(share)) {
      int32_t item = first[share.module] + int32_t(i);
      places_[item].share = int32_t(s);
      of_share_[s].push_back(item);
    }
  }
  for (size_t item = 0; item < places_.size(); ++item) {
    const auto& place = places_[item];
    if (place.share < 0) continue;
    bool encodes = step.modules[place.module].kind == Module::encoder;
    (encodes ? encoded_ : generated_)[place.microbatch].push_back(int32_t(item));
  }
  for (auto& items : encoded_)
    std::stable_partition(items.begin(), items.end(),
                          [&](int32_t item) { return dependencies_.has_backward(places_[item].share); });
}

std::span<const int32_t> Routes::returned(int64_t m) const {
  std::span<const int32_t> items = encoded_[m];
  auto frozen = std::find_if(items.begin(), items.end(),
                             [&](int32_t item) { return !dependencies_.has_backward(places_[item].share); });
  return {items.begin(), frozen};
}

std::vector<Part> Routes::parts(std::span<const int32_t> items, bool gradients, int rank) const {
  std::vector<Part> parts;
  for (int32_t item : items) parts.push_back({2 * int64_t(item) + gradients, rank});
  return parts;
}

std::vector<Part> Routes::parts_by_share(std::span<const int32_t> items, bool gradients) const {
  auto list = parts(items, gradients, 0);
  for (size_t i = 0; i < list.size(); ++i)
    list[i].rank = dependencies_.rank_of_share(places_[items[i]].share);
  return list;
}

std::vector<Part> Routes::inputs(int rank, const Operator& op) const {
  const auto& d = dependencies_;
  int64_t last = d.stages() - 1;
  if (op.module == Module::generator) return parts(of_share_[op.index], false, d.rank_of(last));
  if (op.module == Module::encoder) {
    if (op.phase == Phase::forward) return {};
    return parts(of_share_[op.index], true, d.rank_of(0));
  }
  if (op.phase == Phase::weight) return {};
  int64_t s = d.stage(rank, op.chunk), id = first_edge_ + d.of(rank, op);
  if (op.phase == Phase::forward) {
    if (s == 0) return parts_by_share(encoded_[op.index], false);
    return {{id, d.rank_of(s - 1)}};
  }
  if (s == last) return parts_by_share(generated_[op.index], true);
  return {{id, d.rank_of(s + 1)}};
}

std::vector<Part> Routes::outputs(int rank, const Operator& op) const {
  const auto& d = dependencies_;
  int64_t last = d.stages() - 1, m = op.index;
  if (op.module == Module::generator) return parts(of_share_[m], true, d.rank_of(last));
  if (op.module == Module::encoder) {
    if (op.phase == Phase::backward) return {};
    return parts(of_share_[m], false, d.rank_of(0));
  }
  if (op.phase == Phase::weight) return {};
  int64_t s = d.stage(rank, op.chunk);
  if (op.phase == Phase::forward) {
    if (s == last) return parts_by_share(generated_[m], false);
    return {{first_edge_ + d.forward_of(s + 1, m), d.rank_of(s + 1)}};
  }
  if (s == 0) return parts_by_share(returned(m), true);
  return {{first_edge_ + d.backward_of(s - 1, m), d.rank_of(s - 1)}};
}

}  // namespace bigmac
