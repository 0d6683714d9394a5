#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/cost/hardware.h"
#include "bigmac/cost/model.h"

// Layers that tests build from parts, and hardware with round figures.
namespace bigmac {

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

void expect_told(const auto& call, const std::vector<std::string>& parts) {
  auto error = error_of(call);
  for (const auto& part : parts)
    EXPECT_NE(error.find(part), error.npos) << "lacks \"" << part << "\" in: " << error;
}

inline cost::Saved saved(double width, double bytes, bool cut) {
  cost::Saved tensor;
  tensor.width = width;
  tensor.bytes = bytes;
  tensor.cut = cut;
  return tensor;
}

inline cost::Saved score(int64_t heads, double bytes) {
  auto tensor = saved(double(heads), bytes, true);
  tensor.per_key = tensor.selective = true;
  return tensor;
}

inline cost::Saved of_weights(cost::Saved tensor) {
  tensor.for_weights = true;
  return tensor;
}

inline cost::Part part(cost::PartKind kind, int64_t in, int64_t out, cost::Cut cut = cost::Cut::none,
                       std::vector<cost::Saved> tensors = {}) {
  cost::Part made;
  made.name = "part";
  made.kind = kind;
  made.in = in;
  made.out = out;
  made.cut = cut;
  made.saved = std::move(tensors);
  return made;
}

inline cost::Part linear_part(int64_t in, int64_t out, cost::Cut cut = cost::Cut::none,
                              std::vector<cost::Saved> tensors = {}) {
  return part(cost::PartKind::linear, in, out, cut, std::move(tensors));
}

inline cost::Part attention_part(int64_t heads, int64_t kv_heads, int64_t head_dim,
                                 std::vector<cost::Saved> tensors = {}) {
  auto made = part(cost::PartKind::attention, 0, 0, cost::Cut::heads, std::move(tensors));
  made.heads = heads;
  made.kv_heads = kv_heads;
  made.head_dim = head_dim;
  return made;
}

inline cost::Part expert_part(int64_t in, int64_t out, int64_t experts, int64_t top_k) {
  auto made = linear_part(in, out);
  made.experts = experts;
  made.top_k = top_k;
  return made;
}

// The layer of GPT-3 in fp16 with dropout, tensor by tensor as Korthikanti et al. 2022 list them.
inline cost::Layer gpt(int64_t h, int64_t a) {
  using cost::Cut, cost::PartKind;
  double width = double(h);
  auto bytes2 = [&](double times, bool cut) { return saved(times * width, 2, cut); };
  return {
      "layer",
      {part(PartKind::norm, h, h, Cut::none, {bytes2(1, false), of_weights(bytes2(1, false))}),
       linear_part(h, 3 * h, Cut::columns, {bytes2(2, true), bytes2(1, true)}),
       attention_part(a, a, h / a, {score(a, 2), score(a, 1), score(a, 2), of_weights(bytes2(1, true))}),
       linear_part(h, h, Cut::rows), part(PartKind::elementwise, h, h, Cut::none, {saved(width, 1, false)}),
       part(PartKind::norm, h, h, Cut::none, {bytes2(1, false), of_weights(bytes2(1, false))}),
       linear_part(h, 4 * h, Cut::columns, {bytes2(4, true)}),
       part(PartKind::elementwise, 4 * h, 4 * h, Cut::columns, {of_weights(bytes2(4, true))}),
       linear_part(4 * h, h, Cut::rows),
       part(PartKind::elementwise, h, h, Cut::none, {saved(width, 1, false)})}};
}

// Qwen3-30B-A3B's.
inline cost::Layer qwen3_moe() {
  using cost::Cut, cost::PartKind;
  auto head_norm = [](int64_t heads) {
    auto made = part(PartKind::norm, 128, 128);
    made.per_row = heads;
    return made;
  };
  return {"moe layer",
          {part(PartKind::norm, 2048, 2048), linear_part(2048, 4096, Cut::columns),
           linear_part(2048, 512, Cut::columns), linear_part(2048, 512, Cut::columns), head_norm(32),
           head_norm(4), attention_part(32, 4, 128), linear_part(4096, 2048, Cut::rows),
           part(PartKind::norm, 2048, 2048), linear_part(2048, 128), expert_part(2048, 768, 128, 8),
           expert_part(2048, 768, 128, 8), expert_part(768, 2048, 128, 8)}};
}

inline cost::Hardware round_hardware() {
  return {"round", 1e15, 1e11, 1e12, {1e-6, 1e11}, {1e-5, 2e10}, 8};
}

inline cost::Efficiency whole() {
  return {1, 1, 1, 1, 1};
}

}  // namespace bigmac
