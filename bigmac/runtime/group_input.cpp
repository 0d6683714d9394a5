#include "bigmac/runtime/group_input.h"

#include <algorithm>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

torch::Tensor row_of(const torch::Tensor& tensor, const char* name) {
  if (!tensor.defined()) throw InvalidInput(concat("[group] ", name, " is undefined"));
  if (!tensor.is_contiguous())
    throw InvalidInput(concat("[group] ", name, " must be contiguous, got sizes ", tensor.sizes(),
                              " with strides ", tensor.strides()));
  return tensor.detach().view({-1});
}

}  // namespace

int check_members(const std::vector<int>& ranks, int rank, int size) {
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] < 0 || ranks[i] >= size || (i > 0 && ranks[i] <= ranks[i - 1]))
      throw InvalidInput(concat("[group] ranks must be ascending and of 0..", size - 1, ", got ",
                                torch::IntArrayRef(std::vector<int64_t>(ranks.begin(), ranks.end()))));
  auto own = std::find(ranks.begin(), ranks.end(), rank);
  if (own == ranks.end())
    throw InvalidInput(concat("[group] rank ", rank, " makes a group that it is not in: ",
                              torch::IntArrayRef(std::vector<int64_t>(ranks.begin(), ranks.end()))));
  return int(own - ranks.begin());
}

torch::Tensor check_sum(const torch::Tensor& values) {
  auto row = row_of(values, "values");
  for (auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kHalf, torch::kInt64,
                     torch::kInt32, torch::kInt8, torch::kUInt8})
    if (row.scalar_type() == dtype) return row;
  throw InvalidInput(concat(
      "[group] sums are of Double, Float, BFloat16, Half, Long, Int, Char or Byte, got ", row.scalar_type()));
}

Parts check_parts(const torch::Tensor& values, const torch::Tensor& shard, int members) {
  Parts parts{row_of(values, "values"), row_of(shard, "shard")};
  if (parts.values.numel() != members * parts.shard.numel())
    throw InvalidInput(concat("[group] values must be ", members, " shards of ", parts.shard.numel(),
                              " elements, got ", parts.values.numel(), " elements"));
  if (values.scalar_type() != shard.scalar_type() || values.device() != shard.device())
    throw InvalidInput(concat("[group] values and shard must be of one dtype and device, got ",
                              values.scalar_type(), " on ", values.device(), " and ", shard.scalar_type(),
                              " on ", shard.device()));
  return parts;
}

torch::Tensor check_shard(const torch::Tensor& shard) {
  return row_of(shard, "shard");
}

torch::Tensor check_shard(const torch::Tensor& shard, const torch::Tensor& replaced) {
  auto row = row_of(shard, "shard");
  if (row.numel() != replaced.numel() || row.scalar_type() != replaced.scalar_type() ||
      row.device() != replaced.device())
    throw InvalidInput(concat("[group] a window of ", replaced.numel(), " elements of ",
                              replaced.scalar_type(), " on ", replaced.device(), " cannot hold a shard of ",
                              row.numel(), " elements of ", row.scalar_type(), " on ", row.device()));
  return row;
}

torch::Tensor check_added(const torch::Tensor& values, const torch::Tensor& shard, int members) {
  auto row = check_sum(values);
  if (row.numel() != members * shard.numel())
    throw InvalidInput(concat("[group] values must be parts of ", shard.numel(), " elements for ", members,
                              " members, got ", row.numel(), " elements"));
  return row;
}

}  // namespace bigmac
