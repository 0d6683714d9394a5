#include "bigmac/measured/trace_steps.h"

#include <algorithm>
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

// The step of each of a rank's operators.
std::vector<size_t> steps_of(const RawRank& rank, int64_t forwards, int64_t chunks) {
  std::vector<size_t> steps;
  size_t step = 0;
  std::map<std::tuple<Phase, int64_t, int64_t, int64_t, int32_t>, int64_t> seen;
  std::map<Phase, int64_t> count;
  for (const auto& op : rank.operators) {
    if (!is_numbered(op)) {
      steps.push_back(forwards > 0 ? size_t(count[op.phase]++ / forwards) : 0);
      continue;
    }
    auto key = std::tuple(op.phase, op.stage, op.chunk, op.microbatch, op.share);
    int64_t most = op.stage < 0 && op.chunk < 0 ? chunks : 1;
    if (seen[key] == most) {
      ++step;
      seen.clear();
    }
    ++seen[key];
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

std::vector<RawStep> divide_into_steps(const std::vector<RawRank>& ranks, const ReadOptions& options) {
  int64_t forwards = forwards_a_step(ranks, options), chunks = std::max<int64_t>(options.chunks, 1);
  std::vector<RawStep> steps;
  for (const auto& rank : ranks) {
    auto step_of = steps_of(rank, forwards, chunks);
    size_t count = *std::max_element(step_of.begin(), step_of.end()) + 1;
    if (&rank == &ranks[0]) steps.resize(count);
    if (count != steps.size())
      throw InvalidInput(concat(
          "[trace] ", rank.file, ": rank ", rank.rank, " has operators of ", count, " steps, rank ",
          ranks[0].rank, " (", ranks[0].file, ") of ", steps.size(), "; record the same steps on every rank",
          forwards > 0 && options.microbatches == 0 ? ", or say how many microbatches a step has" : ""));
    for (auto& step : steps) step.ranks.push_back({rank.file, rank.rank, {}, rank.step, rank.memory});
    for (size_t n = 0; n < step_of.size(); ++n)
      steps[step_of[n]].ranks.back().operators.push_back(rank.operators[n]);
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
