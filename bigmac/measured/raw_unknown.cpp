#include "bigmac/measured/raw_unknown.h"

#include <algorithm>
#include <map>
#include <optional>

#include "bigmac/common/error.h"
#include "bigmac/schedule/base.h"

namespace bigmac {
namespace {

[[noreturn]] void fail(const RawRank& rank, const std::string& text) {
  throw InvalidInput(concat("[measured] ", rank.file, ": rank ", rank.rank, ": ", text));
}

template <class Visit>
void for_each_backbone(RawStep& raw, Visit&& visit) {
  for (auto& rank : raw.ranks)
    for (auto& op : rank.operators)
      if (op.share < 0) visit(rank, op);
}

// Our own traces say the stage only where it is not chunk * P + rank.
void chunks_from_stages(RawStep& raw) {
  bool any = false;
  for_each_backbone(raw, [&](RawRank&, RawOperator& op) { any |= op.stage >= 0; });
  if (!any) return;
  auto ranks = int64_t(raw.ranks.size());
  for_each_backbone(raw, [&](RawRank& rank, RawOperator& op) {
    if (op.stage >= 0) return;
    if (op.chunk < 0) fail(rank, concat(shown(op), " says no stage, other operators do"));
    op.stage = op.chunk * ranks + rank.rank;
  });
  for (auto& rank : raw.ranks) {
    std::map<int64_t, int64_t> chunk_of;
    for (const auto& op : rank.operators)
      if (op.share < 0) chunk_of.emplace(op.stage, 0);
    int64_t chunk = 0;
    for (auto& entry : chunk_of) entry.second = chunk++;
    for (auto& op : rank.operators)
      if (op.share < 0) op.chunk = chunk_of[op.stage];
  }
}

int64_t forwards_of(const RawRank& rank) {
  return std::count_if(rank.operators.begin(), rank.operators.end(),
                       [](const auto& op) { return op.share < 0 && op.phase == Phase::forward; });
}

// Of a rank whose operators say neither chunk nor microbatch: as Megatron Core orders them.
void fill_in_interleaved(RawStep& raw, RawRank& rank, int64_t chunks, bool incomplete) {
  int64_t forwards = forwards_of(rank);
  if (incomplete) {
    for (const auto& other : raw.ranks) forwards = std::max(forwards, forwards_of(other));
    int64_t fewest = std::max<int64_t>({1, int64_t(raw.ranks.size()), raw.group});  // M >= G >= P
    forwards = std::max((forwards + chunks - 1) / chunks, fewest) * chunks;
  }
  if (forwards % chunks != 0)
    fail(rank, concat("has ", forwards, " forwards, which V=", chunks, " chunks do not divide"));
  Step step;
  step.ranks = int64_t(raw.ranks.size());
  step.chunks = chunks;
  step.microbatches = forwards / chunks;
  step.base = Base::interleaved;
  step.group = raw.group;
  raw.order_assumed = true;
  auto table = base_table(step);
  std::vector<Operator> forward, backward;
  for (const auto& op : table.row(int(rank.rank)))
    (op.phase == Phase::forward ? forward : backward).push_back(op);
  size_t at[5] = {};
  for (auto& op : rank.operators) {
    if (op.share >= 0) continue;
    const auto& list = op.phase == Phase::forward ? forward : backward;
    size_t n = at[size_t(op.phase)]++;
    if (n >= list.size() && incomplete) n = list.size() - 1;
    if (n >= list.size()) fail(rank, concat("has more ", letter(op.phase), " than forwards"));
    op.chunk = list[n].chunk;
    op.microbatch = list[n].index;
  }
}

// The k-th forward of a microbatch is of chunk k, its k-th backward of the k-th last.
void chunks_from_repeats(RawRank& rank, int64_t chunks, bool incomplete) {
  std::map<std::pair<Phase, int64_t>, int64_t> seen;
  for (auto& op : rank.operators) {
    if (op.share >= 0) continue;
    int64_t n = seen[{op.phase, op.microbatch}]++;
    if (n >= chunks && incomplete) n = chunks - 1;
    if (n >= chunks) fail(rank, concat(shown(op), " is there more than V=", chunks, " times"));
    op.chunk = op.phase == Phase::forward ? n : chunks - 1 - n;
  }
}

void fill_in_chunks(RawStep& raw, bool incomplete) {
  int64_t chunks = std::max<int64_t>(raw.chunks, 1);
  for (auto& rank : raw.ranks) {
    bool chunk_missing = false, microbatch_missing = false;
    for (const auto& op : rank.operators) {
      if (op.share >= 0) continue;
      chunk_missing |= op.chunk < 0;
      microbatch_missing |= op.microbatch < 0;
    }
    if (!chunk_missing) continue;
    if (chunks == 1) {
      for (auto& op : rank.operators) op.chunk = std::max<int64_t>(op.chunk, 0);
    } else if (microbatch_missing) {
      fill_in_interleaved(raw, rank, chunks, incomplete);
    } else {
      chunks_from_repeats(rank, chunks, incomplete);
    }
  }
}

void fill_in_microbatches(RawStep& raw, bool incomplete) {
  for (auto& rank : raw.ranks) {
    std::map<std::pair<Phase, int64_t>, int64_t> seen;
    for (auto& op : rank.operators)
      if (op.share < 0 && op.microbatch < 0) op.microbatch = seen[{op.phase, op.chunk}]++;
  }
  std::optional<int64_t> least, most;
  bool placed = false;
  for_each_backbone(raw, [&](RawRank&, RawOperator& op) {
    least = std::min(least.value_or(op.microbatch), op.microbatch);
    most = std::max(most.value_or(op.microbatch), op.microbatch);
    placed |= op.position >= 0;
  });
  if (!least && incomplete) return;
  if (!least) fail(raw.ranks[0], "has no operators of the backbone");
  int64_t first = *least == 1 && !placed ? 1 : 0;
  for_each_backbone(raw, [&](RawRank&, RawOperator& op) {
    op.microbatch -= first;
    if (op.position < 0) op.position = op.microbatch;
  });
  if (!incomplete && raw.microbatches > 0 && *most - first + 1 != raw.microbatches)
    fail(raw.ranks[0], concat("has ", *most - first + 1, " microbatches with V=",
                              std::max<int64_t>(raw.chunks, 1), ", expected were ", raw.microbatches));
}

}  // namespace

void fill_in_unknown(RawStep& raw, bool incomplete) {
  chunks_from_stages(raw);
  fill_in_chunks(raw, incomplete);
  fill_in_microbatches(raw, incomplete);
}

}  // namespace bigmac
