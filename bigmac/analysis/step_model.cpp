#include "bigmac/analysis/step_model.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "bigmac/common/error.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/walk.h"

namespace bigmac {
namespace {

void check_same(const Schedule& schedule, const Timeline& timeline) {
  if (int(timeline.rows.size()) != schedule.ranks())
    throw InvalidInput(concat("[analysis] the timeline has ", timeline.rows.size(),
                              " ranks, its schedule has ", schedule.ranks()));
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto row = schedule.row(rank);
    const auto& slices = timeline.rows[size_t(rank)].operators;
    bool same = row.size() == slices.size();
    for (size_t p = 0; same && p < row.size(); ++p) same = row[p] == slices[p].op;
    if (!same)
      throw InvalidInput(concat("[analysis] rank ", rank,
                                " did not run the operators of its schedule in their order: it has ",
                                slices.size(), " of ", row.size()));
  }
}

struct Place {
  int32_t rank = 0;
  int32_t position = 0;
};

// The operators in an order in which predecessors come first.
std::vector<Place> in_order(const Schedule& schedule, const Dependencies& dependencies) {
  std::vector<uint8_t> ran(size_t(dependencies.count()), 0);
  std::vector<Place> order;
  order.reserve(schedule.operators.size());
  walk(schedule, [&](int rank, int64_t position, const Operator& op) {
    bool ready = true;
    dependencies.for_each_predecessor(rank, op, [&](int64_t id, int) { ready &= ran[size_t(id)] != 0; });
    if (!ready) return false;
    ran[size_t(dependencies.of(rank, op))] = 1;
    order.push_back({rank, int32_t(position)});
    return true;
  });
  if (order.size() != schedule.operators.size())
    throw InvalidInput("[analysis] the schedule has a deadlock; bigmac check says where");
  return order;
}

std::vector<Place> in_order_of_time(const Timeline& timeline) {
  std::vector<Place> order;
  for (size_t rank = 0; rank < timeline.rows.size(); ++rank)
    for (size_t p = 0; p < timeline.rows[rank].operators.size(); ++p)
      order.push_back({int32_t(rank), int32_t(p)});
  auto start = [&](const Place& place) {
    return timeline.rows[size_t(place.rank)].operators[size_t(place.position)].start;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Place& a, const Place& b) { return start(a) < start(b); });
  return order;
}

// With what they need of other ranks.
void add_operators(const Dependencies& dependencies, const Timeline& timeline,
                   const std::vector<Place>& order, StepModel& model) {
  std::vector<int32_t> number(size_t(dependencies.count()), -1);
  model.row_last.assign(size_t(model.ranks), -1);
  for (const auto& [rank, position] : order) {
    Slice slice = timeline.rows[size_t(rank)].operators[size_t(position)];
    slice.start -= timeline.start;
    slice.end -= timeline.start;
    auto& last = model.row_last[size_t(rank)];
    model.before.push_back(last);
    last = number[size_t(dependencies.of(rank, slice.op))] = int32_t(model.slices.size());
    model.slices.push_back(slice);
    model.rank.push_back(rank);
  }
  model.inputs_begin = {0};
  for (size_t i = 0; i < model.count(); ++i) {
    dependencies.for_each_predecessor(model.rank[i], model.slices[i].op, [&](int64_t id, int from) {
      int32_t input = number[size_t(id)];
      if (input < 0) model.lacks_input[i] = uint8_t(1 + int(dependencies.at(id).op.module));
      if (input >= 0 && from != model.rank[i]) model.inputs.push_back(input);
    });
    model.inputs_begin.push_back(uint32_t(model.inputs.size()));
  }
}

void find_last_inputs(StepModel& model) {
  model.last_input.assign(model.count(), -1);
  for (size_t i = 0; i < model.count(); ++i)
    for (uint32_t n = model.inputs_begin[i]; n < model.inputs_begin[i + 1]; ++n) {
      int32_t input = model.inputs[n];
      int32_t& last = model.last_input[i];
      if (last < 0 || model.slices[size_t(input)].end > model.slices[size_t(last)].end) last = input;
    }
}

// Transfers and waits for messages' order between the operator before and this one, and behind the last.
void add_intervals(const Timeline& timeline, StepModel& model) {
  model.order.assign(model.count(), 0);
  model.transfer.assign(model.count(), 0);
  model.blocked.assign(model.count(), 0);
  model.transfer_behind.assign(size_t(model.ranks), 0);
  std::vector<size_t> next(size_t(model.ranks), 0);
  auto take = [&](int rank, double from, double to, double& order, double& transfer, double& blocked) {
    const auto& intervals = timeline.rows[size_t(rank)].intervals;
    for (size_t& n = next[size_t(rank)]; n < intervals.size(); ++n) {
      double start = intervals[n].start - timeline.start, end = intervals[n].end - timeline.start;
      if (start >= to) break;
      double time = std::max(0.0, std::min(end, to) - std::max(start, from));
      if (intervals[n].spent == Spent::order) order += time;
      if (intervals[n].spent == Spent::transfer) transfer += time;
      if (intervals[n].spent == Spent::wait) blocked += time;
      if (end > to) break;
    }
  };
  for (size_t i = 0; i < model.count(); ++i)  // of one rank in the order of time
    take(model.rank[i], model.free_at(i), model.slices[i].start, model.order[i], model.transfer[i],
         model.blocked[i]);
  for (int rank = 0; rank < model.ranks; ++rank) {
    int32_t last = model.row_last[size_t(rank)];
    double free = last < 0 ? 0 : model.slices[size_t(last)].end, none = 0;
    take(rank, free, timeline.length(), none, model.transfer_behind[size_t(rank)], none);
  }
}

double input_end(const StepModel& model, size_t i) {
  return model.slices[size_t(model.last_input[i])].end;
}

class Lags {
 public:
  explicit Lags(StepModel& model) : model_(model), ranks_(model.ranks) {}

  void find() {
    find_own();
    find_links();
    size_t count = model_.count();
    model_.by_input.assign(count, 0);
    model_.own.resize(count);
    model_.message.assign(count, 0);
    for (size_t i = 0; i < count; ++i) {
      model_.by_input[i] = waits_for_input(i);
      set(i);
    }
  }

 private:
  // Messages between stages, and those of items, are of different size.
  int64_t link(size_t i) const {
    auto input = size_t(model_.last_input[i]);
    bool item =
        model_.slices[i].op.module != Module::backbone || model_.slices[input].op.module != Module::backbone;
    return (int64_t(model_.rank[input]) * ranks_ + model_.rank[i]) * 2 + item;
  }
  bool has_input(size_t i) const { return model_.last_input[i] >= 0; }
  double gap(size_t i) const {
    return std::max(0.0, model_.slices[i].start - model_.free_at(i) - model_.transfer[i]);
  }
  double since_input(size_t i) const { return model_.slices[i].start - input_end(model_, i); }
  // More than a rank lets pass between two operators by itself.
  bool is_long(size_t i) const { return gap(i) > 2 * own_[size_t(model_.rank[i])] + rounding_; }

  // By rank, the median gap before operators that need nothing of other ranks; where there are few, the
  // quarter of all gaps.
  void find_own() {
    constexpr size_t kFewest = 4;
    rounding_ = 1e-9 * std::max(1e-300, model_.slices.empty() ? 0 : model_.slices.back().end);
    const auto ranks = size_t(ranks_);
    std::vector<std::vector<double>> free(ranks), all(ranks);
    for (size_t i = 0; i < model_.count(); ++i) {
      if (model_.before[i] < 0) continue;
      auto rank = size_t(model_.rank[i]);
      all[rank].push_back(gap(i));
      if (!has_input(i)) free[rank].push_back(gap(i));
    }
    for (size_t rank = 0; rank < free.size(); ++rank) {
      auto& list = free[rank].size() < kFewest ? all[rank] : free[rank];
      auto quarter = list.begin() + int64_t(list.size() / (free[rank].size() < kFewest ? 4 : 2));
      std::nth_element(list.begin(), quarter, list.end());
      own_.push_back(list.empty() ? 0 : *quarter);
    }
  }

  // What messages take where the receiver had nothing else to do, in the median; where there is no such
  // message, the least that an operator started behind its input and later than its row explains.
  void find_links() {
    std::unordered_map<int64_t, std::vector<double>> samples;
    std::unordered_map<int64_t, double> least;
    for (size_t i = 0; i < model_.count(); ++i) {
      if (!has_input(i)) continue;
      if (input_end(model_, i) >= model_.free_at(i))
        samples[link(i)].push_back(since_input(i));
      else if (is_long(i)) {
        auto [at, is_new] = least.emplace(link(i), since_input(i));
        at->second = std::min(at->second, since_input(i));
      }
    }
    message_ = std::move(least);
    for (auto& [key, list] : samples) message_[key] = median_of(std::move(list));
  }

  double message_on_link(size_t i) const {
    auto at = message_.find(link(i));
    return at == message_.end() ? 0 : at->second;
  }

  bool waits_for_input(size_t i) const {
    double free = model_.free_at(i);
    if (!has_input(i) || model_.slices[i].start <= free) return false;
    if (input_end(model_, i) > free || model_.order[i] > 0) return true;
    return is_long(i) && input_end(model_, i) + message_on_link(i) > free;
  }

  void set(size_t i) {
    double start = model_.slices[i].start, waited = start - model_.free_at(i);
    bool first = model_.before[i] < 0;
    if (!model_.by_input[i]) {
      model_.own[i] = first ? start : waited;
      if (has_input(i)) model_.message[i] = std::min(message_on_link(i), since_input(i));
      return;
    }
    model_.own[i] = first ? 0 : std::min(waited, own_[size_t(model_.rank[i])] + model_.transfer[i]);
    model_.message[i] = since_input(i);
  }

  StepModel& model_;
  int64_t ranks_;
  double rounding_ = 0;
  std::vector<double> own_;                      // by rank
  std::unordered_map<int64_t, double> message_;  // by link
};

// What follows from the operators and their times.
void complete(const Timeline& timeline, StepModel& model) {
  find_last_inputs(model);
  add_intervals(timeline, model);
  double last = 0, first = timeline.length();
  for (const auto& slice : model.slices) {
    model.duration.push_back(slice.end - slice.start);
    last = std::max(last, slice.end);
    first = std::min(first, slice.start);
  }
  model.before_first = first;
  model.behind_last = std::max(0.0, timeline.length() - last);
  Lags(model).find();
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + int64_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  double high = *middle;
  if (values.size() % 2 == 1) return high;
  return (high + *std::max_element(values.begin(), middle)) / 2;
}

StepModel model_of(const Schedule& schedule, const Timeline& timeline) {
  check_same(schedule, timeline);
  Dependencies dependencies(schedule);
  StepModel model;
  model.ranks = schedule.ranks();
  add_operators(dependencies, timeline, in_order(schedule, dependencies), model);
  complete(timeline, model);
  return model;
}

StepModel model_of_what_is_there(const Schedule& schedule, const Timeline& timeline) {
  StepModel model;
  model.ranks = schedule.ranks();
  model.is_whole = false;
  auto order = in_order_of_time(timeline);
  model.lacks_input.assign(order.size(), 0);
  add_operators(Dependencies(schedule), timeline, order, model);
  complete(timeline, model);
  return model;
}

std::vector<double> run(const StepModel& model) {
  std::vector<double> ends(model.count());
  for (size_t i = 0; i < model.count(); ++i) {
    double start = (model.before[i] < 0 ? 0 : ends[size_t(model.before[i])]) + model.own[i];
    double ready = -std::numeric_limits<double>::infinity();
    for (uint32_t n = model.inputs_begin[i]; n < model.inputs_begin[i + 1]; ++n)
      ready = std::max(ready, ends[size_t(model.inputs[n])]);
    ends[i] = std::max(start, ready + model.message[i]) + model.duration[i];
  }
  return ends;
}

double length_of(const StepModel& model) {
  double last = 0;
  for (double end : run(model)) last = std::max(last, end);
  return last + model.behind_last;
}

}  // namespace bigmac
