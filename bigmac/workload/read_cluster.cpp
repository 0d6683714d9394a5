#include "bigmac/workload/read_cluster.h"

#include "bigmac/simulate/memory.h"
#include "bigmac/workload/fields.h"

namespace bigmac {
namespace {

constexpr int64_t kMostGpus = 1 << 20;

cost::Link read_link(YamlSection section, cost::Link link, bool own) {
  if (own) section.need("latency").need("bandwidth");
  section.read("latency", link.latency, seconds_from);
  read_above_zero(section, "bandwidth", link.bandwidth, bandwidth_from);
  section.done();
  return link;
}

// A preset's name, or figures, which may start from a preset.
cost::Hardware read_hardware(YamlSection& cluster) {
  cost::Hardware hardware;
  auto node = cluster.need("hardware").node("hardware");
  if (!cluster.has("hardware")) return hardware;
  if (!node.IsMap()) {
    cluster.read("hardware", hardware, cost::hardware_from_name);
    return hardware;
  }
  auto section = cluster.section("hardware");
  section.read("preset", hardware, cost::hardware_from_name);
  bool own = !section.has("preset");
  if (own)
    for (const char* key : {"name", "peak", "memory", "memory_bandwidth", "inside", "between"})
      section.need(key);
  section.read("name", hardware.name);
  read_above_zero(section, "peak", hardware.peak, flops_from);
  read_above_zero(section, "memory", hardware.memory, bytes_from);
  read_above_zero(section, "memory_bandwidth", hardware.memory_bandwidth, bandwidth_from);
  if (section.has("inside")) hardware.inside = read_link(section.section("inside"), hardware.inside, own);
  if (section.has("between")) hardware.between = read_link(section.section("between"), hardware.between, own);
  read_count(section, "gpus_per_node", hardware.gpus_per_node, kMostGpus);
  section.done();
  return hardware;
}

}  // namespace

void read_cluster(YamlSection section, Workload& workload) {
  section.need("gpus");
  read_count(section, "gpus", workload.gpus, kMostGpus);
  workload.hardware = read_hardware(section);
  workload.memory = workload.hardware.memory;
  read_above_zero(section, "memory", workload.memory, bytes_from);
  section.read("reserved", workload.reserved, bytes_from);
  section.read("exchange", workload.exchange, exchange_from_name);
  section.read("overlap", workload.overlap);
  check(section, "overlap", workload.overlap >= 0 && workload.overlap <= 1, "must be from 0 to 1",
        workload.overlap);
  section.done();
  check(section, "reserved", workload.reserved < workload.memory,
        "must be below the memory of " + bytes_text(workload.memory), bytes_text(workload.reserved));
  int64_t node = workload.hardware.gpus_per_node;
  check(section, "gpus", workload.gpus <= node || workload.gpus % node == 0,
        concat("must be whole nodes of ", node, " GPUs (", workload.gpus / node * node, " or ",
               (workload.gpus / node + 1) * node, ")"),
        workload.gpus);
}

}  // namespace bigmac
