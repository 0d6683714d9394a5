#include "bigmac/train/sharded_walk.h"

#include <limits>

namespace bigmac::train {

ShardedWalk::ShardedWalk(const std::vector<Part>& parts, Gather gather) : gather_(gather) {
  for (const auto& part : parts) units_[part.module] = part.unit;
}

void ShardedWalk::begin(const Schedule& schedule, int rank) {
  schedule_ = &schedule;
  std::vector<bool> is_sharded(schedule.step.modules.size(), false);
  for (const auto& [module, unit] : units_) is_sharded[size_t(module)] = true;
  uses_ = sharded_uses(schedule, rank, is_sharded, gather_);
  next_ = 0;
  running_ = nullptr;
  pushed_.clear();
}

void ShardedWalk::before(int64_t position) {
  take_part_until(position);
  if (next_ < uses_.size() && uses_[next_].position == position) {
    running_ = &uses_[next_++];
    unit_of(*running_).finish_gather();
    if (running_->reduces) unit_of(*running_).begin_gradients();
  }
  start_next(position);
}

void ShardedWalk::after(int64_t position) {
  if (running_) {
    if (running_->reduces) push(*running_);
    if (running_->frees) unit_of(*running_).free_values();
    running_ = nullptr;
  }
  start_next(position);
  for (auto pushed = pushed_.begin(); pushed != pushed_.end();) {
    if (pushed->second >= position) {
      ++pushed;
      continue;
    }
    units_.at(pushed->first)->wait_for_pushed();
    pushed = pushed_.erase(pushed);
  }
}

void ShardedWalk::finish() {
  take_part_until(std::numeric_limits<int64_t>::max());
  for (auto& [module, unit] : units_) {
    unit->wait_for_pushed();
    unit->take_sums(turns_of(*schedule_, module));
  }
}

// In units at places up to this one in which this rank has no share.
void ShardedWalk::take_part_until(int64_t position) {
  for (; next_ < uses_.size() && uses_[next_].position <= position && !uses_[next_].runs; ++next_) {
    const auto& use = uses_[next_];
    unit_of(use).finish_gather();
    if (use.reduces) {
      unit_of(use).begin_gradients();
      push(use);
    }
    if (use.frees) unit_of(use).free_values();
  }
}

void ShardedWalk::start_next(int64_t position) {
  if (next_ == uses_.size() || uses_[next_].position > position + 1) return;
  if (running_ && running_->module == uses_[next_].module) return;
  unit_of(uses_[next_]).start_gather();
}

void ShardedWalk::push(const ShardedUse& use) {
  unit_of(use).push_gradients(use.turn);
  if (gather_ == Gather::collective) pushed_[use.module] = use.position;
}

}  // namespace bigmac::train
