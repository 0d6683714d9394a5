#include "bigmac/schedule/base.h"

#include <algorithm>

namespace bigmac {
namespace {

// Steps through (chunk, microbatch) in the order of forwards.
class Order {
 public:
  Order(int64_t chunks, int64_t microbatches, int64_t group)
      : chunks_(chunks), microbatches_(microbatches), group_(group), size_(std::min(group, microbatches)) {}

  int chunk() const { return int(chunk_); }
  int microbatch() const { return int(first_ + offset_); }

  void next() {
    if (++offset_ < size_) return;
    offset_ = 0;
    if (++chunk_ < chunks_) return;
    chunk_ = 0;
    first_ += size_;
    size_ = std::min(group_, microbatches_ - first_);
  }

 private:
  int64_t chunks_, microbatches_, group_, size_;
  int64_t first_ = 0, chunk_ = 0, offset_ = 0;
};

}  // namespace

int64_t warmup_forwards(const Step& step, int rank, int64_t extra) {
  int64_t behind = step.ranks - rank - 1;
  int64_t forwards =
      step.base == Base::one_f_one_b ? behind : 2 * behind + (step.chunks - 1) * step.group_size();
  return std::min(forwards + extra, step.microbatches * step.chunks);
}

Schedule base_table(const Step& step, int64_t extra_warmup) {
  check_step(step);
  int64_t total = step.microbatches * step.chunks;
  int64_t group = step.base == Base::one_f_one_b ? step.microbatches : step.group_size();
  Schedule schedule{.step = step, .operators = {}, .row_begin = {0}, .units = {}};
  schedule.operators.resize(2 * total * step.ranks);
  auto* out = schedule.operators.data();
  for (int rank = 0; rank < step.ranks; ++rank) {
    Order forward(step.chunks, step.microbatches, group), backward = forward;
    auto put_forward = [&] {
      *out++ = backbone_forward(forward.chunk(), forward.microbatch());
      forward.next();
    };
    auto put_backward = [&] {
      *out++ = backbone_backward(int(step.chunks) - 1 - backward.chunk(), backward.microbatch());
      backward.next();
    };
    int64_t warmup = warmup_forwards(step, rank, extra_warmup);
    for (int64_t k = 0; k < warmup; ++k) put_forward();
    for (int64_t k = warmup; k < total; ++k) {
      put_forward();
      put_backward();
    }
    for (int64_t k = 0; k < warmup; ++k) put_backward();
    schedule.row_begin.push_back(out - schedule.operators.data());
  }
  return schedule;
}

}  // namespace bigmac
