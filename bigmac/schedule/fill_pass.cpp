#include "bigmac/schedule/fill_pass.h"

#include <cmath>
#include <numeric>

namespace bigmac {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;
constexpr int32_t kNone = -1;
constexpr int kForwardsLookedAt = 8;
constexpr size_t kBackwardsLookedAt = 16;

// Encoder items unit by unit, within a unit by when they must have started.
std::vector<int32_t> forward_order(const Filling& filling, const Stretch& stretch) {
  const auto& backbone = filling.backbone;
  std::vector<double> latest(filling.items.size());
  std::vector<int32_t> order;
  for (size_t i = 0; i < latest.size(); ++i) {
    const auto& item = filling.items[i];
    if (!item.encoder) continue;
    double due = backbone.starts[backbone.first_forward[item.microbatch]];
    latest[i] = due + stretch(due) - item.first;
    order.push_back(int32_t(i));
  }
  auto key = [&](int32_t i) {
    return std::tie(filling.items[i].unit, latest[i], filling.items[i].microbatch);
  };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
  return order;
}

}  // namespace

FillPass::FillPass(const Filling& filling, const Stretch& stretch, const FillRule& rule,
                   std::vector<double> allowance)
    : filling_(filling),
      backbone_(filling.backbone),
      stretch_(stretch),
      rule_(rule),
      allowance_(std::move(allowance)),
      ranks_(filling.backbone.table.ranks()),
      rounding_(kRounding * filling.shortest),
      left_(int64_t(filling.backbone.table.operators.size())),
      is_asked_(ranks_, 0),
      runs_(ranks_, 0),
      sleeps_(ranks_, 1),
      rows_(ranks_),
      free_(ranks_, 0),
      next_(filling.backbone.table.row_begin.begin(), filling.backbone.table.row_begin.end() - 1),
      inputs_(filling.backbone.table.operators.size()),
      order_(filling.backbone),
      owner_(filling.items.size(), kNone),
      live_(size_t(ranks_) * filling.limits.size(), 0),
      assigned_(ranks_, 0),
      following_(filling.items.size(), kNone),
      forward_ended_(filling.backbone.first_forward.size(), 0),
      backward_ended_(filling.backbone.first_forward.size(), 0),
      backwards_(ranks_) {
  for (int32_t to : backbone_.receivers)
    if (to != kNone) inputs_[to].missing = 1;
  for (const auto& item : filling.items) {
    left_ += item.encoder && item.trained ? 2 : 1;
    int32_t needed_by = (item.encoder ? backbone_.first_forward : backbone_.last_backward)[item.microbatch];
    order_.expect_item(needed_by);
    ++inputs_[needed_by].missing;
  }
  skip_taken();
  auto order = forward_order(filling, stretch);
  for (size_t i = 1; i < order.size(); ++i) following_[order[i - 1]] = order[i];
  cursor_ = order.empty() ? kNone : order.front();
}

bool FillPass::run() {
  for (int rank = 0; rank < ranks_; ++rank) ask(rank);
  std::vector<int> deciding;
  while (left_ > 0) {
    if (asked_.empty() && !events_.empty()) next_time();
    if (asked_.empty() && events_.empty() && left_ > 0 && !decide_forced()) return false;
    while (!asked_.empty()) {
      std::swap(asked_, deciding);
      std::sort(deciding.begin(), deciding.end());
      for (int rank : deciding) is_asked_[rank] = 0;
      for (int rank : deciding)
        if (!runs_[rank]) decide(rank, false);
      deciding.clear();
    }
  }
  return true;
}

void FillPass::next_time() {
  now_ = events_.top().time;
  while (!events_.empty() && events_.top().time <= now_ + rounding_) {
    Event event = events_.top();
    events_.pop();
    if (!event.wakes)
      complete(event.rank);
    else if (sleeps_[event.rank])
      ask(event.rank);
  }
}

// Nothing runs and nothing is due: an item that overruns whatever comes next.
bool FillPass::decide_forced() {
  for (int rank = 0; rank < ranks_; ++rank)
    if (sleeps_[rank] && decide(rank, true)) return true;
  return false;
}

bool FillPass::decide(int rank, bool force) {
  Next next = next_of(rank, force);
  if (next.ready && now_ >= next.target - rounding_) {
    start_backbone(rank, next);
    return true;
  }
  if (try_generator(rank, next, force)) return true;
  bool forward_first = rule_.forwards_first || forward_urgent();
  if (forward_first && try_encoder_forward(rank, next, force)) return true;
  if (try_encoder_backward(rank, next, force)) return true;
  if (!forward_first && try_encoder_forward(rank, next, force)) return true;
  sleeps_[rank] = !next.ready;
  if (next.ready) start_backbone(rank, next);
  return next.ready;
}

FillPass::Next FillPass::next_of(int rank, bool force) {
  Next next;
  if (next_[rank] == backbone_.table.row_begin[rank + 1]) return next;
  next.offset = int32_t(next_[rank]);
  next.target = target(next.offset);
  const Inputs& inputs = inputs_[next.offset];
  next.inputs = inputs.missing == 0 ? inputs.come : kUnknown;
  if (next.inputs > now_ + rounding_) return next;
  next.ready = (force || !ahead(next.offset)) && order_.may_start(next.offset);
  if (!next.ready) next.inputs = kUnknown;
  return next;
}

double FillPass::target(int32_t offset) const {
  double start = backbone_.starts[offset], stretch = stretch_(start);
  if (rule_.grain > 0) stretch = rule_.grain * std::floor(stretch / rule_.grain + 0.5);
  return start + std::max(stretch, late_);
}

void FillPass::skip_taken() {
  const auto& forwards = backbone_.first_forward;
  while (first_untaken_ < forwards.size() && !order_.expects(forwards[first_untaken_])) ++first_untaken_;
}

bool FillPass::ahead(int32_t offset) const {
  if (!rule_.in_line || first_untaken_ == backbone_.first_forward.size()) return false;
  return backbone_.starts[offset] > backbone_.starts[backbone_.first_forward[first_untaken_]] + rounding_;
}

bool FillPass::fits(const Next& next, double duration, bool force) const {
  if (force || next.offset == SafeOrder::kNothing || next.inputs == kUnknown) return true;
  double end = now_ + duration - rounding_;
  if (next.ready) return end <= next.target + rule_.overrun * duration;
  return end <= std::max(next.inputs, next.target) + rule_.overrun_unready * duration;
}

bool FillPass::forward_urgent() const {
  if (cursor_ == kNone) return false;
  return target(backbone_.first_forward[filling_.items[cursor_].microbatch]) - now_ < rule_.lead;
}

bool FillPass::try_generator(int rank, const Next& next, bool force) {
  if (generators_.empty()) return false;
  int32_t i = generators_.front();
  const auto& item = filling_.items[i];
  double inputs = forward_ended_[item.microbatch] + way(backbone_.last_rank, rank);
  if (inputs > now_ + rounding_ || !fits(next, item.first, force)) return false;
  int32_t needs = backbone_.last_forward[item.microbatch],
          needed_by = backbone_.last_backward[item.microbatch];
  if (!order_.may_stand(rank, needs, next.offset)) return false;
  order_.stand(rank, needs);
  order_.take_item(needed_by);
  generators_.pop_front();
  owner_[i] = rank;
  double end = start(rank, generate(i), inputs, item.first);
  receive(inputs_[needed_by], end + way(rank, backbone_.last_rank));
  ask_sleeping();
  return true;
}

bool FillPass::try_encoder_forward(int rank, const Next& next, bool force) {
  int32_t before = kNone;
  int looked_at = 0;
  for (int32_t i = cursor_; i != kNone && looked_at < kForwardsLookedAt;
       before = i, i = following_[i], ++looked_at) {
    const auto& item = filling_.items[i];
    if (item.unit != filling_.items[cursor_].unit) return false;
    if (!may_take_forward(rank, item, force) || !fits(next, item.first, force)) continue;
    (before == kNone ? cursor_ : following_[before]) = following_[i];
    take_forward(rank, i);
    return true;
  }
  return false;
}

bool FillPass::may_take_forward(int rank, const Filling::Item& item, bool force) const {
  double holds = live_[live_at(rank, item)] + item.size;
  if (holds > filling_.limits[item.module] * (1 + kRounding)) return false;
  return !rule_.even || force ||
         assigned_[rank] + (item.first + item.second) / 2 <= allowance_[rank] + rounding_;
}

void FillPass::take_forward(int rank, int32_t i) {
  const auto& item = filling_.items[i];
  int32_t needed_by = backbone_.first_forward[item.microbatch];
  owner_[i] = rank;
  live_[live_at(rank, item)] += item.size;
  assigned_[rank] += item.first + item.second;
  order_.take_item(needed_by);
  skip_taken();
  double end = start(rank, encoder_forward(i), 0, item.first);
  receive(inputs_[needed_by], end + way(rank, backbone_.first_rank));
  ask_sleeping();
}

bool FillPass::try_encoder_backward(int rank, const Next& next, bool force) {
  auto& waiting = backwards_[rank];
  size_t count = std::min<size_t>(waiting.size(), rule_.longest_backward ? kBackwardsLookedAt : 1),
         best = count;
  auto inputs = [&](const Filling::Item& item) {
    return backward_ended_[item.microbatch] + way(backbone_.first_rank, rank);
  };
  for (size_t n = 0; n < count; ++n) {
    const auto& item = filling_.items[waiting[n]];
    if (inputs(item) > now_ + rounding_ || !fits(next, item.second, force)) continue;
    if (!order_.may_stand(rank, backbone_.first_backward[item.microbatch], next.offset)) continue;
    if (best == count || item.second > filling_.items[waiting[best]].second + rounding_) best = n;
  }
  if (best == count) return false;
  int32_t i = waiting[best];
  const auto& item = filling_.items[i];
  waiting.erase(waiting.begin() + int64_t(best));
  order_.stand(rank, backbone_.first_backward[item.microbatch]);
  start(rank, encoder_backward(i), inputs(item), item.second);
  return true;
}

void FillPass::start_backbone(int rank, const Next& next) {
  const Operator& op = backbone_.table.operators[next.offset];
  double duration = filling_.durations(rank, op);
  double end = start(rank, op, next.inputs, duration);
  next_[rank] = next.offset + 1;
  order_.start(rank, next.offset);
  late_ = std::max(late_, end - duration - backbone_.starts[next.offset] - rule_.slip);
  if (int32_t to = backbone_.receivers[next.offset]; to != kNone)
    receive(inputs_[to], end + way(rank, receiver_rank(rank, op)));
}

// Times that are one but for rounding count as one moment, but nothing starts before its inputs are there.
double FillPass::start(int rank, const Operator& op, double inputs, double duration) {
  double end = std::max({now_, free_[rank], inputs}) + duration;
  rows_[rank].push_back(op);
  free_[rank] = end;
  runs_[rank] = 1;
  sleeps_[rank] = 0;
  events_.push({end, false, rank});
  return end;
}

void FillPass::receive(Inputs& inputs, double time) {
  inputs.come = std::max(inputs.come, time);
  --inputs.missing;
}

void FillPass::complete(int rank) {
  const Operator& op = rows_[rank].back();
  runs_[rank] = 0;
  --left_;
  ask(rank);
  if (op.module == Module::backbone) {
    complete_backbone(rank, op);
    return;
  }
  const auto& item = filling_.items[op.index];
  if (op.phase == Phase::backward)
    live_[live_at(rank, item)] -= item.size;
  else if (item.encoder)
    wake_for(backbone_.first_forward[item.microbatch], backbone_.first_rank);
  else
    wake_for(backbone_.last_backward[item.microbatch], backbone_.last_rank);
}

void FillPass::complete_backbone(int rank, const Operator& op) {
  const auto& dependencies = filling_.dependencies;
  if (int32_t to = backbone_.receivers[next_[rank] - 1]; to != kNone) wake_for(to, receiver_rank(rank, op));
  int64_t stage = dependencies.stage(rank, op.chunk);
  double end = free_[rank];
  if (op.phase == Phase::forward && stage == 0) let_go_outputs(op.index);
  if (op.phase == Phase::forward && stage + 1 == dependencies.stages()) {
    auto shares = dependencies.generator_shares(op.index);
    forward_ended_[op.index] = end;
    generators_.insert(generators_.end(), shares.begin(), shares.end());
    for (int other = 0; !shares.empty() && other < ranks_; ++other) wake(other, end + way(rank, other));
  } else if (gives_input_gradient(op.phase) && stage == 0) {
    backward_ended_[op.index] = end;
    for (int32_t share : dependencies.encoder_shares(op.index)) {
      if (!dependencies.has_backward(share)) continue;
      backwards_[owner_[share]].push_back(share);
      wake(owner_[share], end + way(rank, owner_[share]));
    }
  }
}

// Stage 0 has taken what frozen encoders made of a microbatch.
void FillPass::let_go_outputs(int64_t m) {
  for (int32_t share : filling_.dependencies.encoder_shares(m)) {
    const auto& item = filling_.items[share];
    if (item.trained) continue;
    live_[live_at(owner_[share], item)] -= item.size;
    wake(owner_[share], now_);
  }
}

int FillPass::receiver_rank(int rank, const Operator& op) const {
  int64_t stage = filling_.dependencies.stage(rank, op.chunk);
  return filling_.dependencies.rank_of(op.phase == Phase::forward ? stage + 1 : stage - 1);
}

void FillPass::wake_for(int32_t offset, int rank) {
  if (inputs_[offset].missing == 0) wake(rank, inputs_[offset].come);
}

void FillPass::wake(int rank, double time) {
  if (time > now_ + rounding_)
    events_.push({time, true, rank});
  else if (sleeps_[rank])
    ask(rank);
}

void FillPass::ask(int rank) {
  if (is_asked_[rank]) return;
  is_asked_[rank] = 1;
  asked_.push_back(rank);
}

void FillPass::ask_sleeping() {
  for (int rank = 0; rank < ranks_; ++rank)
    if (sleeps_[rank]) ask(rank);
}

Schedule FillPass::table() const {
  Schedule out{.step = filling_.step(),
               .operators = {},
               .row_begin = {0},
               .shares = {},
               .units = {},
               .overlapped = {}};
  std::vector<uint32_t> order(filling_.items.size()), share_of(order.size());
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](uint32_t i) {
    return std::tie(filling_.items[i].module, filling_.items[i].unit, owner_[i]);
  };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  for (uint32_t i : order) {
    share_of[i] = uint32_t(out.shares.list.size());
    out.shares.list.push_back({filling_.items[i].module, filling_.items[i].unit, owner_[i], share_of[i], 1});
    out.shares.items.push_back(filling_.singles.items[i]);
  }
  out.operators.reserve(backbone_.table.operators.size() + 2 * filling_.items.size());
  for (const auto& row : rows_) {
    for (Operator op : row) {
      if (op.module != Module::backbone) op.index = share_of[op.index];
      out.operators.push_back(op);
    }
    out.row_begin.push_back(int64_t(out.operators.size()));
  }
  return out;
}

}  // namespace bigmac
