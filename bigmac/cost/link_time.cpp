#include "bigmac/cost/link_time.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bigmac/common/error.h"

namespace bigmac::cost {
namespace {

void check_bytes(double bytes) {
  if (!(bytes >= 0) || std::isinf(bytes))
    throw InvalidInput(concat("[links] bytes must be at least 0 and finite, got ", bytes));
}

void check(const Group& group) {
  if (group.size < 1)
    throw InvalidInput(concat("[links] size of a group must be at least 1, got ", group.size));
  if (group.stride < 1)
    throw InvalidInput(concat("[links] stride of a group must be at least 1, got ", group.stride));
}

double ring_seconds(double bytes, const Group& group, const Hardware& hardware) {
  check_bytes(bytes);
  check(hardware);
  check(group);
  if (group.size == 1) return 0;
  int64_t together = in_node(group, hardware);
  int64_t nodes = (group.size + together - 1) / together;
  double bandwidth = hardware.inside.bandwidth;
  if (nodes > 1) {
    double out = double(together) * hardware.between.bandwidth;
    bandwidth = together > 1 ? std::min(bandwidth, out) : out;
  }
  double size = double(group.size);
  return double(nodes - 1) * hardware.between.latency + double(group.size - nodes) * hardware.inside.latency +
         bytes * (size - 1) / size / bandwidth;
}

HeldParameters held_of(std::span<const Layer> layers, const Parallel& parallel) {
  HeldParameters held;
  for (const auto& layer : layers) held += held_parameters(layer, parallel);
  return held;
}

}  // namespace

Group tensor_group(const Parallel& parallel) {
  return {parallel.tensor, 1};
}

Group data_group(const Parallel& parallel) {
  return {parallel.data, parallel.tensor};
}

Group expert_group(const Parallel& parallel) {
  return {parallel.expert, 1};
}

Group expert_data_group(const Parallel& parallel) {
  return {parallel.expert_data(), parallel.expert};
}

int64_t in_node(const Group& group, const Hardware& hardware) {
  check(group);
  if (hardware.gpus_per_node < 1) check(hardware);
  return std::max<int64_t>(1, std::gcd(group.size * group.stride, hardware.gpus_per_node) / group.stride);
}

double all_gather_seconds(double bytes, const Group& group, const Hardware& hardware) {
  return ring_seconds(bytes, group, hardware);
}

double reduce_scatter_seconds(double bytes, const Group& group, const Hardware& hardware) {
  return ring_seconds(bytes, group, hardware);
}

double all_reduce_seconds(double bytes, const Group& group, const Hardware& hardware) {
  return reduce_scatter_seconds(bytes, group, hardware) + all_gather_seconds(bytes, group, hardware);
}

double all_to_all_seconds(double bytes, const Group& group, const Hardware& hardware) {
  check_bytes(bytes);
  check(hardware);
  int64_t together = in_node(group, hardware);
  double each = bytes / double(group.size);
  double inside = together > 1 ? hardware.inside.seconds(each * double(together - 1)) : 0;
  double between = together < group.size ? hardware.between.seconds(each * double(group.size - together)) : 0;
  return std::max(inside, between);
}

double point_to_point_seconds(double bytes, int64_t from, int64_t to, const Hardware& hardware) {
  check_bytes(bytes);
  check(hardware);
  if (from < 0 || to < 0)
    throw InvalidInput(concat("[links] GPUs are numbered from 0, got ", from < 0 ? from : to));
  if (from == to) return 0;
  bool same = from / hardware.gpus_per_node == to / hardware.gpus_per_node;
  return (same ? hardware.inside : hardware.between).seconds(bytes);
}

std::vector<int32_t> node_of_pipeline_rank(const Parallel& parallel, const Hardware& hardware) {
  check(parallel);
  check(hardware);
  int64_t gpus = parallel.tensor * parallel.data;
  std::vector<int32_t> nodes;
  for (int64_t rank = 0; rank < parallel.pipeline; ++rank) {
    bool whole = hardware.gpus_per_node % gpus == 0;
    nodes.push_back(int32_t(whole ? rank / (hardware.gpus_per_node / gpus) : rank));
  }
  return nodes;
}

SyncTime gradient_sync(std::span<const Layer> layers, const Parallel& parallel, const Training& training,
                       const Precision& precision, bool shard_optimizer, const Hardware& hardware,
                       const Efficiency& efficiency) {
  check(parallel);
  check(precision);
  check(hardware);
  check(efficiency);
  if (training.frozen) return {};
  auto held = held_of(layers, parallel);
  SyncTime time;
  auto add = [&](double elements, const Group& group) {
    if (elements == 0) return;
    time.gradients += reduce_scatter_seconds(elements * precision.gradient, group, hardware);
    if (shard_optimizer)
      time.parameters += all_gather_seconds(elements * precision.parameter, group, hardware);
    else
      time.gradients += all_gather_seconds(elements * precision.gradient, group, hardware);
  };
  add(held.dense, data_group(parallel));
  add(held.experts, expert_data_group(parallel));
  time.gradients /= efficiency.links;
  time.parameters /= efficiency.links;
  return time;
}

ShardTime shard_time(std::span<const Layer> layers, int64_t gpus, int64_t shard, int64_t tensor,
                     const Training& training, const Precision& precision, const Hardware& hardware,
                     const Efficiency& efficiency) {
  if (gpus < 1) throw InvalidInput(concat("[shard] GPUs must be at least 1, got ", gpus));
  if (shard < 1 || gpus % shard != 0)
    throw InvalidInput(
        concat("[shard] ", shard, " GPUs that share a module must divide the ", gpus, " GPUs"));
  if (tensor < 1 || shard % tensor != 0)
    throw InvalidInput(
        concat("[shard] tensor ", tensor, " must divide the ", shard, " GPUs that share a module"));
  check(precision);
  check(hardware);
  check(efficiency);
  ShardTime time;
  for (const auto& layer : layers) {
    double elements = held_parameters(layer, {.tensor = tensor}).all();
    if (elements == 0) continue;
    Group group{shard / tensor, tensor}, copies{gpus / shard, shard};
    time.gather += all_gather_seconds(elements * precision.parameter, group, hardware) / efficiency.links;
    if (training.frozen) continue;
    double gradients = elements * precision.gradient;
    time.reduce += reduce_scatter_seconds(gradients, group, hardware) / efficiency.links;
    time.replicas += all_reduce_seconds(gradients / double(group.size), copies, hardware) / efficiency.links;
  }
  return time;
}

double optimizer_seconds(std::span<const Layer> layers, const Parallel& parallel, const Training& training,
                         const Precision& precision, bool shard_optimizer, const Hardware& hardware,
                         const Efficiency& efficiency) {
  check(precision);
  check(hardware);
  check(efficiency);
  check(parallel);
  if (training.frozen) return 0;
  auto held = held_of(layers, parallel);
  double elements = shard_optimizer
                        ? held.dense / double(parallel.data) + held.experts / double(parallel.expert_data())
                        : held.all();
  double bytes = elements * (precision.gradient + 2 * precision.optimizer + precision.parameter);
  return bytes / (hardware.memory_bandwidth * efficiency.memory);
}

}  // namespace bigmac::cost
