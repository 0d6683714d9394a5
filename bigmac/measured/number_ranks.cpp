#include "bigmac/measured/number_ranks.h"

#include <algorithm>
#include <numeric>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

void sort_by_rank(std::vector<RawRank>& ranks) {
  std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
}

void take_one_of_each(std::vector<RawRank>& ranks, std::vector<std::string>& notes) {
  std::vector<RawRank> each;
  for (auto& rank : ranks) {
    if (each.empty() || each.back().rank != rank.rank) {
      each.push_back(std::move(rank));
      continue;
    }
    bool later = rank.operators.size() > each.back().operators.size();
    auto &taken = later ? rank : each.back(), &left = later ? each.back() : rank;
    notes.push_back(concat("rank ", rank.rank, " is in two files; that of '", taken.file,
                           "' is taken, that of '", left.file, "' left out"));
    if (later) each.back() = std::move(rank);
  }
  ranks = std::move(each);
}

void note_stride(int64_t first, int64_t stride, int64_t count, std::vector<std::string>& notes) {
  if (stride == 1) return;
  notes.push_back(concat("ranks ", first, ", ", first + stride, ", ... ", first + (count - 1) * stride,
                         " of the run are taken as ranks 0 to ", count - 1, " of its pipeline"));
}

}  // namespace

std::string ranges(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t n = 0; n < numbers.size();) {
    size_t last = n;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += concat(n > 0 ? ", " : "", numbers[n]);
    if (last > n) text += concat(last == n + 1 ? ", " : " to ", numbers[last]);
    n = last + 1;
  }
  return text;
}

void number_ranks(std::vector<RawRank>& ranks, bool apart, std::vector<std::string>& notes) {
  sort_by_rank(ranks);
  for (size_t n = 1; n < ranks.size(); ++n)
    if (ranks[n].rank == ranks[n - 1].rank)
      throw InvalidInput(concat("[trace] rank ", ranks[n].rank, " is in two files: '", ranks[n - 1].file,
                                "' and '", ranks[n].file, "'"));
  auto stride = apart && ranks.size() > 1 ? ranks[1].rank - ranks[0].rank : 1;
  for (size_t n = 0; n < ranks.size(); ++n) {
    int64_t expected = ranks[0].rank + int64_t(n) * stride;
    if (ranks[n].rank != expected || (stride == 1 && ranks[0].rank != 0))
      throw InvalidInput(concat("[trace] rank ", stride == 1 && ranks[0].rank != 0 ? 0 : expected,
                                " is missing; there are ", ranks.size(), " from ", ranks[0].rank, " to ",
                                ranks.back().rank));
  }
  note_stride(ranks[0].rank, stride, int64_t(ranks.size()), notes);
  for (size_t n = 0; n < ranks.size(); ++n) ranks[n].rank = int64_t(n);
}

void number_ranks_that_are_there(std::vector<RawRank>& ranks, int64_t least, bool apart,
                                 std::vector<std::string>& notes) {
  constexpr int64_t kFar = 64, kMostRanks = 65536;
  sort_by_rank(ranks);
  take_one_of_each(ranks, notes);
  while (ranks.size() > 1 && ranks.back().rank > kFar * int64_t(ranks.size()) + std::max<int64_t>(least, 0)) {
    notes.push_back(
        concat("rank ", ranks.back().rank, " (", ranks.back().file, ") is far from the others and left out"));
    ranks.pop_back();
  }
  int64_t stride = 0;
  for (const auto& rank : ranks) stride = std::gcd(stride, rank.rank - ranks[0].rank);
  bool alone = stride == 0;
  if (!apart || (alone && least > 1)) stride = 1;
  if (alone && apart && ranks[0].rank != 0)
    notes.push_back(concat("only rank ", ranks[0].rank, " of the run is there, and nothing says how many"));
  int64_t first = stride == 1 ? 0 : ranks[0].rank;
  if (stride == 0) stride = 1;
  int64_t count = std::max((ranks.back().rank - first) / stride + 1, std::min(least, kMostRanks));
  if (count > kMostRanks)
    throw InvalidInput(concat("[trace] ", ranks.back().file, ": rank ", ranks.back().rank,
                              " is more than the ", kMostRanks, " ranks that a pipeline may have"));
  std::vector<RawRank> all;
  std::vector<int64_t> missing;
  auto next = ranks.begin();
  for (int64_t n = 0; n < count; ++n) {
    bool is_there = next != ranks.end() && next->rank == first + n * stride;
    if (!is_there) missing.push_back(n);
    all.push_back(is_there ? std::move(*next++) : RawRank{.file = ranks[0].file});
    all.back().rank = n;
  }
  note_stride(first, stride, count, notes);
  if (!missing.empty())
    notes.push_back(
        concat("of ", count, " ranks these are missing, no operator of them was read: ", ranges(missing)));
  ranks = std::move(all);
}

}  // namespace bigmac
