#pragma once

#include <torch/types.h>

#include <vector>

namespace bigmac {

// What callers of Transport::make_group and Group hand in. All throw InvalidInput.

// Ranks are ascending, of 0..size-1, and `rank` is among them; returns its index.
int check_members(const std::vector<int>& ranks, int rank, int size);
// Contiguous, of a dtype that every transport can sum; returns them as one row without gradient.
torch::Tensor check_sum(const torch::Tensor& values);
// Values of all members' shards: contiguous, of the shard's dtype and device, `members` times as many.
struct Parts {
  torch::Tensor values, shard;  // as one row each, without gradient
};
Parts check_parts(const torch::Tensor& values, const torch::Tensor& shard, int members);

// A window's shard as one row without gradient; like the one that it replaces.
torch::Tensor check_shard(const torch::Tensor& shard);
torch::Tensor check_shard(const torch::Tensor& shard, const torch::Tensor& replaced);
// What a window's sums take: as check_sum, `members` times as many elements as the shard; any dtype.
torch::Tensor check_added(const torch::Tensor& values, const torch::Tensor& shard, int members);

}  // namespace bigmac
