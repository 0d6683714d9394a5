#pragma once

#include <optional>

#include "bigmac/schedule/costs.h"
#include "bigmac/simulate/message_bytes.h"

namespace bigmac {

// Runs a table whose messages take time (links.h) and writes down what every rank does.
class ExchangeRun {
 public:
  ExchangeRun(const Schedule& schedule, const Costs& costs, const Links& links);

  // False where the table has a deadlock.
  bool run();
  Timeline take() { return std::move(timeline_); }

 private:
  // A message to one rank: when it arrives, and when it would if it had the link for itself.
  struct Arrival {
    double time = -1;
    double alone = -1;
  };
  struct Message {
    Arrival* arrival;
    int to;
    double bytes;
  };
  struct Forward {
    int64_t id = -1;
    Operator op;
    explicit operator bool() const { return id >= 0; }
  };
  // When what an operator needs is there, by both reckonings; kNotRun while something has not been sent.
  struct Inputs {
    double ready = 0, alone = 0;
    int peer = -1, alone_peer = -1;  // the ranks that it waits for
  };

  bool advance(int rank);
  bool try_run(int rank, int64_t position, const Operator& op);
  Inputs inputs_of(int rank, const Operator& op);
  void send(int rank, int64_t position, const Operator& op, int64_t id, double end);
  void collect(int rank, const Operator& op, int64_t id);
  void exchange(int rank, const Operator& op, double end);
  double& queue(int from, int to) { return queues_[size_t(from) * timeline_.rows.size() + size_t(to)]; }
  bool leaves_with_next(int rank, int64_t position, const Operator& op) const;
  std::optional<int> rank_to_release() const;
  void release(int rank);

  Arrival& arrival(const Operator& op, int64_t id, int to, bool to_share) {
    if (op.module != Module::backbone || !to_share) return arrivals_[id];
    return to_shares_[op.phase == Phase::forward][op.index * timeline_.rows.size() + size_t(to)];
  }
  const LinkTime& link(int from, int to) const {
    return nodes_.empty() || nodes_[from] == nodes_[to] ? inside_ : between_;
  }
  void note(int rank, Spent spent, int peer, const Operator& op, double start, double end) {
    if (end > start) timeline_.rows[rank].intervals.push_back({spent, peer, op, start, end});
  }

  const Schedule& schedule_;
  Dependencies dependencies_;
  Durations durations_;
  MessageBytes bytes_;
  Exchange exchange_;
  LinkTime inside_, between_;  // with Costs::latency
  const std::vector<int32_t>& nodes_;
  bool pairs_;

  Timeline timeline_;
  std::vector<int64_t> position_;      // by rank
  std::vector<double> free_at_;        // by rank
  std::vector<double> ends_;           // by operator id
  std::vector<Arrival> arrivals_;      // by operator id, of what has one receiver at most
  std::vector<Arrival> to_shares_[2];  // of B(0, m), of F(last, m), by m and receiving rank
  std::vector<double> queues_;         // when the link of two ranks has carried what it was given
  std::vector<Forward> held_;          // by rank: what has run and waits for its backward
  std::vector<Message> messages_;      // scratch, of one exchange
  std::vector<double> to_rank_;        // scratch: bytes by peer
};

}  // namespace bigmac
