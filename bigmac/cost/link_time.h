#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bigmac/cost/hardware.h"
#include "bigmac/cost/layer_bytes.h"
#include "bigmac/cost/parallel.h"

// Seconds that messages and collectives take at the vendor's figures of the links. Where a function takes an
// Efficiency, its seconds are divided by `links` of it.
namespace bigmac::cost {

// GPUs that exchange: `size` of them, `stride` apart.
struct Group {
  int64_t size = 1;
  int64_t stride = 1;

  bool operator==(const Group&) const = default;
};

// The groups of Parallel, in its numbering. Groups of a kind lie one behind the other from GPU 0 on.
Group tensor_group(const Parallel& parallel);       // tensor GPUs, 1 apart
Group data_group(const Parallel& parallel);         // data, tensor apart
Group expert_group(const Parallel& parallel);       // expert, 1 apart
Group expert_data_group(const Parallel& parallel);  // tensor data / expert, expert apart

// How many of a group share a node, for the worst of such groups: gcd(size stride, gpus_per_node) / stride,
// at least 1. A group lies within a node where that is its size.
int64_t in_node(const Group& group, const Hardware& hardware);

// Rings of n GPUs, m of them a node on k = n / m nodes. Every GPU sends (n - 1) / n of the bytes, at the
// inside bandwidth within a node; between nodes m rings run through m GPUs' own links, at the smaller of the
// inside bandwidth and m times the link's. A byte passes k - 1 links between nodes and n - k inside:
//   (k - 1) between.latency + (n - k) inside.latency + bytes (n - 1) / n / bandwidth
// `bytes` is the whole tensor, as it lies on every GPU behind an all-gather and before a reduce-scatter.
double all_gather_seconds(double bytes, const Group& group, const Hardware& hardware);
double reduce_scatter_seconds(double bytes, const Group& group, const Hardware& hardware);
double all_reduce_seconds(double bytes, const Group& group, const Hardware& hardware);  // one and the other

// `bytes` is what each GPU sends to all, itself included. All messages are under way at once, so it takes the
// longer of what goes within the node, bytes (m - 1) / n, and out of it, bytes (n - m) / n, each over the
// GPU's own link and with one latency.
double all_to_all_seconds(double bytes, const Group& group, const Hardware& hardware);

// From one GPU to another, by their numbers; nothing to itself.
double point_to_point_seconds(double bytes, int64_t from, int64_t to, const Hardware& hardware);

// The node of each pipeline rank, for links between them: two ranks share one where all their tensor * data
// GPUs do.
std::vector<int32_t> node_of_pipeline_rank(const Parallel& parallel, const Hardware& hardware);

// Once a step, after the last microbatch: gradients of the dense parameters over the data group, of the
// experts over theirs, one after the other. shard_optimizer: reduce-scatter of the gradients, and all-gather
// of the parameters behind the optimizer; else an all-reduce of the gradients. Nothing for frozen layers. How
// much of it is hidden behind computing is the caller's to say. Left out, since they are small: gradients of
// norms over the tensor group, and tied tables between the first and the last stage.
struct SyncTime {
  double gradients = 0;
  double parameters = 0;

  double all() const { return gradients + parameters; }
};
SyncTime gradient_sync(std::span<const Layer> layers, const Parallel& parallel, const Training& training,
                       const Precision& precision, bool shard_optimizer, const Hardware& hardware,
                       const Efficiency& efficiency);

// A module whose parameters are shared out over `shard` consecutive GPUs (FSDP), and copied over gpus / shard
// of such groups. Where tensor parallelism cuts it, `tensor` of the `shard` hold different parts already:
// each part is gathered over the shard / tensor GPUs that lie `tensor` apart. One collective a layer.
struct ShardTime {
  double gather = 0;    // of all its layers' parameters; once before a forward and once before a backward
  double reduce = 0;    // reduce-scatter of all its layers' gradients behind a backward
  double replicas = 0;  // once a step: all-reduce of a GPU's share of the gradients over the copies
};
// Throws InvalidInput naming both numbers where shard does not divide gpus, or tensor not shard.
ShardTime shard_time(std::span<const Layer> layers, int64_t gpus, int64_t shard, int64_t tensor,
                     const Training& training, const Precision& precision, const Hardware& hardware,
                     const Efficiency& efficiency);

// The optimizer reads gradient and states, and writes states and parameter: bytes a parameter (gradient + 2
// optimizer + parameter), of those whose states the GPU holds, at the memory bandwidth and its efficiency.
double optimizer_seconds(std::span<const Layer> layers, const Parallel& parallel, const Training& training,
                         const Precision& precision, bool shard_optimizer, const Hardware& hardware,
                         const Efficiency& efficiency);

}  // namespace bigmac::cost
