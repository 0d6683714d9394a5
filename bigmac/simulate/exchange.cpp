#include "bigmac/simulate/exchange.h"

#include <algorithm>
#include <utility>

#include "bigmac/schedule/timing.h"

namespace bigmac {
namespace {

LinkTime later(LinkTime link, double latency) {
  link.latency += latency;
  return link;
}

}  // namespace

ExchangeRun::ExchangeRun(const Schedule& schedule, const Costs& costs, const Links& links)
    : schedule_(schedule),
      dependencies_(schedule),
      durations_(schedule, costs),
      bytes_(schedule, dependencies_, links),
      exchange_(links.exchange),
      inside_(later(links.inside, durations_.latency())),
      between_(later(links.between, durations_.latency())),
      nodes_(links.node_of_rank),
      pairs_(schedule.step.chunks > 1),
      position_(schedule.ranks(), 0),
      free_at_(schedule.ranks(), 0.0),
      ends_(dependencies_.count(), kNotRun),
      arrivals_(dependencies_.count()),
      held_(schedule.ranks()) {
  auto ranks = size_t(schedule.ranks());
  timeline_.rows.resize(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    size_t operators = schedule.row(int(rank)).size();
    timeline_.rows[rank].operators.reserve(operators);
    if (exchange_ == Exchange::batched) timeline_.rows[rank].intervals.reserve(operators);
  }
  if (!schedule.shares.list.empty())
    for (auto& list : to_shares_) list.resize(size_t(schedule.step.microbatches) * ranks);
  if (exchange_ == Exchange::in_order) queues_.resize(ranks * ranks, 0.0);
  if (exchange_ == Exchange::batched) to_rank_.resize(ranks, 0.0);
}

ExchangeRun::Inputs ExchangeRun::inputs_of(int rank, const Operator& op) {
  Inputs inputs;
  bool all_sent = true;
  dependencies_.for_each_predecessor(rank, op, [&](int64_t id, int from) {
    // What a rank needs of its own operators ended before the one before this in its row did.
    if (from == rank) {
      all_sent &= ends_[id] >= 0;
      return;
    }
    const Arrival* message = &arrivals_[id];
    if (op.module != Module::backbone) {
      auto m = size_t(id % dependencies_.microbatches());
      message = &to_shares_[op.module == Module::generator][m * timeline_.rows.size() + size_t(rank)];
    }
    all_sent &= message->time >= 0;
    if (message->time > inputs.ready) {
      inputs.ready = message->time;
      inputs.peer = from;
    }
    if (message->alone > inputs.alone) {
      inputs.alone = message->alone;
      inputs.alone_peer = from;
    }
  });
  if (!all_sent) inputs.ready = kNotRun;
  return inputs;
}

bool ExchangeRun::try_run(int rank, int64_t position, const Operator& op) {
  Inputs inputs = inputs_of(rank, op);
  if (inputs.ready < 0) return false;
  double free = free_at_[rank];
  double start = std::max(free, inputs.ready);
  if (start > free) {
    double made = std::clamp(inputs.alone, free, start);
    note(rank, Spent::wait, inputs.alone_peer, op, free, made);
    note(rank, Spent::order, inputs.peer, op, made, start);
  }
  double end = start + durations_(rank, op);
  int64_t id = dependencies_.of(rank, op);
  ends_[id] = end;
  free_at_[rank] = end;
  timeline_.rows[rank].operators.push_back({op, start, end});
  send(rank, position, op, id, end);
  return true;
}

void ExchangeRun::collect(int rank, const Operator& op, int64_t id) {
  dependencies_.for_each_receiver(rank, op, [&](int64_t receiver, int to) {
    if (to == rank) return;
    bool to_share = receiver >= dependencies_.backbone_count();
    auto& message = arrival(op, id, to, to_share);
    if (message.time >= 0) return;  // one message to a rank
    message.time = 0;
    double bytes = op.module != Module::backbone ? bytes_.of_share(op.index)
                   : to_share                    ? bytes_.of_microbatch(op.phase, op.index, to)
                                                 : bytes_.of_stage();
    messages_.push_back({&message, to, bytes});
  });
}

bool ExchangeRun::leaves_with_next(int rank, int64_t position, const Operator& op) const {
  auto row = schedule_.row(rank);
  if (!pairs_ || op.module != Module::backbone || op.phase != Phase::forward ||
      position + 1 == int64_t(row.size()))
    return false;
  const Operator& next = row[position + 1];
  return next.module == Module::backbone && gives_input_gradient(next.phase);
}

void ExchangeRun::send(int rank, int64_t position, const Operator& op, int64_t id, double end) {
  if (exchange_ == Exchange::batched) {
    if (leaves_with_next(rank, position, op)) {
      held_[rank] = {id, op};
      return;
    }
    if (auto held = std::exchange(held_[rank], {})) collect(rank, held.op, held.id);
    collect(rank, op, id);
    exchange(rank, op, end);
    return;
  }
  collect(rank, op, id);
  for (auto& message : messages_) {
    const LinkTime& way = link(rank, message.to);
    message.arrival->alone = message.arrival->time = end + way.of(message.bytes);
    if (exchange_ == Exchange::overlapped) continue;
    double& carried = queue(rank, message.to);
    // Not by way of `carried` where nothing is before it, so that the two times are the same.
    if (carried > end) message.arrival->time = carried + way.of(message.bytes);
    carried = std::max(carried, end) + way.time_per_byte * message.bytes;
  }
  messages_.clear();
}

void ExchangeRun::exchange(int rank, const Operator& op, double end) {
  if (messages_.empty()) return;
  for (const auto& message : messages_) to_rank_[message.to] += message.bytes;
  double slowest = 0;
  int peer = messages_.front().to;
  for (const auto& message : messages_) {
    slowest = std::max(slowest, link(rank, message.to).of(to_rank_[message.to]));
    if (message.to != peer) peer = -1;
  }
  for (auto& message : messages_) {
    to_rank_[message.to] = 0;
    message.arrival->alone = message.arrival->time = end + slowest;
  }
  messages_.clear();
  free_at_[rank] = end + slowest;
  note(rank, Spent::transfer, peer, op, end, end + slowest);
}

bool ExchangeRun::advance(int rank) {
  auto row = schedule_.row(rank);
  int64_t& at = position_[rank];
  int64_t before = at;
  while (at < int64_t(row.size()) && try_run(rank, at, row[at])) ++at;
  return at != before;
}

// Of the ranks that wait for one another in a circle, the one whose forward ended first of those that hold
// back what the rank before them in the circle needs.
std::optional<int> ExchangeRun::rank_to_release() const {
  int ranks = schedule_.ranks();
  std::vector<int> needs(ranks, -1);  // by rank that is stuck: the rank it waits for
  std::vector<int64_t> needed(ranks, -1);
  int stuck = -1;
  for (int rank = 0; rank < ranks; ++rank) {
    auto row = schedule_.row(rank);
    if (position_[rank] == int64_t(row.size())) continue;
    stuck = rank;
    const Operator& op = row[position_[rank]];
    dependencies_.for_each_predecessor(rank, op, [&](int64_t id, int from) {
      bool is_held = held_[from].id == id;
      if (needs[rank] >= 0 || (ends_[id] >= 0 && (from == rank || !is_held))) return;
      needs[rank] = from;
      needed[rank] = id;
    });
  }
  if (stuck < 0) return std::nullopt;
  for (int i = 0; i < ranks && needs[stuck] >= 0; ++i) stuck = needs[stuck];  // now it is in the circle
  std::optional<int> first;
  int rank = stuck;
  do {
    int from = needs[rank];
    if (from < 0) break;
    if (held_[from].id == needed[rank] && (!first || ends_[needed[rank]] < ends_[held_[*first].id]))
      first = from;
    rank = from;
  } while (rank != stuck);
  return first;
}

void ExchangeRun::release(int rank) {
  auto held = std::exchange(held_[rank], {});
  collect(rank, held.op, held.id);
  exchange(rank, held.op, ends_[held.id]);
}

bool ExchangeRun::run() {
  int ranks = schedule_.ranks();
  auto sweep = [&] {
    bool moved = false;
    for (int rank = 0; rank < ranks; ++rank) moved |= advance(rank);
    for (int rank = ranks - 1; rank >= 0; --rank) moved |= advance(rank);
    return moved;
  };
  while (true) {
    while (sweep()) {
    }
    auto rank = rank_to_release();
    if (!rank) break;
    release(*rank);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (position_[rank] != int64_t(schedule_.row(rank).size())) return false;
    const auto& row = timeline_.rows[rank].operators;
    if (!row.empty()) timeline_.end = std::max(timeline_.end, row.back().end);
  }
  return true;
}

}  // namespace bigmac
