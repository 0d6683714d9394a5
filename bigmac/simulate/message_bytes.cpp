#include "bigmac/simulate/message_bytes.h"

#include <cmath>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

void check_figure(const char* what, double value) {
  if (!std::isfinite(value) || value < 0)
    throw InvalidInput(concat("[links] ", what, " must be a finite number of at least 0, got ", value));
}

void check_links(const Step& step, const Links& links) {
  check_figure("the latency inside a node", links.inside.latency);
  check_figure("the time per byte inside a node", links.inside.time_per_byte);
  check_figure("the latency between nodes", links.between.latency);
  check_figure("the time per byte between nodes", links.between.time_per_byte);
  check_figure("a stage's bytes", links.stage_bytes);
  for (double bytes : links.item_bytes) check_figure("an item's bytes", bytes);
  if (!links.node_of_rank.empty() && int64_t(links.node_of_rank.size()) != step.ranks)
    throw InvalidInput(concat("[links] the nodes need one value for each of ", step.ranks,
                              " ranks, or none where all are on one node, got ", links.node_of_rank.size()));
  for (size_t rank = 0; rank < links.node_of_rank.size(); ++rank)
    if (links.node_of_rank[rank] < 0)
      throw InvalidInput(concat("[links] rank ", rank, " is on node ", links.node_of_rank[rank],
                                "; a node's number must be at least 0"));
  size_t known = links.item_bytes.size();
  if (known > 1 && known != step.modules.size())
    throw InvalidInput(concat("[links] items' bytes are given for ", known,
                              " encoders and generators, the step has ", step.modules.size()));
}

}  // namespace

MessageBytes::MessageBytes(const Schedule& schedule, const Dependencies& dependencies, const Links& links)
    : ranks_(schedule.step.ranks), stage_(links.stage_bytes) {
  const Step& step = schedule.step;
  check_links(step, links);
  if (schedule.shares.list.empty()) return;
  for (auto& list : by_rank_) list.assign(size_t(step.microbatches * ranks_), 0.0);
  for (const auto& share : schedule.shares.list) {
    const auto& module = schedule.module_of(share);
    auto& list = by_rank_[module.kind == Module::generator];
    size_t n = links.item_bytes.size() == 1 ? 0 : size_t(share.module);
    double of_one = links.item_bytes.empty() ? 0 : links.item_bytes[n];
    double bytes = 0;
    for (uint32_t item : schedule.shares.items_of(share)) {
      double of_item = module.items[item].size * of_one;
      bytes += of_item;
      if (module.trained) list[size_t(module.items[item].microbatch * ranks_ + share.rank)] += of_item;
    }
    share_.push_back(bytes);
  }
}

}  // namespace bigmac
