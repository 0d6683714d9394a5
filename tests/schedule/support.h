#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/schedule/costs.h"
#include "bigmac/schedule/sends.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

inline constexpr uint64_t kSeed = 20250611;
using Random = std::mt19937_64;

inline constexpr Base kBases[] = {Base::gpipe, Base::one_f_one_b, Base::interleaved,
                                  Base::zb_h1, Base::zb_v,        Base::dualpipe_v};

inline double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

inline int64_t integer(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

inline bool is_v_shaped(Base base) {
  return base == Base::zb_v || base == Base::dualpipe_v;
}

// The chunks that a base allows, up to `most`.
inline std::vector<int64_t> chunks_of(Base base, int64_t most) {
  if (base == Base::one_f_one_b || base == Base::zb_h1) return {1};
  if (is_v_shaped(base)) return {2};
  std::vector<int64_t> chunks;
  for (int64_t v = base == Base::gpipe ? 1 : 2; v <= most; ++v) chunks.push_back(v);
  return chunks;
}

inline Step step_of_base(Base base, int64_t ranks, int64_t chunks, int64_t microbatches, int64_t group = 0) {
  Step step;
  step.ranks = ranks;
  step.chunks = chunks;
  step.microbatches = microbatches;
  step.base = base;
  step.group = group;
  return step;
}

// A backbone-only step: 1f1b for one chunk, else interleaved.
inline Step backbone_step(int64_t ranks, int64_t chunks, int64_t microbatches, int64_t group = 0) {
  return step_of_base(chunks == 1 ? Base::one_f_one_b : Base::interleaved, ranks, chunks, microbatches,
                      group);
}

// The step, nested; every microbatch has an item of size 1 for the modules that are there.
inline Step nested(Step step, bool encoder, bool generator) {
  step.arrangement = Arrangement::nested;
  if (encoder) step.modules.push_back(one_item_each("image", Module::encoder, step.microbatches));
  if (generator) step.modules.push_back(one_item_each("picture", Module::generator, step.microbatches));
  return step;
}

inline Step nested_step(int64_t ranks, int64_t chunks, int64_t microbatches, bool encoder, bool generator) {
  return nested(backbone_step(ranks, chunks, microbatches), encoder, generator);
}

// Each encoder with a chance of one in `odds`.
inline void freeze_some(Random& random, Step& step, int64_t odds) {
  for (auto& module : step.modules)
    if (module.kind == Module::encoder) module.trained = integer(random, 1, odds) > 1;
}

inline void keep_a_random_half(Random& random, Step& step) {
  for (auto& module : step.modules) {
    std::vector<bool> kept;
    for (int64_t m = 0; m < step.microbatches; ++m) kept.push_back(integer(random, 0, 1) == 1);
    std::erase_if(module.items, [&](const Item& item) { return !kept[item.microbatch]; });
  }
}

// Half of the microbatches empty, the others with 1 to `most` items whose sizes are log-normal.
inline std::vector<Item> random_items(Random& random, int64_t microbatches, double sigma, int64_t most) {
  std::lognormal_distribution<double> size(0, sigma);
  std::vector<Item> items;
  for (int64_t m = 0; m < microbatches; ++m) {
    if (integer(random, 0, 1) == 0) continue;
    for (int64_t n = integer(random, 1, most); n > 0; --n) items.push_back({uint32_t(m), size(random)});
  }
  return items;
}

inline Step without_nesting(Step step) {
  step.arrangement = Arrangement::llm_only;
  step.modules.clear();
  return step;
}

// For SCOPED_TRACE.
inline std::string describe(const Step& step) {
  std::string text =
      concat(name(step.base), " ", shape(step), " G=", step.group, " k=", step.generator_unit, " ",
             name(step.arrangement), step.spread ? "" : " not spread", step.order.empty() ? "" : " permuted");
  for (const auto& module : step.modules)
    text += concat(" ", module.name, "(", module.items.size(), " items, W=", module.warmup_units,
                   module.trained ? "" : ", frozen", ")");
  return text;
}

inline Schedule make_table(const Step& step, const std::vector<std::vector<Operator>>& rows,
                           Shares shares = {}) {
  Schedule schedule;
  schedule.step = step;
  schedule.row_begin = {0};
  schedule.shares = std::move(shares);
  for (const auto& row : rows) {
    schedule.operators.insert(schedule.operators.end(), row.begin(), row.end());
    schedule.row_begin.push_back(int64_t(schedule.operators.size()));
  }
  return schedule;
}

inline std::vector<std::vector<Operator>> rows_of(const Schedule& schedule) {
  std::vector<std::vector<Operator>> rows;
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    rows.emplace_back(schedule.row(rank).begin(), schedule.row(rank).end());
  return rows;
}

// What is left of a table when its nested operators are taken out.
inline Schedule strip(const Schedule& schedule) {
  auto rows = rows_of(schedule);
  for (auto& row : rows) std::erase_if(row, [](const Operator& op) { return op.module != Module::backbone; });
  return make_table(without_nesting(schedule.step), rows);
}

// docs/schedule.md: "stage (global index s = chunk*P + rank)"; in a V rank r holds stages r and 2P-1-r.
inline int64_t stage_in_words(const Step& step, int64_t rank, int64_t chunk) {
  return is_v_shaped(step.base) && chunk == 1 ? 2 * step.ranks - 1 - rank : chunk * step.ranks + rank;
}
inline int64_t rank_in_words(const Step& step, int64_t stage) {
  return is_v_shaped(step.base) && stage >= step.ranks ? 2 * step.ranks - 1 - stage : stage % step.ranks;
}

// Which share a rank has of a unit.
class UnitShares {
 public:
  explicit UnitShares(const Schedule& schedule)
      : ranks_(schedule.step.ranks), units_(schedule.step.microbatches) {
    shares_.assign(size_t(int64_t(schedule.step.modules.size()) * units_ * ranks_), -1);
    for (size_t i = 0; i < schedule.shares.list.size(); ++i) {
      const Share& share = schedule.shares.list[i];
      shares_[size_t((share.module * units_ + share.unit) * ranks_ + share.rank)] = int64_t(i);
    }
  }
  int64_t of(const Unit& unit, int64_t rank) const {  // -1 for none
    return shares_[size_t((unit.module * units_ + unit.index) * ranks_ + rank)];
  }

 private:
  int64_t ranks_, units_;
  std::vector<int64_t> shares_;
};

// A second reading of docs/schedule.md and of sends.h, which shares nothing with bigmac/schedule
// but the data of the table: which operators a step has, what each needs, and when it can start at the
// earliest.
class Oracle {
 public:
  explicit Oracle(const Schedule& schedule, Sends sends = Sends::buffered) : schedule_(schedule) {
    complete_ = index() && has_all();
    if (!complete_) return;
    add_rows_and_dependencies();
    if (sends == Sends::blocking) add_blocking_sends();
    sort();
  }

  // Every item on one rank and every operator of the step once, on its own rank, and no other.
  bool complete() const { return complete_; }
  // Of a complete table: whether no order runs all of it.
  bool deadlocks() const { return order_.size() != schedule_.operators.size(); }

  // Of a complete table without deadlock: when each operator, in the order of schedule.operators, starts if
  // operators take duration(rank, op). The last entry is the length of the step.
  template <class Duration>
  std::vector<double> starts(const Duration& duration, double latency = 0) const {
    std::vector<double> start(schedule_.operators.size() + 1, 0.0);
    for (int32_t node : order_) {
      double end = start[node] + duration(rank_[node], schedule_.operators[node]);
      start.back() = std::max(start.back(), end);
      for (int32_t e = first_[node]; e < first_[node + 1]; ++e) {
        auto to = size_t(targets_[e].to);
        start[to] = std::max(start[to], end + (targets_[e].message ? latency : 0));
      }
    }
    return start;
  }
  template <class Duration>
  double length(const Duration& duration, double latency = 0) const {
    return starts(duration, latency).back();
  }

  // The longest chain of dependencies, whatever the rows say.
  template <class Duration>
  double longest_chain(const Duration& duration, double latency = 0) const {
    std::vector<double> start(schedule_.operators.size(), 0.0);
    double longest = 0;
    for (int32_t node : order_) {
      double end = start[size_t(node)] + duration(rank_[size_t(node)], schedule_.operators[size_t(node)]);
      longest = std::max(longest, end);
      for (int32_t e = first_[size_t(node)]; e < first_[size_t(node) + 1]; ++e) {
        const Target& target = targets_[size_t(e)];
        if (!target.dependency) continue;
        start[size_t(target.to)] = std::max(start[size_t(target.to)], end + (target.message ? latency : 0));
      }
    }
    return longest;
  }

  // Whether what stands before a unit's places is closed under predecessors.
  bool cuts_consistently(const Unit& unit) const {
    auto before = [&](int32_t node) {
      return node - schedule_.row_begin[rank_[node]] < unit.place[rank_[node]];
    };
    return std::none_of(edges_.begin(), edges_.end(), [&](const Edge& edge) {
      return edge.dependency && before(edge.to) && !before(edge.from);
    });
  }

  // The same for all units at once, and that no rank's places fall along their order.
  bool all_cut_consistently() const {
    std::vector<int32_t> first_cut(
        schedule_.operators.size());  // the first unit that has it before its place
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      size_t unit = 0;
      for (size_t u = 1; u < schedule_.units.size(); ++u)
        if (schedule_.units[u].place[rank] < schedule_.units[u - 1].place[rank]) return false;
      for (int64_t n = schedule_.row_begin[rank]; n < schedule_.row_begin[rank + 1]; ++n) {
        while (unit < schedule_.units.size() &&
               schedule_.units[unit].place[rank] <= n - schedule_.row_begin[rank])
          ++unit;
        first_cut[size_t(n)] = int32_t(unit);
      }
    }
    return std::none_of(edges_.begin(), edges_.end(), [&](const Edge& edge) {
      return edge.dependency && first_cut[size_t(edge.from)] > first_cut[size_t(edge.to)];
    });
  }

 private:
  struct Edge {
    int32_t from, to;
    bool dependency;  // else by order in the row or by a blocking send
    bool message;     // between two ranks
  };
  struct Target {
    int32_t to;
    bool dependency, message;
  };
  enum Kind { kForward, kBackward, kInput, kWeight, kKinds };

  const Step& step() const { return schedule_.step; }
  int32_t& node(Kind kind, int64_t stage, int64_t m) {
    return nodes_[size_t((kind * stages_ + stage) * step().microbatches + m)];
  }
  int32_t& share_node(size_t share, bool backward) { return share_nodes_[2 * share + (backward ? 1 : 0)]; }
  // What hands the gradient of (stage, m) down: a whole backward, or its first half.
  int32_t gradient(int64_t stage, int64_t m) {
    return node(node(kBackward, stage, m) >= 0 ? kBackward : kInput, stage, m);
  }

  // False where an operator does not belong or is there twice.
  bool index() {
    stages_ = step().ranks * step().chunks;
    nodes_.assign(size_t(kKinds * stages_ * step().microbatches), -1);
    share_nodes_.assign(2 * schedule_.shares.list.size(), -1);
    rank_.resize(schedule_.operators.size());
    for (int rank = 0; rank < step().ranks; ++rank)
      for (int64_t n = schedule_.row_begin[rank]; n < schedule_.row_begin[rank + 1]; ++n) {
        rank_[size_t(n)] = rank;
        int32_t* slot = slot_of(rank, schedule_.operators[size_t(n)]);
        if (slot == nullptr || *slot != -1) return false;
        *slot = int32_t(n);
      }
    return true;
  }

  int32_t* slot_of(int rank, const Operator& op) {
    if (op.module == Module::backbone) {
      if (op.index >= step().microbatches || op.chunk >= step().chunks) return nullptr;
      bool one_piece =
          step().base == Base::gpipe || step().base == Base::one_f_one_b || step().base == Base::interleaved;
      Kind kind = kForward;
      if (op.phase == Phase::backward) kind = kBackward;
      if (op.phase == Phase::input) kind = kInput;
      if (op.phase == Phase::weight) kind = kWeight;
      if (op.phase == Phase::generate || (one_piece && kind >= kInput)) return nullptr;
      return &node(kind, stage_in_words(step(), rank, op.chunk), op.index);
    }
    if (op.index >= schedule_.shares.list.size() || op.chunk != 0) return nullptr;
    const Share& share = schedule_.shares.list[op.index];
    if (share.rank != rank || step().modules[size_t(share.module)].kind != op.module) return nullptr;
    if (op.module == Module::generator)
      return op.phase == Phase::generate ? &share_node(op.index, false) : nullptr;
    if (op.phase != Phase::forward && op.phase != Phase::backward) return nullptr;
    if (op.phase == Phase::backward && !step().modules[size_t(share.module)].trained) return nullptr;
    return &share_node(op.index, op.phase == Phase::backward);
  }

  bool has_all() {
    for (int64_t s = 0; s < stages_; ++s)
      for (int64_t m = 0; m < step().microbatches; ++m) {
        bool whole = node(kBackward, s, m) >= 0, input = node(kInput, s, m) >= 0,
             weight = node(kWeight, s, m) >= 0;
        if (node(kForward, s, m) < 0 || input != weight || whole == input) return false;
      }
    std::vector<std::vector<int>> times;
    for (const auto& module : step().modules) times.emplace_back(module.items.size(), 0);
    for (size_t i = 0; i < schedule_.shares.list.size(); ++i) {
      const Share& share = schedule_.shares.list[i];
      const auto& module = step().modules[size_t(share.module)];
      bool generates = module.kind == Module::generator;
      bool no_second = generates || !module.trained;
      if (share_node(i, false) < 0 || (share_node(i, true) < 0) != no_second || share.count == 0)
        return false;
      int64_t unit = generates && step().generator_unit != 0 ? step().generator_unit : step().ranks;
      for (uint32_t j = 0; j < share.count; ++j) {
        uint32_t item = schedule_.shares.items[share.first + j];
        if (int64_t(module.items[item].microbatch) / unit != share.unit) return false;
        ++times[size_t(share.module)][item];
      }
    }
    int expected = step().arrangement == Arrangement::llm_only ? 0 : 1;
    for (const auto& module : times)
      for (int count : module)
        if (count != expected) return false;
    return true;
  }

  void need(int32_t to, int32_t from) {
    edges_.push_back({from, to, true, rank_[size_t(from)] != rank_[size_t(to)]});
  }
  void after(int64_t to, int64_t from) { edges_.push_back({int32_t(from), int32_t(to), false, false}); }

  void add_rows_and_dependencies() {
    edges_.reserve(6 * schedule_.operators.size());
    for (int rank = 0; rank < step().ranks; ++rank)
      for (int64_t n = schedule_.row_begin[rank] + 1; n < schedule_.row_begin[rank + 1]; ++n) after(n, n - 1);
    int64_t last = stages_ - 1;
    for (int64_t m = 0; m < step().microbatches; ++m)
      for (int64_t s = 0; s <= last; ++s) {
        if (s > 0) need(node(kForward, s, m), node(kForward, s - 1, m));
        if (s < last) need(gradient(s, m), gradient(s + 1, m));
        need(gradient(s, m), node(kForward, s, m));
        if (node(kWeight, s, m) >= 0) need(node(kWeight, s, m), node(kInput, s, m));
      }
    for (size_t i = 0; i < schedule_.shares.list.size(); ++i) {
      const Share& share = schedule_.shares.list[i];
      const auto& module = step().modules[size_t(share.module)];
      bool generates = module.kind == Module::generator;
      bool trained_encoder = !generates && module.trained;
      if (trained_encoder) need(share_node(i, true), share_node(i, false));
      std::vector<uint32_t> microbatches;
      for (uint32_t j = 0; j < share.count; ++j)
        microbatches.push_back(module.items[schedule_.shares.items[share.first + j]].microbatch);
      std::sort(microbatches.begin(), microbatches.end());
      microbatches.erase(std::unique(microbatches.begin(), microbatches.end()), microbatches.end());
      for (uint32_t m : microbatches) {
        if (generates) {
          need(share_node(i, false), node(kForward, last, m));
          need(gradient(last, m), share_node(i, false));
        } else {
          need(node(kForward, 0, m), share_node(i, false));
          if (trained_encoder) need(share_node(i, true), gradient(0, m));
        }
      }
    }
  }

  // How many microbatches later than it arrives a value is used that goes round between the last rank and the
  // first: the interleaved group, of GPipe all microbatches, less the P that are on their way.
  int64_t used_later(uint32_t m) const {
    int64_t group = step().microbatches;
    if (step().base == Base::interleaved) group = step().group == 0 ? step().ranks : step().group;
    int64_t whole = step().microbatches / group * group;
    return std::max(int64_t{0}, (m < whole ? group : step().microbatches - whole) - step().ranks);
  }

  // sends.h in words: a rank starts its next backbone operator only when the receive of what the last one
  // sent stands posted, that is when the receiver has run its previous backbone operator of that direction
  // (and, in a V, of that chunk); a message that goes round, as much earlier as it is used later. A unit's
  // messages all have one end on stage 0's rank (encoder) or the last stage's (generator): both ends leave
  // the unit's place only when the other has come to it, and the receiver of its outputs when they are there.
  void add_blocking_sends() {
    std::vector<int64_t> next(schedule_.operators.size(), -1), before = next;
    bool goes_round = step().base == Base::interleaved || step().base == Base::gpipe;
    for (int rank = 0; rank < step().ranks; ++rank) {
      int64_t previous = -1;
      std::vector<int64_t> forwards[2], backwards[2];  // by facing chunk
      for (int64_t n = schedule_.row_begin[rank]; n < schedule_.row_begin[rank + 1]; ++n) {
        const Operator& op = schedule_.operators[size_t(n)];
        if (op.module != Module::backbone) continue;
        if (previous >= 0) next[size_t(previous)] = n;
        previous = n;
        if (op.phase == Phase::weight) continue;
        int side = is_v_shaped(step().base) ? op.chunk : 0;
        auto& ran = op.phase == Phase::forward ? forwards[side] : backwards[side];
        int64_t posted_after = int64_t(ran.size()) - 1;
        if (goes_round && rank == (op.phase == Phase::forward ? 0 : step().ranks - 1))
          posted_after -= used_later(op.index);
        if (posted_after >= 0) before[size_t(n)] = ran[size_t(posted_after)];
        ran.push_back(n);
      }
    }
    auto send = [&](int32_t from, int32_t to) {
      if (rank_[size_t(from)] == rank_[size_t(to)]) return;
      if (next[size_t(from)] >= 0 && before[size_t(to)] >= 0) after(next[size_t(from)], before[size_t(to)]);
    };
    for (int64_t m = 0; m < step().microbatches; ++m)
      for (int64_t s = 0; s + 1 < stages_; ++s) {
        send(node(kForward, s, m), node(kForward, s + 1, m));
        send(gradient(s + 1, m), gradient(s, m));
      }
    UnitShares shares(schedule_);
    for (const auto& unit : schedule_.units) {
      bool encodes = step().modules[size_t(unit.module)].kind == Module::encoder;
      int64_t root = rank_in_words(step(), encodes ? 0 : stages_ - 1);
      auto leaves_after = [&](int64_t rank, int64_t other, int64_t count) {
        int64_t own = shares.of(unit, rank) >= 0 ? 1 : 0;
        int64_t leaving = schedule_.row_begin[rank] + unit.place[rank] + own;
        int64_t reached = schedule_.row_begin[other] + unit.place[other] + count - 1;
        if (leaving < schedule_.row_begin[rank + 1] && reached >= schedule_.row_begin[other])
          after(leaving, reached);
      };
      for (int64_t rank = 0; rank < step().ranks; ++rank) {
        if (rank == root || shares.of(unit, rank) < 0) continue;
        leaves_after(rank, root, 0);
        leaves_after(root, rank, unit.phase == Phase::backward ? 0 : 1);
      }
    }
  }

  // Kahn's algorithm.
  void sort() {
    size_t count = schedule_.operators.size();
    std::vector<int32_t> waits(count, 0);
    first_.assign(count + 1, 0);
    for (const auto& edge : edges_) {
      ++waits[size_t(edge.to)];
      ++first_[size_t(edge.from) + 1];
    }
    for (size_t n = 0; n < count; ++n) first_[n + 1] += first_[n];
    targets_.resize(edges_.size());
    auto place = first_;
    for (const auto& edge : edges_)
      targets_[size_t(place[size_t(edge.from)]++)] = {edge.to, edge.dependency, edge.message};
    order_.reserve(count);
    for (size_t n = 0; n < count; ++n)
      if (waits[n] == 0) order_.push_back(int32_t(n));
    for (size_t done = 0; done < order_.size(); ++done)
      for (int32_t e = first_[size_t(order_[done])]; e < first_[size_t(order_[done]) + 1]; ++e)
        if (--waits[size_t(targets_[size_t(e)].to)] == 0) order_.push_back(targets_[size_t(e)].to);
  }

  const Schedule& schedule_;
  bool complete_ = false;
  int64_t stages_ = 0;
  std::vector<int32_t> nodes_, share_nodes_;
  std::vector<int> rank_;
  std::vector<Edge> edges_;
  std::vector<Target> targets_;
  std::vector<int32_t> first_, order_;
};

// costs.h in words: what the operators of a table take.
class Reckoned {
 public:
  Reckoned(const Schedule& schedule, const Costs& costs) : chunks_(schedule.step.chunks) {
    const Step& step = schedule.step;
    for (int64_t rank = 0; rank < step.ranks; ++rank)
      for (int64_t chunk = 0; chunk < step.chunks; ++chunk) {
        auto stage = size_t(stage_in_words(step, rank, chunk));
        auto one = [&](const std::vector<double>& list) { return list.size() == 1 ? list[0] : list[stage]; };
        double backward = one(costs.backward);
        double weight = costs.weight.empty() ? backward / 2 : one(costs.weight);
        backbone_.push_back({one(costs.forward), backward, backward - weight, weight});
      }
    for (const auto& share : schedule.shares.list) {
      double size = 0;
      for (uint32_t j = 0; j < share.count; ++j)
        size += step.modules[size_t(share.module)].items[schedule.shares.items[share.first + j]].size;
      ModuleCosts cost;
      if (!costs.modules.empty()) cost = costs.modules[costs.modules.size() == 1 ? 0 : size_t(share.module)];
      shares_.push_back({size * cost.forward, size * cost.backward, size * (cost.forward + cost.backward)});
    }
  }

  double operator()(int rank, const Operator& op) const {
    if (op.module == Module::backbone) {
      const auto& stage = backbone_[size_t(rank * chunks_ + op.chunk)];
      if (op.phase == Phase::forward) return stage.forward;
      if (op.phase == Phase::backward) return stage.backward;
      return op.phase == Phase::input ? stage.input : stage.weight;
    }
    const auto& share = shares_[op.index];
    if (op.phase == Phase::generate) return share.both;
    return op.phase == Phase::forward ? share.forward : share.backward;
  }

 private:
  struct Backbone {
    double forward, backward, input, weight;
  };
  struct Nested {
    double forward, backward, both;
  };
  int64_t chunks_;
  std::vector<Backbone> backbone_;  // by rank and chunk
  std::vector<Nested> shares_;
};

// Backbone costs that differ by stage, uniform in [0.1, 3].
inline Costs random_stage_costs(Random& random, const Step& step) {
  Costs costs{.forward = {}, .backward = {}, .weight = {}, .modules = {}};
  for (int64_t s = 0; s < step.ranks * step.chunks; ++s) {
    costs.forward.push_back(uniform(random, 0.1, 3));
    costs.backward.push_back(uniform(random, 0.1, 3));
    costs.weight.push_back(costs.backward.back() * uniform(random, 0.2, 0.8));
  }
  for (size_t n = 0; n < step.modules.size(); ++n)
    costs.modules.push_back({uniform(random, 0.01, 2), uniform(random, 0.01, 4)});
  return costs;
}

inline double longest_backbone(const Costs& costs) {
  return std::max(*std::max_element(costs.forward.begin(), costs.forward.end()),
                  *std::max_element(costs.backward.begin(), costs.backward.end()));
}

// Sum over a table's units of the slowest rank's time in the unit.
template <class Duration>
double slowest_times(const Schedule& schedule, const Duration& duration) {
  UnitShares shares(schedule);
  double sum = 0;
  for (const auto& unit : schedule.units) {
    double slowest = 0;
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      int64_t share = shares.of(unit, rank);
      if (share < 0) continue;
      Operator op{uint32_t(share), 0, schedule.step.modules[size_t(unit.module)].kind, unit.phase};
      slowest = std::max(slowest, duration(rank, op));
    }
    sum += slowest;
  }
  return sum;
}

// The most forwards of a rank's row whose activations are held, and by module the most shares.
struct Held {
  int64_t forwards = 0;
  std::vector<int64_t> shares;
};
inline Held most_held(const Schedule& schedule, int rank) {
  Held most{0, std::vector<int64_t>(schedule.step.modules.size(), 0)}, now = most;
  for (const auto& op : schedule.row(rank)) {
    bool lets_go = op.phase == Phase::backward || op.phase == Phase::weight;
    bool takes = op.phase == Phase::forward || op.phase == Phase::generate;
    int64_t change = lets_go ? -1 : takes ? 1 : 0;
    if (op.module == Module::backbone) {
      most.forwards = std::max(most.forwards, now.forwards += change);
      continue;
    }
    auto module = size_t(schedule.shares.list[op.index].module);
    most.shares[module] = std::max(most.shares[module], now.shares[module] += change);
    if (op.phase == Phase::generate || !schedule.step.modules[module].trained) --now.shares[module];
  }
  return most;
}

// The message of the InvalidInput that `call` throws; nullopt if it throws none.
template <class Call>
std::optional<std::string> refusal(Call&& call) {
  try {
    call();
    return std::nullopt;
  } catch (const InvalidInput& error) {
    return error.what();
  }
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A number of the environment, for runs that are longer than `make test`.
inline uint64_t from_environment(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace bigmac
