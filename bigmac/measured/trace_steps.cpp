#include "bigmac/measured/trace_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

bool is_numbered(const RawOperator& op) {
  return op.share >= 0 || op.microbatch >= 0;
}

// Forwards of one rank in a step; 0 for all there are.
int64_t forwards_a_step(const std::vector<RawRank>& ranks, const ReadOptions& options) {
  if (options.microbatches > 0) return options.microbatches * std::max<int64_t>(options.chunks, 1);
  if (ranks.size() < 2) return 0;
  int64_t forwards = 0, backwards = 0;
  for (const auto& op : ranks[0].operators) {
    forwards += op.phase == Phase::forward;
    backwards += gives_input_gradient(op.phase);
    if (forwards > 0 && forwards == backwards) return forwards;
  }
  return 0;
}

// The step of each of a rank's operators. `ascending`: a step also begins with a forward of a microbatch that
// is no later than what its chunk has run.
std::vector<size_t> steps_of(const RawRank& rank, int64_t forwards, int64_t chunks, bool ascending) {
  std::vector<size_t> steps;
  size_t step = 0;
  std::map<std::tuple<Phase, int64_t, int64_t, int64_t, int32_t>, int64_t> seen;
  std::map<std::pair<int64_t, int64_t>, int64_t> latest;  // microbatch, by stage and chunk
  std::map<Phase, int64_t> count;
  for (const auto& op : rank.operators) {
    if (!is_numbered(op)) {
      steps.push_back(forwards > 0 ? size_t(count[op.phase]++ / forwards) : 0);
      continue;
    }
    auto key = std::tuple(op.phase, op.stage, op.chunk, op.microbatch, op.share);
    int64_t most = op.stage < 0 && op.chunk < 0 ? chunks : 1;
    bool again = seen[key] == most;
    if (ascending && most == 1 && op.share < 0 && op.phase == Phase::forward) {
      auto at = latest.find({op.stage, op.chunk});
      again |= at != latest.end() && op.microbatch <= at->second;
    }
    if (again) {
      ++step;
      seen.clear();
      latest.clear();
    }
    ++seen[key];
    auto& last = latest.emplace(std::pair(op.stage, op.chunk), op.microbatch).first->second;
    last = std::max(last, op.microbatch);
    steps.push_back(step);
  }
  return steps;
}

// Whether a backward stands in a step before its forward: then the steps were cut at the wrong places.
bool has_stray_backward(const RawRank& rank, const std::vector<size_t>& step_of) {
  std::map<std::tuple<size_t, int64_t, int64_t, int64_t>, int64_t> running;
  for (size_t n = 0; n < rank.operators.size(); ++n) {
    const auto& op = rank.operators[n];
    if (op.share >= 0 || op.microbatch < 0) continue;
    auto& count = running[{step_of[n], op.stage, op.chunk, op.microbatch}];
    if (op.phase == Phase::forward) ++count;
    if (gives_input_gradient(op.phase) && --count < 0) return true;
  }
  return false;
}

// Takes away what a trace that begins within a step has of it, where operators do not say their microbatch:
// all before the place at which the fewest are in flight.
void drop_begun_step(RawRank& rank, LeftOut& left) {
  int64_t in_flight = 0, fewest = 0;
  size_t place = 0;
  for (size_t n = 0; n < rank.operators.size(); ++n) {
    const auto& op = rank.operators[n];
    if (is_numbered(op)) return;
    in_flight += op.phase == Phase::forward;
    in_flight -= gives_input_gradient(op.phase);
    if (in_flight >= fewest) continue;
    fewest = in_flight;
    place = n + 1;
  }
  if (place == 0 || place == rank.operators.size()) return;
  for (size_t n = 0; n < place; ++n)
    left.add(
        "operators belong to a step that began before the trace; they are left out",
        concat("rank ", rank.rank, ", ", shown(rank.operators[n]), " at ", rank.operators[n].start, " s"));
  rank.operators.erase(rank.operators.begin(), rank.operators.begin() + std::ptrdiff_t(place));
}

struct Division {
  std::vector<size_t> step_of;  // by operator
  size_t count = 0, first = 0;  // steps; the number of the first among those of all ranks
};

// The middle of each step.
std::vector<double> middles(const RawRank& rank, const Division& division) {
  std::vector<double> first(division.count, HUGE_VAL), last(division.count, -HUGE_VAL);
  for (size_t n = 0; n < rank.operators.size(); ++n) {
    auto step = division.step_of[n];
    first[step] = std::min(first[step], rank.operators[n].start);
    last[step] = std::max(last[step], rank.operators[n].end);
  }
  for (size_t n = 0; n < first.size(); ++n) first[n] = (first[n] + last[n]) / 2;
  return first;
}

// Lays the steps of ranks that have fewer beside those that are nearest in time, where clocks tell.
void lay_beside(const std::vector<RawRank>& ranks, std::vector<Division>& divisions) {
  auto most = std::max_element(divisions.begin(), divisions.end(),
                               [](const auto& a, const auto& b) { return a.count < b.count; });
  auto whole = middles(ranks[size_t(most - divisions.begin())], *most);
  double apart = whole.size() > 1 ? (whole.back() - whole.front()) / double(whole.size() - 1) : 0;
  for (size_t r = 0; r < divisions.size(); ++r) {
    auto own = middles(ranks[r], divisions[r]);
    double least = apart * double(own.size());  // further is another clock
    for (size_t shift = 0; !own.empty() && shift + own.size() <= whole.size(); ++shift) {
      double distance = 0;
      for (size_t n = 0; n < own.size(); ++n) distance += std::abs(own[n] - whole[n + shift]);
      if (distance >= least) continue;
      least = distance;
      divisions[r].first = shift;
    }
  }
}

std::string missing_text(const std::vector<RawRank>& ranks, size_t rank, size_t count, size_t expected,
                         bool guessed) {
  return concat("[trace] ", ranks[rank].file, ": rank ", ranks[rank].rank, " has operators of ", count,
                " steps, rank ", ranks[0].rank, " (", ranks[0].file, ") of ", expected,
                "; record the same steps on every rank",
                guessed ? ", or say how many microbatches a step has" : "");
}

// What was held from the first operator of a step to that of the next.
void divide_memory(const RawRank& rank, const Division& division, std::vector<RawStep>& steps) {
  const auto &times = rank.memory.times, &bytes = rank.memory.bytes;
  std::vector<double> begins(division.count + 1, HUGE_VAL);
  for (size_t n = 0; n < rank.operators.size(); ++n) {
    auto& begin = begins[division.step_of[n]];
    begin = std::min(begin, rank.operators[n].start);
  }
  std::vector<size_t> order(times.size());
  for (size_t n = 0; n < order.size(); ++n) order[n] = n;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return times[a] < times[b]; });
  size_t next = 0;
  for (size_t step = 0; step < division.count; ++step) {
    auto& curve = steps[division.first + step].ranks.back().memory;
    while (next < order.size() && times[order[next]] <= begins[step]) ++next;
    if (next > 0 && times.size() > 1) {
      curve.times.push_back(begins[step]);
      curve.bytes.push_back(bytes[order[next - 1]]);
    }
    for (; next < order.size() && times[order[next]] < begins[step + 1]; ++next) {
      curve.times.push_back(times[order[next]]);
      curve.bytes.push_back(bytes[order[next]]);
    }
  }
}

}  // namespace

std::vector<RawStep> divide_into_steps(std::vector<RawRank> ranks, const ReadOptions& options,
                                       LeftOut* left) {
  if (left != nullptr)
    for (auto& rank : ranks) drop_begun_step(rank, *left);
  int64_t forwards = forwards_a_step(ranks, options), chunks = std::max<int64_t>(options.chunks, 1);
  std::vector<Division> divisions(ranks.size());
  auto divide = [&](bool ascending) {
    bool stray = false;
    for (size_t r = 0; r < ranks.size(); ++r) {
      divisions[r].step_of = steps_of(ranks[r], forwards, chunks, ascending);
      stray |= left != nullptr && !ascending && has_stray_backward(ranks[r], divisions[r].step_of);
    }
    return !stray;
  };
  if (!divide(false)) divide(true);
  size_t most = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    auto& division = divisions[r];
    for (size_t step : division.step_of) division.count = std::max(division.count, step + 1);
    most = std::max(most, division.count);
    if (left == nullptr && division.count != divisions[0].count)
      throw InvalidInput(missing_text(ranks, r, division.count, divisions[0].count,
                                      forwards > 0 && options.microbatches == 0));
  }
  if (left != nullptr) lay_beside(ranks, divisions);
  std::vector<RawStep> steps(most);
  for (size_t r = 0; r < ranks.size(); ++r) {
    auto& rank = ranks[r];
    const auto& division = divisions[r];
    if (most == 1) {
      steps[0].ranks.push_back(std::move(rank));
      continue;
    }
    for (auto& step : steps) step.ranks.push_back({.file = rank.file, .rank = rank.rank, .step = rank.step});
    divide_memory(rank, division, steps);
    for (size_t n = 0; n < division.step_of.size(); ++n)
      steps[division.first + division.step_of[n]].ranks.back().operators.push_back(rank.operators[n]);
  }
  for (size_t n = 0; n < steps.size(); ++n) {
    if (steps.size() > 1) steps[n].name = std::to_string(n + 1);
    steps[n].chunks = options.chunks;
    steps[n].group = options.group;
    steps[n].microbatches = options.microbatches;
  }
  return steps;
}

}  // namespace bigmac
