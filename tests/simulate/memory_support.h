#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "bigmac/simulate/links.h"
#include "bigmac/simulate/memory.h"
#include "bigmac/simulate/simulate.h"
#include "tests/simulate/support.h"

namespace bigmac {

inline constexpr double kGiB = 1024.0 * 1024 * 1024;

inline Bytes random_bytes(Random& random, const Step& step) {
  auto some = [&](size_t count) {
    std::vector<double> list;
    for (size_t i = 0; i < count; ++i)
      list.push_back(integer(random, 0, 3) == 0 ? 0 : uniform(random, 0, 10));
    return list;
  };
  auto one_or = [&](size_t count) { return some(integer(random, 0, 1) == 0 ? 1 : count); };
  auto stages = size_t(step.stages());
  Bytes bytes{.stage = one_or(stages),
              .stage_work = one_or(stages),
              .forward_work = one_or(stages),
              .item = one_or(step.modules.size()),
              .item_work = one_or(step.modules.size()),
              .item_out = one_or(step.modules.size()),
              .boundary = uniform(random, 0, 5)};
  for (int64_t rank = 0; rank < step.ranks; ++rank)
    bytes.constant.push_back({{"parameters", uniform(random, 0, 20)}, {"gradients", uniform(random, 0, 20)}});
  return bytes;
}

// memory.h in words: every stretch of time for which a rank holds something.
struct Stretch {
  double from, to, bytes;
};
class MemoryReference {
 public:
  MemoryReference(const Schedule& schedule, const Timeline& timeline, const Bytes& bytes)
      : schedule_(schedule), bytes_(bytes), held_(timeline.rows.size()) {
    for (size_t rank = 0; rank < timeline.rows.size(); ++rank)
      for (const auto& slice : timeline.rows[rank].operators) {
        const Operator& op = slice.op;
        int64_t where = op.module == Module::backbone ? stage_of(int64_t(rank), op.chunk) : -1;
        ran_[{op.module, op.phase, where, op.index}] = slice;
      }
    const Step& step = schedule.step;
    for (int64_t s = 0; s < step.stages(); ++s)
      for (int64_t m = 0; m < step.microbatches; ++m) add_stage(s, m);
    for (size_t i = 0; i < schedule.shares.list.size(); ++i) add_share(int64_t(i));
    for (size_t rank = 0; rank < held_.size(); ++rank) {
      double constant = 0;
      if (!bytes.constant.empty())
        for (const auto& holder : bytes.constant[bytes.constant.size() == 1 ? 0 : rank])
          constant += holder.bytes;
      held_[rank].push_back({timeline.start, std::numeric_limits<double>::infinity(), constant});
    }
  }

  double at(int rank, double time) const {
    double sum = 0;
    for (const auto& stretch : held_[size_t(rank)])
      if (stretch.from <= time && time < stretch.to) sum += stretch.bytes;
    return sum;
  }
  // All moments at which something begins or ends.
  std::set<double> moments(int rank) const {
    std::set<double> times;
    for (const auto& stretch : held_[size_t(rank)]) {
      times.insert(stretch.from);
      if (std::isfinite(stretch.to)) times.insert(stretch.to);
    }
    return times;
  }

 private:
  int64_t stage_of(int64_t rank, int64_t chunk) const {
    for (int64_t s = 0; s < schedule_.step.stages(); ++s)
      if (rank_of_stage(schedule_.step, s) == rank && chunk-- == 0) return s;
    return -1;
  }
  const Slice* find(Module module, Phase phase, int64_t stage, int64_t index) const {
    auto found = ran_.find({module, phase, stage, uint32_t(index)});
    return found == ran_.end() ? nullptr : &found->second;
  }
  const Slice& backbone(Phase phase, int64_t s, int64_t m) const {
    return *find(Module::backbone, phase, s, m);
  }
  // What gives the gradient, and what ends the backward.
  const Slice& gradient(int64_t s, int64_t m) const {
    auto* whole = find(Module::backbone, Phase::backward, s, m);
    return whole ? *whole : backbone(Phase::input, s, m);
  }
  const Slice& last(int64_t s, int64_t m) const {
    auto* weight = find(Module::backbone, Phase::weight, s, m);
    return weight ? *weight : backbone(Phase::backward, s, m);
  }
  static double of(const std::vector<double>& list, size_t n) {
    return list.empty() ? 0 : list[list.size() == 1 ? 0 : n];
  }
  void hold(int64_t rank, double from, double to, double bytes) {
    held_[size_t(rank)].push_back({from, to, bytes});
  }

  void add_stage(int64_t s, int64_t m) {
    const Step& step = schedule_.step;
    int64_t rank = rank_of_stage(step, s);
    auto n = size_t(s);
    const Slice& forward = backbone(Phase::forward, s, m);
    hold(rank, forward.start, last(s, m).end, of(bytes_.stage, n));
    hold(rank, forward.start, forward.end, of(bytes_.forward_work, n));
    hold(rank, gradient(s, m).start, last(s, m).end, of(bytes_.stage_work, n));
    if (s > 0 && rank_of_stage(step, s - 1) != rank)
      hold(rank, backbone(Phase::forward, s - 1, m).end, forward.end, bytes_.boundary);
    if (s + 1 < step.stages() && rank_of_stage(step, s + 1) != rank)
      hold(rank, gradient(s + 1, m).end, gradient(s, m).end, bytes_.boundary);
  }

  void add_share(int64_t i) {
    const Share& share = schedule_.shares.list[size_t(i)];
    const Step& step = schedule_.step;
    auto n = size_t(share.module);
    const auto& module = step.modules[n];
    bool generates = module.kind == Module::generator;
    const Slice& first = *find(module.kind, generates ? Phase::generate : Phase::forward, -1, i);
    bool frozen = !module.trained;
    const Slice& second = generates || frozen ? first : *find(module.kind, Phase::backward, -1, i);
    int64_t end = generates ? step.stages() - 1 : 0, rank = rank_of_stage(step, end);
    for (uint32_t number : schedule_.shares.items_of(share)) {
      const Item& item = module.items[number];
      int64_t m = item.microbatch;
      double out = item.size * of(bytes_.item_out, n);
      hold(share.rank, first.start, second.end, item.size * of(bytes_.item, n));
      if (!frozen) hold(share.rank, second.start, second.end, item.size * of(bytes_.item_work, n));
      if (!frozen)
        hold(share.rank, generates ? backbone(Phase::forward, end, m).end : gradient(0, m).end, second.end,
             out);
      hold(rank, first.end, generates ? gradient(end, m).end : backbone(Phase::forward, 0, m).end, out);
    }
  }

  const Schedule& schedule_;
  const Bytes& bytes_;
  std::map<std::tuple<Module, Phase, int64_t, uint32_t>, Slice> ran_;
  std::vector<std::vector<Stretch>> held_;  // by rank
};

inline Timeline random_timeline(Random& random, const Schedule& schedule, const Costs& costs) {
  Links links{.exchange = Exchange(integer(random, 0, 2)), .inside = {uniform(random, 0, 0.3), 0}};
  if (integer(random, 0, 1) == 0) links.inside.latency = 0;
  return simulate(schedule, costs, links);
}

}  // namespace bigmac
