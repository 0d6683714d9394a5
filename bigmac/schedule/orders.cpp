#include "bigmac/schedule/orders.h"

#include <algorithm>
#include <deque>
#include <optional>

namespace bigmac {
namespace {

// Steps through (chunk, microbatch) in the order of forwards.
class Order {
 public:
  Order(int64_t chunks, int64_t microbatches, int64_t group)
      : chunks_(chunks), microbatches_(microbatches), group_(group), size_(std::min(group, microbatches)) {}

  int64_t chunk() const { return chunk_; }
  int64_t microbatch() const { return first_ + offset_; }

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

// A row in the making, which counts what each chunk has run. Weight gradients owed by split backwards are
// paid in the order in which they arose.
class RowBuilder {
 public:
  explicit RowBuilder(int64_t chunks, int64_t microbatches) : next_forward_(chunks), next_backward_(chunks) {
    row_.reserve(size_t(3 * chunks * microbatches));
  }
  void forward(int64_t chunk) { row_.push_back(backbone_forward(chunk, next_forward_[chunk]++)); }
  void backward(int64_t chunk) { row_.push_back(backbone_backward(chunk, next_backward_[chunk]++)); }
  void input(int64_t chunk) {
    int64_t m = next_backward_[chunk]++;
    row_.push_back(backbone(Phase::input, chunk, m));
    owed_.push_back(backbone(Phase::weight, chunk, m));
  }
  void weight() {
    row_.push_back(owed_.front());
    owed_.pop_front();
  }
  void input_and_weight(int64_t chunk) {
    input(chunk);
    row_.push_back(owed_.back());
    owed_.pop_back();
  }
  void overlap() { overlapped_.push_back(int64_t(row_.size())); }
  int64_t forwards(int64_t chunk) const { return next_forward_[chunk]; }
  int64_t backwards(int64_t chunk) const { return next_backward_[chunk]; }
  bool owes() const { return !owed_.empty(); }
  std::vector<int64_t>& overlapped() { return overlapped_; }
  Row take() { return std::move(row_); }

 private:
  Row row_;
  std::vector<int64_t> next_forward_, next_backward_, overlapped_;
  std::deque<Operator> owed_;
};

}  // namespace

Row gpipe_order(const Step& step, int, int64_t microbatches) {
  RowBuilder row(step.chunks, microbatches);
  for (int64_t c = 0; c < step.chunks; ++c)
    for (int64_t m = 0; m < microbatches; ++m) row.forward(c);
  for (int64_t c = step.chunks - 1; c >= 0; --c)
    for (int64_t m = 0; m < microbatches; ++m) row.backward(c);
  return row.take();
}

int64_t warmup_forwards(const Step& step, int rank) {
  int64_t behind = step.ranks - rank - 1;
  int64_t forwards =
      step.base == Base::interleaved ? 2 * behind + (step.chunks - 1) * step.group_size() : behind;
  return std::min(forwards, step.microbatches * step.chunks);
}

Row one_f_one_b_order(const Step& step, int rank, int64_t microbatches) {
  int64_t total = microbatches * step.chunks;
  Order forward(step.chunks, microbatches, step.base == Base::interleaved ? step.group_size() : microbatches);
  Order backward = forward;
  Row row(size_t(2 * total));
  auto* out = row.data();
  auto put_forward = [&] {
    *out++ = backbone_forward(forward.chunk(), forward.microbatch());
    forward.next();
  };
  auto put_backward = [&] {
    *out++ = backbone_backward(step.chunks - 1 - backward.chunk(), backward.microbatch());
    backward.next();
  };
  Step whole = step;
  whole.microbatches = microbatches;
  int64_t warmup = warmup_forwards(whole, rank);
  for (int64_t k = 0; k < warmup; ++k) put_forward();
  for (int64_t k = warmup; k < total; ++k) {
    put_forward();
    put_backward();
  }
  for (int64_t k = 0; k < warmup; ++k) put_backward();
  return row;
}

Row zb_h1_order(const Step& step, int rank, int64_t microbatches) {
  int64_t warmup = std::min(step.ranks - rank - 1, microbatches);
  RowBuilder row(1, microbatches);
  for (int64_t k = 0; k < warmup; ++k) row.forward(0);
  for (int64_t k = 0; k < microbatches; ++k) {
    if (k + warmup < microbatches) row.forward(0);
    row.input(0);
    if (k >= rank) row.weight();
  }
  while (row.owes()) row.weight();
  return row.take();
}

Row zb_v_order(const Step& step, int rank, int64_t microbatches) {
  int64_t behind = step.ranks - rank;
  RowBuilder row(2, microbatches);
  for (int64_t k = 0; k < 2 * behind - 1; ++k) row.forward(0);
  for (int64_t k = 0; k < rank; ++k) {
    row.forward(1);
    row.forward(0);
  }
  for (int64_t k = 0; k < behind; ++k) {
    row.forward(1);
    row.input_and_weight(1);
  }
  while (row.forwards(1) < microbatches || row.forwards(0) < microbatches) {
    if (row.forwards(0) < microbatches) row.forward(0);
    row.input_and_weight(0);
    if (row.forwards(1) < microbatches) row.forward(1);
    row.input_and_weight(1);
  }
  for (int64_t k = 0; k < rank; ++k) {
    row.input(0);
    row.input(1);
  }
  for (int64_t k = 0; k < behind; ++k) {
    row.input(0);
    row.weight();
  }
  while (row.owes()) row.weight();
  return row.take();
}

Row dualpipe_v_order(const Step& step, int rank, int64_t microbatches, std::vector<int64_t>& overlapped) {
  int64_t behind = step.ranks - rank - 1;
  RowBuilder row(2, microbatches);
  auto pair = [&](int64_t forward, int64_t backward) {
    row.overlap();
    row.forward(forward);
    row.backward(backward);
  };
  for (int64_t k = 0; k < 2 * behind; ++k) row.forward(0);
  for (int64_t k = 0; k <= rank; ++k) {
    row.forward(0);
    row.forward(1);
  }
  for (int64_t k = 0; k < behind; ++k) {
    row.input(1);
    row.weight();
    row.forward(1);
  }
  for (int64_t k = 0; k < microbatches - 2 * step.ranks + rank + 1; ++k) {
    if (k == 0 && behind == 0) {  // the last rank's two chunks follow each other: nothing to overlap yet
      row.forward(0);
      row.backward(1);
    } else {
      pair(0, 1);
    }
    pair(1, 0);
  }
  for (int64_t k = 0; k < behind; ++k) {
    row.backward(1);
    pair(1, 0);
  }
  // Backwards in turn, the second half of them split.
  int64_t turns = rank + 1;
  for (int64_t k = 0; k < 2 * turns; ++k) {
    if (k < turns)
      row.backward(1 - k % 2);
    else
      row.input(1 - k % 2);
  }
  for (int64_t k = 0; k < behind; ++k) {
    row.weight();
    row.input(0);
  }
  while (row.owes()) row.weight();
  overlapped = row.overlapped();
  return row.take();
}

std::vector<Row> turn_behind_generator_order(const Step& step) {
  int64_t ranks = step.ranks, stages = 2 * ranks, count = step.microbatches;
  int64_t unit = step.unit_size(Module::generator), most_held = 2 * ranks + 2 * unit;
  std::vector<int64_t> forwards(stages, 0), inputs(stages, 0), weights(stages, 0), held(ranks, 0);
  std::vector<Row> rows(ranks);
  // The stage that takes the output must have come as far, so that a send never waits for its receive.
  auto forward_ready = [&](int64_t rank, int64_t s) {
    return held[rank] < most_held && forwards[s] < count && (s == 0 || forwards[s] < forwards[s - 1]) &&
           (s + 1 == stages || forwards[s] <= forwards[s + 1]);
  };
  auto input_ready = [&](int64_t s) {
    if (inputs[s] == count || (s > 0 && inputs[s] > inputs[s - 1])) return false;
    if (s + 1 < stages) return inputs[s] < inputs[s + 1];
    return forwards[s] >= std::min((inputs[s] / unit + 1) * unit, count);
  };
  struct Pick {
    Phase phase;
    int64_t stage;
  };
  auto pick = [&](int64_t rank) -> std::optional<Pick> {
    for (Phase phase : {Phase::input, Phase::forward, Phase::weight})
      for (int64_t s : {2 * ranks - 1 - rank, rank}) {
        bool ready = phase == Phase::input     ? input_ready(s)
                     : phase == Phase::forward ? forward_ready(rank, s)
                                               : weights[s] < inputs[s];
        if (ready) return Pick{phase, s};
      }
    return std::nullopt;
  };
  for (int64_t left = 3 * stages * count; left > 0;) {
    // All ranks pick from what the ticks before have done.
    std::vector<std::optional<Pick>> picks;
    for (int64_t rank = 0; rank < ranks; ++rank) picks.push_back(pick(rank));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (!picks[rank]) continue;
      auto [phase, s] = *picks[rank];
      auto& done = phase == Phase::forward ? forwards : phase == Phase::input ? inputs : weights;
      rows[rank].push_back(backbone(phase, s < ranks ? 0 : 1, done[s]++));
      held[rank] += phase == Phase::forward ? 1 : phase == Phase::weight ? -1 : 0;
      --left;
    }
  }
  return rows;
}

}  // namespace bigmac
