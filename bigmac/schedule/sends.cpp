#include "bigmac/schedule/sends.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac {
namespace {

// Whether the stages go through the ranks and back, so that a rank's two chunks receive from different ones.
bool is_folded(const Step& step) {
  if (step.stages() != 2 * step.ranks) return false;
  for (int64_t s = 0; s < step.ranks; ++s)
    if (rank_of_stage(step, s) != s || rank_of_stage(step, 2 * step.ranks - 1 - s) != s) return false;
  return true;
}

}  // namespace

std::string_view name(Sends sends) {
  return sends == Sends::buffered ? "buffered" : "blocking";
}

Sends sends_from_name(std::string_view text) {
  for (auto sends : {Sends::buffered, Sends::blocking})
    if (text == name(sends)) return sends;
  throw InvalidInput(unknown_name("kind of sends", text, {"buffered", "blocking"}));
}

std::vector<int32_t> receives_posted_after(const Schedule& schedule) {
  const Step& step = schedule.step;
  bool folds = is_folded(step);
  std::vector<int32_t> after(schedule.operators.size(), 0);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto row = schedule.row(rank);
    auto ahead = [&](const Operator& op) -> int64_t {
      bool goes_round = rank == (op.phase == Phase::forward ? 0 : step.ranks - 1);
      if ((step.base != Base::interleaved && step.base != Base::gpipe) || !goes_round) return 0;
      int64_t group = step.base == Base::gpipe ? step.microbatches : step.group_size();
      int64_t first = op.index / group * group;
      return std::max(int64_t{0}, std::min(group, step.microbatches - first) - step.ranks);
    };
    std::vector<int32_t> directions[4];  // positions so far
    for (int64_t p = 0; p < int64_t(row.size()); ++p) {
      const Operator& op = row[p];
      if (op.module != Module::backbone || op.phase == Phase::weight) continue;
      auto& ran = directions[(op.phase == Phase::forward ? 0 : 1) + (folds ? 2 * op.chunk : 0)];
      int64_t before = int64_t(ran.size()) - 1 - ahead(op);
      if (before >= 0) after[schedule.row_begin[rank] + p] = ran[before] + 1;
      ran.push_back(int32_t(p));
    }
  }
  return after;
}

}  // namespace bigmac
