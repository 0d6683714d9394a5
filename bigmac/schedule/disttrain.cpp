#include "bigmac/schedule/disttrain.h"

#include <algorithm>
#include <numeric>

#include "bigmac/common/error.h"
#include "bigmac/schedule/length.h"
#include "bigmac/schedule/spread.h"

namespace bigmac {
namespace {

constexpr double kRounding = 1e-9;  // of a step's time

double total(const std::vector<double>& values, int64_t stages) {
  double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return values.size() == 1 ? sum * double(stages) : sum;
}

bool has_items(const Step& step, Module kind) {
  return std::any_of(step.modules.begin(), step.modules.end(),
                     [&](const auto& module) { return module.kind == kind && !module.items.empty(); });
}

// Each microbatch's items of a module over its ranks.
Shares shares_of(const Step& step, const RankSplit& split) {
  Shares shares;
  for (size_t n = 0; n < step.modules.size(); ++n) {
    const auto& module = step.modules[n];
    bool encodes = module.kind == Module::encoder;
    int64_t first_rank = encodes ? 0 : split.encoder + split.backbone;
    int64_t ranks = encodes ? split.encoder : split.generator;
    for (uint32_t first = 0, last; first < module.items.size(); first = last) {
      uint32_t m = module.items[first].microbatch;
      std::vector<double> sizes;
      for (last = first; last < module.items.size() && module.items[last].microbatch == m; ++last)
        sizes.push_back(module.items[last].size);
      auto rank_of = longest_first(sizes, ranks);
      for (int32_t r = 0; r < ranks; ++r) {
        auto begin = uint32_t(shares.items.size());
        for (uint32_t i = 0; i < sizes.size(); ++i)
          if (rank_of[i] == r) shares.items.push_back(first + i);
        auto count = uint32_t(shares.items.size()) - begin;
        if (count > 0)
          shares.list.push_back(
              {int32_t(n), int32_t(m / step.unit_size(module.kind)), int32_t(first_rank) + r, begin, count});
      }
    }
  }
  return shares;
}

// The time of the busiest rank of one kind of module, by how many ranks it has, from 0 to P.
std::vector<double> busiest_by_ranks(const Step& step, const Costs& costs, Module kind) {
  Step only = only_items_of(kind, step);
  std::vector<double> busiest{0};
  for (int64_t ranks = 1; ranks <= step.ranks; ++ranks) {
    Shares shares =
        shares_of(only, kind == Module::encoder ? RankSplit{ranks, 0, 0} : RankSplit{0, 0, ranks});
    std::vector<double> busy(size_t(ranks), 0);
    for (const auto& share : shares.list) {
      auto cost = costs_of_module(step, costs, size_t(share.module));
      for (uint32_t item : shares.items_of(share))
        busy[share.rank] += step.modules[share.module].items[item].size * (cost.forward + cost.backward);
    }
    busiest.push_back(*std::max_element(busy.begin(), busy.end()));
  }
  return busiest;
}

double step_time(const Step& step, const Costs& costs, const RankSplit& split) {
  return length_of(disttrain_schedule(step, split), costs_for_stages(step, split.backbone, costs));
}

}  // namespace

Costs costs_for_stages(const Step& step, int64_t stages, const Costs& costs) {
  Costs out = costs;
  for (auto* list : {&out.forward, &out.backward, &out.weight})
    if (!list->empty()) *list = {total(*list, step.ranks * step.chunks) / double(stages)};
  return out;
}

Schedule disttrain_schedule(const Step& declared, const RankSplit& split) {
  bool encodes = has_items(declared, Module::encoder), generates = has_items(declared, Module::generator);
  if (split.encoder + split.backbone + split.generator != declared.ranks || split.backbone < 1 ||
      (split.encoder < 1) == encodes || (split.generator < 1) == generates)
    throw InvalidInput(concat("[disttrain] the split ", split.encoder, "/", split.backbone, "/",
                              split.generator, " does not give each module a part of P=", declared.ranks,
                              " ranks"));
  Step step = declared;
  step.base = Base::one_f_one_b;
  step.group = 0;
  step.chunks = 1;
  step.stage_ranks.resize(size_t(split.backbone));
  std::iota(step.stage_ranks.begin(), step.stage_ranks.end(), int32_t(split.encoder));
  Schedule out{.step = step,
               .operators = {},
               .row_begin = {0},
               .shares = shares_of(step, split),
               .units = {},
               .overlapped = {}};
  Dependencies dependencies(out);
  int64_t count = step.microbatches;
  // One forward and one backward in turn behind as many forwards as there are stages to come.
  auto add_row = [&](int64_t behind, auto forward, auto backward) {
    int64_t warmup = std::min(behind, count);
    for (int64_t m = 0; m < warmup; ++m) forward(m);
    for (int64_t m = 0; m < count; ++m) {
      if (m + warmup < count) forward(m + warmup);
      backward(m);
    }
  };
  for (int rank = 0; rank < step.ranks; ++rank) {
    auto add_shares = [&](std::span<const int32_t> shares, auto make) {
      for (int32_t share : shares)
        if (out.shares.list[share].rank == rank) out.operators.push_back(make(share));
    };
    auto add_backwards = [&](int64_t m) {
      for (int32_t share : dependencies.encoder_shares(m))
        if (out.shares.list[share].rank == rank && dependencies.has_backward(share))
          out.operators.push_back(encoder_backward(share));
    };
    int64_t stage = rank - split.encoder, behind = split.backbone + (generates ? 1 : 0);
    if (rank < split.encoder)
      add_row(
          behind, [&](int64_t m) { add_shares(dependencies.encoder_shares(m), encoder_forward); },
          add_backwards);
    else if (stage < split.backbone)
      add_row(
          behind - stage - 1, [&](int64_t m) { out.operators.push_back(backbone_forward(0, m)); },
          [&](int64_t m) { out.operators.push_back(backbone_backward(0, m)); });
    else
      for (int64_t m = 0; m < count; ++m) add_shares(dependencies.generator_shares(m), generate);
    out.row_begin.push_back(int64_t(out.operators.size()));
  }
  return out;
}

RankSplit best_split(const Step& step, const Costs& costs) {
  bool encodes = has_items(step, Module::encoder), generates = has_items(step, Module::generator);
  int64_t kinds = 1 + encodes + generates;
  if (step.ranks < kinds)
    throw InvalidInput(concat("[disttrain] needs a rank for each of ", kinds, " kinds of module, got ",
                              shape(step), "; take P=", kinds, " or more"));
  struct Candidate {
    RankSplit split;
    double bound;  // the time of the busiest rank: no step with this split is shorter
  };
  std::vector<Candidate> candidates;
  auto encoder = busiest_by_ranks(step, costs, Module::encoder);
  auto generator = busiest_by_ranks(step, costs, Module::generator);
  int64_t most_encoder = encodes ? step.ranks : 0, most_generator = generates ? step.ranks : 0;
  for (int64_t e = encodes ? 1 : 0; e <= most_encoder; ++e)
    for (int64_t g = generates ? 1 : 0; g <= most_generator; ++g) {
      RankSplit split{e, step.ranks - e - g, g};
      if (split.backbone < 1) continue;
      Costs spread_costs = costs_for_stages(step, split.backbone, costs);
      double backbone = double(step.microbatches) * (spread_costs.forward[0] + spread_costs.backward[0]);
      candidates.push_back({split, std::max({backbone, encoder[e], generator[g]})});
    }
  // The bounds show which splits can still win.
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.bound != b.bound ? a.bound < b.bound : a.split.backbone > b.split.backbone;
  });
  RankSplit best = candidates.front().split;
  double shortest = step_time(step, costs, best);
  for (const auto& [split, bound] : candidates) {
    double equal = shortest * (1 + kRounding);
    if (bound > equal) break;
    double time = step_time(step, costs, split);
    if (time > equal || (time >= shortest * (1 - kRounding) && split.backbone <= best.backbone)) continue;
    shortest = std::min(time, shortest);
    best = split;
  }
  return best;
}

}  // namespace bigmac
