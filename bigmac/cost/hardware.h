#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bigmac::cost {

// A link of one GPU, in one direction.
struct Link {
  double latency = 0;    // seconds, before the first byte
  double bandwidth = 0;  // bytes a second; may be infinite

  double seconds(double bytes) const { return latency + bytes / bandwidth; }
  bool operator==(const Link&) const = default;
};

// Vendors' figures of a GPU and its links, not what is reached of them (Efficiency).
struct Hardware {
  std::string name;
  double peak = 0;              // FLOP/s, dense bf16
  double memory = 0;            // bytes
  double memory_bandwidth = 0;  // bytes a second
  Link inside;                  // between GPUs of a node
  Link between;                 // between nodes; every GPU has its own
  int64_t gpus_per_node = 8;

  // The link between GPUs of groups of `span` consecutive ones, the first group at the start of a node. Where
  // span does not divide the node, some group lies on two.
  const Link& link(int64_t span) const { return span > 0 && gpus_per_node % span == 0 ? inside : between; }
  bool operator==(const Hardware&) const = default;
};

// The SXM models with 8 GPUs a node, from NVIDIA's data sheets:
//
//          dense bf16    memory    its bandwidth   NVLink, one direction   network a GPU
//   H800   989 TFLOP/s   80 GiB    3.35 TB/s       200 GB/s                400 Gb/s
//   H100   989           80        3.35            450                     400
//   H200   989           141       4.8             450                     400
//   A100   312           80        2.039           300                     200
//
// NVLink is half of the sheets' figures, which add both directions up. Sheets call memory GB, but these are
// GiB: drivers report 79.6 GiB of an H100 and 140.4 of an H200. Latencies are no vendor's figures: 3 us
// inside a node and 10 us between nodes, the size that collectives' tests show for the smallest messages.
// Throws InvalidInput with the nearest known name.
Hardware hardware_from_name(std::string_view name);
std::vector<std::string> known_hardware();

// The part of the vendor's figure that work reaches, each above 0 and at most 1. They differ by module and
// are inputs: measure yours.
struct Efficiency {
  double linear = 0.6;     // dense matrix products
  double experts = 0.4;    // matrix products of experts: many small ones
  double attention = 0.5;  // softmax(q k^T) v
  double memory = 0.7;     // what only moves bytes
  double links = 0.8;      // collectives and messages

  bool operator==(const Efficiency&) const = default;
};

// InvalidInput as "<where> peak must be above 0, got -1": where a figure is NaN, not above 0 (latencies:
// below 0), or infinite where that says nothing (all but bandwidths of links).
void check(const Hardware& hardware, std::string_view where = "[hardware]");
// InvalidInput as "<where> linear must be above 0 and at most 1, got 1.5".
void check(const Efficiency& efficiency, std::string_view where = "[efficiency]");

}  // namespace bigmac::cost
