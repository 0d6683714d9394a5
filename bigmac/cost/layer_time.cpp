#include "bigmac/cost/layer_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "bigmac/common/error.h"
#include "bigmac/cost/count.h"
#include "bigmac/cost/link_time.h"
#include "bigmac/cost/shares.h"

namespace bigmac::cost {
namespace {

constexpr double kBf16 = 2;

struct PartWork {
  double forward = 0, input = 0, weight = 0;
};

// Elements that one copy of a row reads and writes, of what the GPU has of them.
struct Widths {
  double read = 0, written = 0;
};

Widths widths_of(const Part& part, const Parallel& parallel) {
  double tensor = double(parallel.tensor), in = double(part.in), out = double(part.out);
  switch (part.kind) {
    case PartKind::linear:
      if (part.experts > 0 || part.cut == Cut::none) return {in, out};
      return part.cut == Cut::rows ? Widths{in / tensor, out} : Widths{in, out / tensor};
    case PartKind::embedding:
      return {part.cut == Cut::none ? out : out / tensor, out};
    case PartKind::attention: {
      double share = part.cut == Cut::none ? 1 : 1 / tensor;
      double heads = double(part.heads * part.head_dim), kv = double(part.kv_heads * part.head_dim);
      return {(heads + 2 * kv) * share, heads * share};
    }
    case PartKind::norm:
    case PartKind::elementwise:
      break;
  }
  double share = part.experts == 0 && part.cut != Cut::none ? 1 / tensor : 1;
  return {in * share, out * share};
}

// Rows of which widths_of are read and written.
double rows_here(const Part& part, const Sequences& sequences, const Parallel& parallel,
                 const Training& training) {
  double rows = rows_of(part.rows, sequences) * double(passes_of(part));
  if (part.experts > 0 || part.cut == Cut::none) return rows * share_of(part, parallel, training);
  return rows;
}

double weights_here(const Part& part, const Parallel& parallel) {
  if (part.kind != PartKind::linear) return 0;
  double one = double(part.in) * double(part.out);
  if (part.experts > 0) return one * double(part.experts) / double(parallel.expert);
  return part.cut == Cut::none ? one : one / double(parallel.tensor);
}

PartWork bytes_of(const Part& part, const Sequences& sequences, const Parallel& parallel,
                  const Training& training) {
  double rows = rows_here(part, sequences, parallel, training);
  auto [read, written] = widths_of(part, parallel);
  double forward = kBf16 * (rows * (read + written) + weights_here(part, parallel));
  switch (part.kind) {
    case PartKind::linear:
      return {forward, part.of_data ? 0 : forward, forward};
    case PartKind::embedding:
      return {forward, 0, forward};
    case PartKind::attention:
      return {forward, 2 * forward, 0};
    case PartKind::norm:
    case PartKind::elementwise:
      break;
  }
  return {forward, forward + kBf16 * rows * read, 0};
}

double efficiency_of(const Part& part, const Efficiency& efficiency) {
  if (part.kind == PartKind::attention) return efficiency.attention;
  return part.experts > 0 ? efficiency.experts : efficiency.linear;
}

PartWork seconds_of(const Part& part, const Sequences& sequences, const Parallel& parallel,
                    const Training& training, const Hardware& hardware, const Efficiency& efficiency) {
  auto work = flops(part, sequences);
  auto bytes = bytes_of(part, sequences, parallel, training);
  double compute = share_of(part, parallel, training) / (hardware.peak * efficiency_of(part, efficiency));
  double move = 1 / (hardware.memory_bandwidth * efficiency.memory);
  return {std::max(work.forward * compute, bytes.forward * move),
          std::max(work.input * compute, bytes.input * move),
          std::max(work.weight * compute, bytes.weight * move)};
}

struct Traffic {
  double forward = 0, backward = 0;
};

Traffic tensor_traffic(const Layer& layer, const Sequences& sequences, const Parallel& parallel,
                       const Hardware& hardware) {
  Traffic traffic;
  if (parallel.tensor == 1) return traffic;
  auto group = tensor_group(parallel);
  auto ring = [&](const Part& part, int64_t width) {
    return all_gather_seconds(kBf16 * rows_of(part.rows, sequences) * double(width), group, hardware);
  };
  std::array<bool, 5> gathered{};  // by Rows
  for (const auto& part : layer.parts) {
    bool product = part.kind == PartKind::linear || part.kind == PartKind::embedding;
    if (!product || part.experts > 0 || part.cut == Cut::none) continue;
    auto& whole = gathered[size_t(part.rows)];
    if (part.cut == Cut::rows || part.kind == PartKind::embedding) {
      double once = ring(part, part.out);
      traffic.forward += parallel.sequence() ? once : 2 * once;
      traffic.backward += parallel.sequence() ? once : 0;
      whole = false;
    } else if (!whole && part.rows != Rows::samples) {
      double once = ring(part, part.in);
      traffic.forward += parallel.sequence() ? once : 0;
      traffic.backward += parallel.sequence() ? once : 2 * once;
      whole = true;
    }
  }
  return traffic;
}

Traffic expert_traffic(const Layer& layer, const Sequences& sequences, const Parallel& parallel,
                       const Training& training, const Hardware& hardware) {
  if (parallel.expert == 1) return {};
  const Part* first = nullptr;
  const Part* last = nullptr;
  for (const auto& part : layer.parts) {
    if (part.experts == 0) continue;
    if (first == nullptr) first = &part;
    last = &part;
  }
  if (first == nullptr) return {};
  double copies = rows_of(first->rows, sequences) * double(first->top_k) * training.expert_imbalance /
                  double(parallel.tensor);
  auto group = expert_group(parallel);
  double there = all_to_all_seconds(kBf16 * copies * double(first->in), group, hardware);
  double back = all_to_all_seconds(kBf16 * copies * double(last->out), group, hardware);
  return {there + back, there + back};
}

void check_above(std::string_view field, double value) {
  if (!(value > 0) || std::isinf(value))
    throw InvalidInput(concat("[sequences] ", field, " must be above 0 and finite, got ", value));
}

}  // namespace

bool has_attention(const Layer& layer) {
  return std::any_of(layer.parts.begin(), layer.parts.end(),
                     [](const Part& part) { return part.kind == PartKind::attention; });
}

bool runs_again(const Part& part, const Training& training) {
  return std::any_of(part.saved.begin(), part.saved.end(), [&](const Saved& saved) {
    return saved.selective && !(saved.for_weights && training.frozen);
  });
}

void check(const Training& training) {
  if (!(training.expert_imbalance >= 1) || std::isinf(training.expert_imbalance))
    throw InvalidInput(
        concat("[training] expert imbalance must be at least 1 and finite, got ", training.expert_imbalance));
}

void check(const Sequences& sequences) {
  check_above("count", sequences.count);
  check_above("tokens", sequences.tokens);
  if (!(sequences.text >= 0) || std::isinf(sequences.text))
    throw InvalidInput(concat("[sequences] text must be at least 0 and finite, got ", sequences.text));
  if (sequences.merge < 1)
    throw InvalidInput(concat("[sequences] merge must be at least 1, got ", sequences.merge));
}

LayerTime& LayerTime::operator+=(const LayerTime& other) {
  forward += other.forward;
  input += other.input;
  weight += other.weight;
  again += other.again;
  links += other.links;
  return *this;
}

LayerTime layer_time(const Layer& layer, const Sequences& sequences, const Parallel& parallel,
                     const Training& training, const Hardware& hardware, const Efficiency& efficiency) {
  check(sequences);
  check(parallel);
  check(training);
  check(hardware);
  check(efficiency);
  LayerTime time;
  double selective = 0;
  for (const auto& part : layer.parts) {
    auto seconds = seconds_of(part, sequences, parallel, training, hardware, efficiency);
    time.forward += seconds.forward;
    time.input += seconds.input;
    if (!training.frozen) time.weight += seconds.weight;
    if (runs_again(part, training)) selective += seconds.forward;
  }
  auto tensor = tensor_traffic(layer, sequences, parallel, hardware);
  auto expert = expert_traffic(layer, sequences, parallel, training, hardware);
  double forward_links = (tensor.forward + expert.forward) / efficiency.links;
  double backward_links = (tensor.backward + expert.backward) / efficiency.links;
  bool recomputes = has_attention(layer);
  if (recomputes && training.recompute == Recompute::selective) time.again = selective;
  if (recomputes && training.recompute == Recompute::full) {
    time.again = time.forward + forward_links;
    backward_links += forward_links;
    time.input -= forward_links;
  }
  time.forward += forward_links;
  time.links = forward_links;
  if (training.frozen && !training.passes_gradient) {
    time.input = time.weight = time.again = 0;
    return time;
  }
  time.input += time.again + backward_links;
  time.links += backward_links;
  return time;
}

}  // namespace bigmac::cost
