#include "bigmac/runtime/turn_sum.h"

#include "bigmac/common/error.h"

namespace bigmac {

torch::ScalarType sum_type(torch::ScalarType dtype) {
  return dtype == torch::kBFloat16 || dtype == torch::kHalf ? torch::kFloat32 : dtype;
}

void TurnSum::add(int64_t step, int64_t turn, const torch::Tensor& part) {
  auto refuse = [&](const char* why) {
    throw InvalidInput(
        concat("[window] turns of a step are each added once, from 0 and before its take_sum: turn ", turn,
               " of step ", step, why));
  };
  if (turn < 0) refuse(" is negative");
  if (step < step_) refuse(" comes after it");
  if ((step == step_ && turn < next_) || !held_.try_emplace({step, turn}, part).second)
    refuse(" has been added before");
  take_what_is_due();
}

torch::Tensor TurnSum::take(int64_t turns) {
  bool ahead = !held_.empty() && held_.begin()->first.first == step_;
  if (next_ != turns || ahead)
    throw InvalidInput(concat("[window] take_sum(", turns, ") of step ", step_, ", to which turn ",
                              ahead ? held_.begin()->first.second : next_ - 1, " has been added"));
  auto sum = std::move(sum_);
  sum_.reset();
  ++step_;
  next_ = 0;
  take_what_is_due();
  return sum.defined() ? sum.to(dtype_) : sum;
}

void TurnSum::take_what_is_due() {
  for (auto due = held_.begin(); due != held_.end() && due->first == std::pair(step_, next_); ++next_) {
    const auto& part = due->second;
    if (sum_.defined()) {
      sum_.add_(part.to(device_));
    } else {
      dtype_ = part.scalar_type();
      sum_ = part.to(device_, sum_type(dtype_), false, true);
    }
    due = held_.erase(due);
  }
}

}  // namespace bigmac
