#include "bigmac/measured/what_is_missing.h"

#include <set>

#include "bigmac/common/error.h"
#include "bigmac/measured/number_ranks.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/dependencies.h"

namespace bigmac {
namespace {

class Missing {
 public:
  explicit Missing(const Schedule& schedule) : schedule_(schedule), dependencies_(schedule) {
    std::vector<uint8_t> there(size_t(dependencies_.count()), 0), split(there.size(), 0);
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (const auto& op : schedule.row(rank)) {
        auto id = size_t(dependencies_.of(rank, op));
        there[id] = 1;
        split[id] = op.phase == Phase::input;
      }
    int64_t backwards = dependencies_.backward_of(0, 0), weights = dependencies_.weight_of(0, 0);
    for (int64_t id = 0; id < dependencies_.backbone_count(); ++id) {
      bool asked = id < weights || split[size_t(id - weights + backwards)] != 0;
      if (asked) count(id, there[size_t(id)] != 0);
    }
    for (int64_t share = 0; share < int64_t(schedule.shares.list.size()); ++share) {
      count(dependencies_.first_of(share), there[size_t(dependencies_.first_of(share))] != 0);
      if (dependencies_.has_backward(share))
        count(dependencies_.second_of(share), there[size_t(dependencies_.second_of(share))] != 0);
    }
  }

  // "1200 of 1536 operators are missing, on ranks 0 to 3; the first: rank 0, backbone B chunk 0 microbatch 5"
  std::string text() const {
    if (missing_ == 0) return {};
    auto [rank, op] = dependencies_.at(first_);
    return concat(missing_, " of ", all_, " operators are missing, on ",
                  ranks_.size() == 1 ? "rank " : "ranks ", ranges({ranks_.begin(), ranks_.end()}),
                  "; the first: rank ", rank, ", ", describe(schedule_, op));
  }

 private:
  void count(int64_t id, bool is_there) {
    ++all_;
    if (is_there) return;
    if (missing_++ == 0) first_ = id;
    ranks_.insert(dependencies_.at(id).rank);
  }

  const Schedule& schedule_;
  Dependencies dependencies_;
  int64_t all_ = 0, missing_ = 0, first_ = 0;
  std::set<int64_t> ranks_;
};

}  // namespace

std::vector<std::string> what_is_missing(const Schedule& schedule) {
  auto problems = check(schedule);
  if (problems.empty()) return problems;
  if (auto text = Missing(schedule).text(); !text.empty()) return {text};
  problems.resize(1);
  return problems;
}

}  // namespace bigmac
