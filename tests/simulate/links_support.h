#pragma once

#include <map>

#include "bigmac/schedule/messages.h"
#include "bigmac/simulate/links.h"
#include "tests/simulate/support.h"

namespace bigmac {

inline constexpr Exchange kExchanges[] = {Exchange::overlapped, Exchange::in_order, Exchange::batched};

inline Links random_links(Random& random, const Step& step, Exchange exchange) {
  Links links{.exchange = exchange};
  links.inside = {uniform(random, 0, 0.3), uniform(random, 0, 0.01)};
  links.between = {uniform(random, 0, 0.6), uniform(random, 0, 0.03)};
  for (int64_t rank = 0; rank < step.ranks; ++rank)
    links.node_of_rank.push_back(int32_t(integer(random, 0, 2)));
  links.stage_bytes = uniform(random, 0, 50);
  for (size_t n = 0; n < step.modules.size(); ++n) links.item_bytes.push_back(uniform(random, 0, 30));
  return links;
}

// links.h in words: what runs when, by raising times until nothing changes. Knows no release of a pair;
// nullopt where that would be needed.
class LinksReference {
 public:
  LinksReference(const Schedule& schedule, const Costs& costs, const Links& links)
      : schedule_(schedule), dependencies_(schedule), links_(links), duration_(schedule, costs) {
    latency_ = costs.latency;
    for (int rank = 0; rank < schedule.ranks(); ++rank) inboxes_.push_back(plan_inbox(schedule, rank));
  }

  std::optional<std::vector<double>> starts() {
    size_t operators = schedule_.operators.size();
    std::vector<double> start(operators, 0), before;
    for (size_t round = 0; round < operators + 2; ++round) {
      before = start;
      send(start);
      for (int rank = 0; rank < schedule_.ranks(); ++rank) {
        double free = 0;
        for (int64_t n = schedule_.row_begin[rank]; n < schedule_.row_begin[rank + 1]; ++n) {
          const Operator& op = schedule_.operators[size_t(n)];
          double ready = 0;
          dependencies_.for_each_predecessor(rank, op, [&](int64_t id, int from) {
            if (from != rank) ready = std::max(ready, arrivals_[{id, rank}]);
          });
          start[size_t(n)] = std::max(free, ready);
          free = start[size_t(n)] + duration_(rank, op) + blocked_[size_t(n)];
        }
      }
      if (start == before) return start;
    }
    return std::nullopt;
  }

 private:
  double link(int from, int to, double bytes) const {
    const auto& nodes = links_.node_of_rank;
    bool near = nodes.empty() || nodes[size_t(from)] == nodes[size_t(to)];
    const auto& time = near ? links_.inside : links_.between;
    return time.time_per_byte * bytes;
  }
  double latency(int from, int to) const {
    const auto& nodes = links_.node_of_rank;
    bool near = nodes.empty() || nodes[size_t(from)] == nodes[size_t(to)];
    return latency_ + (near ? links_.inside : links_.between).latency;
  }

  // Bytes of the items that the operator at one end runs and the microbatch at the other is of.
  double bytes_of(const Operator& op, int to) const {
    const auto& shares = schedule_.shares;
    auto of_items = [&](const Share& share, int64_t m) {
      double size = 0;
      for (uint32_t item : shares.items_of(share)) {
        const auto& at = schedule_.step.modules[size_t(share.module)].items[item];
        if (m < 0 || at.microbatch == m) size += at.size;
      }
      return size * links_.item_bytes[size_t(share.module)];
    };
    if (op.module != Module::backbone) return of_items(shares.list[op.index], -1);
    Module kind = op.phase == Phase::forward ? Module::generator : Module::encoder;
    if (stage_ != (op.phase == Phase::forward ? dependencies_.stages() - 1 : 0)) return links_.stage_bytes;
    double bytes = 0;
    for (const auto& share : shares.list)
      if (share.rank == to && schedule_.step.modules[size_t(share.module)].kind == kind &&
          schedule_.step.modules[size_t(share.module)].trained)
        bytes += of_items(share, op.index);
    return bytes;
  }

  void send(const std::vector<double>& start) {
    arrivals_.clear();
    blocked_.assign(start.size(), 0);
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      auto row = schedule_.row(rank);
      std::map<int, double> carried;
      std::map<int, double> outgoing;  // bytes by peer, of the exchange to come
      std::vector<std::pair<int64_t, int>> waiting;
      for (size_t p = 0; p < row.size(); ++p) {
        const Operator& op = row[p];
        auto n = size_t(schedule_.row_begin[rank]) + p;
        double end = start[n] + duration_(rank, op);
        int64_t id = dependencies_.of(rank, op);
        stage_ = op.module == Module::backbone ? dependencies_.stage(rank, op.chunk) : -1;
        for (int to = 0; to < schedule_.ranks(); ++to) {
          const auto& from = inboxes_[size_t(to)].from[size_t(rank)];
          if (std::find(from.begin(), from.end(), id) == from.end()) continue;
          double bytes = bytes_of(op, to), carry = link(rank, to, bytes);
          if (links_.exchange == Exchange::overlapped) {
            arrivals_[{id, to}] = end + latency(rank, to) + carry;
          } else if (links_.exchange == Exchange::in_order) {
            carried[to] = std::max(carried[to], end) + carry;
            arrivals_[{id, to}] = carried[to] + latency(rank, to);
          } else {
            outgoing[to] += bytes;
            waiting.push_back({id, to});
          }
        }
        if (links_.exchange != Exchange::batched) continue;
        bool paired = schedule_.step.chunks > 1 &&
                      op == Operator{op.index, op.chunk, Module::backbone, Phase::forward} &&
                      p + 1 < row.size() && row[p + 1].module == Module::backbone &&
                      (row[p + 1].phase == Phase::backward || row[p + 1].phase == Phase::input);
        if (paired) continue;
        for (const auto& [to, bytes] : outgoing)
          blocked_[n] = std::max(blocked_[n], latency(rank, to) + link(rank, to, bytes));
        for (const auto& message : waiting) arrivals_[message] = end + blocked_[n];
        waiting.clear();
        outgoing.clear();
      }
    }
  }

  const Schedule& schedule_;
  Dependencies dependencies_;
  Links links_;
  Durations duration_;
  double latency_ = 0;
  std::vector<Inbox> inboxes_;
  std::map<std::pair<int64_t, int>, double> arrivals_;  // by operator and receiving rank
  std::vector<double> blocked_;                         // behind each operator of the table
  int64_t stage_ = -1;                                  // of the operator that sends
};

inline std::vector<double> starts_of(const Timeline& timeline) {
  std::vector<double> starts;
  for (const auto& row : timeline.rows)
    for (const auto& slice : row.operators) starts.push_back(slice.start);
  return starts;
}

}  // namespace bigmac
