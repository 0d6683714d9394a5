#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/schedule/sends.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

inline constexpr uint64_t kSeed = 20250611;
using Random = std::mt19937_64;

inline double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

inline int64_t integer(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// A backbone-only step: 1f1b for one chunk, else interleaved.
inline Step backbone_step(int64_t ranks, int64_t chunks, int64_t microbatches, int64_t group = 0) {
  Step step;
  step.ranks = ranks;
  step.chunks = chunks;
  step.microbatches = microbatches;
  step.base = chunks == 1 ? Base::one_f_one_b : Base::interleaved;
  step.group = group;
  return step;
}

// The same, nested; every microbatch has an item for the modules that are there.
inline Step nested_step(int64_t ranks, int64_t chunks, int64_t microbatches, bool encoder, bool generator) {
  Step step = backbone_step(ranks, chunks, microbatches);
  step.arrangement = Arrangement::nested;
  if (encoder) step.encoder.assign(size_t(microbatches), 1);
  if (generator) step.generator.assign(size_t(microbatches), 1);
  return step;
}

inline void keep_a_random_half(Random& random, std::vector<uint8_t>& flags) {
  for (auto& flag : flags) flag = uint8_t(integer(random, 0, 1));
}

inline Step without_nesting(Step step) {
  step.arrangement = Arrangement::llm_only;
  return step;
}

// For SCOPED_TRACE.
inline std::string describe(const Step& step, uint64_t seed = kSeed) {
  return concat("P=", step.ranks, " V=", step.chunks, " M=", step.microbatches, " G=", step.group,
                " W=", step.warmup_units, " ", name(step.arrangement), step.has_encoder() ? " encoder" : "",
                step.has_generator() ? " generator" : "", " seed=", seed);
}

inline Schedule make_table(const Step& step, const std::vector<std::vector<Operator>>& rows) {
  Schedule schedule{.step = step, .operators = {}, .row_begin = {0}, .units = {}};
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

inline bool unit_has(const Schedule& schedule, const Unit& unit, int64_t rank) {
  const auto& flags = unit.module == Module::encoder ? schedule.step.encoder : schedule.step.generator;
  return flags[size_t(unit.index * schedule.step.ranks + rank)] != 0;
}

// A second reading of DESIGN.md, sections 2 and 3, which shares nothing with bigmac/schedule but the table
// itself: which operators a step has, what each needs, and when it can start at the earliest.
class Oracle {
 public:
  explicit Oracle(const Schedule& schedule, Sends sends = Sends::buffered) : schedule_(schedule) {
    index();
    if (!complete_) return;
    add_rows_and_dependencies();
    if (sends == Sends::blocking) add_blocking_sends();
    sort();
  }

  // Every operator of the step once, on its own rank, and no other.
  bool complete() const { return complete_; }
  // Of a complete table: whether no order runs all of it.
  bool deadlocks() const { return order_.size() != schedule_.operators.size(); }

  // Of a complete table without deadlock: when each operator, in the order of schedule.operators, starts if
  // operators take duration(rank, op). The last entry is the length of the step.
  template <class Duration>
  std::vector<double> starts(const Duration& duration, double latency = 0) const {
    std::vector<double> start(schedule_.operators.size() + 1, 0.0);
    for (int64_t node : order_) {
      double end = start[node] + duration(rank_[node], schedule_.operators[node]);
      start.back() = std::max(start.back(), end);
      for (int64_t e = first_[node]; e < first_[node + 1]; ++e)
        start[edges_[e].to] = std::max(start[edges_[e].to], end + (edges_[e].message ? latency : 0));
    }
    return start;
  }
  template <class Duration>
  double length(const Duration& duration, double latency = 0) const {
    return starts(duration, latency).back();
  }

  // Whether what stands before a unit's places is closed under predecessors.
  bool cuts_consistently(const Unit& unit) const {
    auto before = [&](int64_t node) {
      return node - schedule_.row_begin[rank_[node]] < unit.place[rank_[node]];
    };
    for (const auto& edge : edges_)
      if (edge.dependency && before(edge.to) && !before(edge.from)) return false;
    return true;
  }

 private:
  struct Edge {
    int64_t from, to;
    bool dependency;  // else by order in the row or by a blocking send
    bool message;     // between two ranks
  };
  enum Kind { kForward, kBackward, kEncoderForward, kEncoderBackward, kGenerate, kKinds };

  int64_t& node(Kind kind, int64_t stage, int64_t microbatch) {
    const Step& step = schedule_.step;
    return nodes_[(kind * step.stages() + stage) * step.microbatches + microbatch];
  }
  bool encodes(int64_t m) const { return nests() && step().has_encoder() && step().encoder[m]; }
  bool generates(int64_t m) const { return nests() && step().has_generator() && step().generator[m]; }
  bool nests() const { return step().arrangement != Arrangement::llm_only; }
  const Step& step() const { return schedule_.step; }

  void index() {
    int64_t P = step().ranks, M = step().microbatches;
    nodes_.assign(size_t(kKinds * step().stages() * M), -1);
    rank_.resize(schedule_.operators.size());
    complete_ = false;
    for (int rank = 0; rank < P; ++rank)
      for (int64_t n = schedule_.row_begin[rank]; n < schedule_.row_begin[rank + 1]; ++n) {
        const Operator& op = schedule_.operators[n];
        rank_[n] = rank;
        Kind kind = op.phase == Phase::generate  ? kGenerate
                    : op.phase == Phase::forward ? (op.module == Module::encoder ? kEncoderForward : kForward)
                    : op.module == Module::encoder ? kEncoderBackward
                                                   : kBackward;
        if ((op.module == Module::generator) != (kind == kGenerate)) return;
        if (op.microbatch >= M || op.chunk >= step().chunks) return;
        if (op.module != Module::backbone) {
          bool has = op.module == Module::encoder ? encodes(op.microbatch) : generates(op.microbatch);
          if (!has || op.chunk != 0 || op.microbatch % P != rank) return;
        }
        int64_t stage = op.module == Module::backbone ? op.chunk * P + rank : 0;
        if (node(kind, stage, op.microbatch) != -1) return;
        node(kind, stage, op.microbatch) = n;
      }
    int64_t expected = 2 * step().stages() * M;
    for (int64_t m = 0; m < M; ++m) expected += (encodes(m) ? 2 : 0) + (generates(m) ? 1 : 0);
    complete_ = int64_t(schedule_.operators.size()) == expected;
  }

  void need(int64_t to, int64_t from) { edges_.push_back({from, to, true, rank_[from] != rank_[to]}); }
  void after(int64_t to, int64_t from) { edges_.push_back({from, to, false, false}); }

  void add_rows_and_dependencies() {
    for (int rank = 0; rank < step().ranks; ++rank)
      for (int64_t n = schedule_.row_begin[rank] + 1; n < schedule_.row_begin[rank + 1]; ++n) after(n, n - 1);
    int64_t last = step().stages() - 1;
    for (int64_t m = 0; m < step().microbatches; ++m) {
      for (int64_t s = 0; s <= last; ++s) {
        if (s > 0) need(node(kForward, s, m), node(kForward, s - 1, m));
        if (s < last) need(node(kBackward, s, m), node(kBackward, s + 1, m));
        need(node(kBackward, s, m), node(kForward, s, m));
      }
      if (encodes(m)) {
        need(node(kForward, 0, m), node(kEncoderForward, 0, m));
        need(node(kEncoderBackward, 0, m), node(kEncoderForward, 0, m));
        need(node(kEncoderBackward, 0, m), node(kBackward, 0, m));
      }
      if (generates(m)) {
        need(node(kGenerate, 0, m), node(kForward, last, m));
        need(node(kBackward, last, m), node(kGenerate, 0, m));
      }
    }
  }

  // sends.h in words: a rank starts its next backbone operator only when the receive of what the last one
  // sent stands posted, that is when the receiver has run its previous backbone operator of that direction; a
  // message that goes round between the last and the first rank, G-P operators of that direction earlier. A
  // unit's messages all have one end on stage 0's rank (encoder) or the last stage's (generator): both ends
  // leave the unit's place only when the other has come to it, and the receiver of its outputs when they are
  // there.
  void add_blocking_sends() {
    int64_t M = step().microbatches, last = step().stages() - 1;
    std::vector<int64_t> next(schedule_.operators.size(), -1), before = next;
    for (int rank = 0; rank < step().ranks; ++rank) {
      int64_t previous = -1;
      std::vector<int64_t> of_phase[2];
      for (int64_t n = schedule_.row_begin[rank]; n < schedule_.row_begin[rank + 1]; ++n) {
        const Operator& op = schedule_.operators[n];
        if (op.module != Module::backbone) continue;
        if (previous >= 0) next[previous] = n;
        auto& ran = of_phase[op.phase == Phase::backward];
        int64_t posted_after = int64_t(ran.size()) - 1;
        if (step().chunks > 1 && rank == (op.phase == Phase::forward ? 0 : step().ranks - 1)) {
          int64_t group = step().group == 0 ? step().ranks : step().group;
          int64_t whole = step().microbatches / group * group;
          posted_after -= (op.microbatch < whole ? group : step().microbatches - whole) - step().ranks;
        }
        if (posted_after >= 0) before[n] = ran[posted_after];
        ran.push_back(n);
        previous = n;
      }
    }
    auto send = [&](int64_t from, int64_t to) {
      if (rank_[from] != rank_[to] && next[from] >= 0 && before[to] >= 0) after(next[from], before[to]);
    };
    for (int64_t m = 0; m < M; ++m)
      for (int64_t s = 0; s < last; ++s) {
        send(node(kForward, s, m), node(kForward, s + 1, m));
        send(node(kBackward, s + 1, m), node(kBackward, s, m));
      }
    for (const auto& unit : schedule_.units) {
      int64_t root = unit.module == Module::encoder ? 0 : step().ranks - 1;
      auto leaves_after = [&](int64_t rank, int64_t other, int64_t count) {
        int64_t leaving = schedule_.row_begin[rank] + unit.place[rank] + unit_has(schedule_, unit, rank);
        int64_t reached = schedule_.row_begin[other] + unit.place[other] + count - 1;
        if (leaving < schedule_.row_begin[rank + 1] && reached >= schedule_.row_begin[other])
          after(leaving, reached);
      };
      for (int64_t rank = 0; rank < step().ranks; ++rank) {
        if (rank == root || !unit_has(schedule_, unit, rank)) continue;
        leaves_after(rank, root, 0);
        leaves_after(root, rank, unit.phase == Phase::backward ? 0 : 1);
      }
    }
  }

  // Kahn's algorithm.
  void sort() {
    size_t count = schedule_.operators.size();
    std::vector<int64_t> waits(count, 0);
    first_.assign(count + 1, 0);
    for (const auto& edge : edges_) {
      ++waits[edge.to];
      ++first_[edge.from + 1];
    }
    for (size_t n = 0; n < count; ++n) first_[n + 1] += first_[n];
    std::vector<Edge> sorted(edges_.size());
    auto place = first_;
    for (const auto& edge : edges_) sorted[place[edge.from]++] = edge;
    edges_ = std::move(sorted);
    std::deque<int64_t> ready;
    for (size_t n = 0; n < count; ++n)
      if (waits[n] == 0) ready.push_back(int64_t(n));
    while (!ready.empty()) {
      int64_t n = ready.front();
      ready.pop_front();
      order_.push_back(n);
      for (int64_t e = first_[n]; e < first_[n + 1]; ++e)
        if (--waits[edges_[e].to] == 0) ready.push_back(edges_[e].to);
    }
  }

  const Schedule& schedule_;
  bool complete_ = false;
  std::vector<int64_t> nodes_;
  std::vector<int> rank_;
  std::vector<Edge> edges_;
  std::vector<int64_t> first_, order_;
};

// Durations for every operator of a step: backbone by stage and phase, nested by microbatch and phase.
struct RandomDurations {
  int64_t ranks = 1;
  std::vector<double> forward, backward, encoder[2], generator;

  double operator()(int rank, const Operator& op) const {
    bool backwards = op.phase == Phase::backward;
    if (op.module == Module::backbone) return (backwards ? backward : forward)[op.chunk * ranks + rank];
    if (op.module == Module::encoder) return encoder[backwards][op.microbatch];
    return generator[op.microbatch];
  }
};

// Backbone uniform in [0.1, 3] by stage; items log-normal with a sigma of up to 2, as sizes of pictures are.
inline RandomDurations random_durations(Random& random, const Step& step) {
  RandomDurations out;
  out.ranks = step.ranks;
  for (int64_t s = 0; s < step.stages(); ++s) {
    out.forward.push_back(uniform(random, 0.1, 3));
    out.backward.push_back(uniform(random, 0.1, 3));
  }
  std::lognormal_distribution<double> size(0, uniform(random, 0, 2));
  for (int64_t m = 0; m < step.microbatches; ++m) {
    out.encoder[0].push_back(0.5 * size(random));
    out.encoder[1].push_back(size(random));
    out.generator.push_back(3 * size(random));
  }
  return out;
}

// Sum over a table's units of the slowest rank's time in the unit.
template <class Duration>
double slowest_times(const Schedule& schedule, const Duration& duration) {
  double sum = 0;
  for (const auto& unit : schedule.units) {
    double slowest = 0;
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      if (unit_has(schedule, unit, rank))
        slowest = std::max(slowest, duration(rank, schedule.row(rank)[unit.place[rank]]));
    sum += slowest;
  }
  return sum;
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

}  // namespace bigmac
