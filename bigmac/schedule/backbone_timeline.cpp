#include "bigmac/schedule/backbone_timeline.h"

#include <algorithm>

#include "bigmac/schedule/sends.h"
#include "bigmac/schedule/timing.h"

namespace bigmac {
namespace {

Costs backbone_only(Costs costs) {
  costs.modules.clear();
  return costs;
}

}  // namespace

BackboneTimeline::BackboneTimeline(Schedule base, const Costs& nominal)
    : table(std::move(base)),
      starts(table.operators.size()),
      ends(table.operators.size()),
      receivers(table.operators.size(), kNone),
      before(table.operators.size()),
      work(size_t(table.ranks()), 0) {
  Dependencies dependencies(table);
  run(dependencies, backbone_only(nominal));
  find_links(dependencies);
}

void BackboneTimeline::run(const Dependencies& dependencies, const Costs& nominal) {
  Durations durations(table, nominal);
  std::vector<double> end_by_id;
  auto next = table.row_begin;
  run_table(table, dependencies, durations, durations.latency(), end_by_id,
            [&](int rank, const Operator&, double start, double end) {
              starts[next[rank]] = start;
              ends[next[rank]++] = end;
              work[rank] += end - start;
              length = std::max(length, end);
            });
}

void BackboneTimeline::find_links(const Dependencies& dependencies) {
  auto for_each = [&](auto&& visit) {
    for (int rank = 0; rank < table.ranks(); ++rank)
      for (int64_t o = table.row_begin[rank]; o < table.row_begin[rank + 1]; ++o) visit(rank, int32_t(o));
  };
  std::vector<int32_t> offsets(size_t(dependencies.count()), kNone);
  for_each([&](int rank, int32_t o) { offsets[dependencies.of(rank, table.operators[o])] = o; });
  auto posted_after = receives_posted_after(table);
  for_each([&](int rank, int32_t o) {
    if (o > table.row_begin[rank]) before[o].in_row = o - 1;
    dependencies.for_each_receiver(rank, table.operators[o], [&](int64_t id, int to) {
      receivers[o] = offsets[id];
      before[offsets[id]].sender = o;
      int32_t first = posted_after[offsets[id]];
      if (to != rank && first > 0 && o + 1 < table.row_begin[rank + 1])
        before[o + 1].post = int32_t(table.row_begin[to]) + first - 1;
    });
  });
  int64_t last = dependencies.stages() - 1;
  first_rank = dependencies.rank_of(0);
  last_rank = dependencies.rank_of(last);
  for (int64_t m = 0; m < table.step.microbatches; ++m) {
    first_forward.push_back(offsets[dependencies.forward_of(0, m)]);
    first_backward.push_back(offsets[dependencies.backward_of(0, m)]);
    last_forward.push_back(offsets[dependencies.forward_of(last, m)]);
    last_backward.push_back(offsets[dependencies.backward_of(last, m)]);
  }
}

}  // namespace bigmac
