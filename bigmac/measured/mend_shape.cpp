#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "bigmac/common/error.h"
#include "bigmac/measured/mend.h"
#include "bigmac/measured/raw_unknown.h"

namespace bigmac {
namespace {

constexpr char kNumbers[] = "operators have numbers that no step like this has; they are left out";
constexpr char kTwice[] = "operators are there twice; the first is taken";

// Calls away(rank, op) for every operator and leaves out those it is true for.
template <class Away>
void leave_out(RawStep& raw, LeftOut& left, const char* what, Away&& away) {
  for (auto& rank : raw.ranks)
    std::erase_if(rank.operators, [&](RawOperator& op) {
      bool gone = away(rank, op);
      if (gone) left.add(what, told(rank, op));
      return gone;
    });
}

// Numbers count on; what stands alone far behind the others is none of them. The largest that is believed.
int64_t most_of(const std::set<int64_t>& numbers, int64_t gap) {
  int64_t most = gap;
  int64_t count = 0;
  int64_t believed = -1;
  for (int64_t number : numbers) {
    if (number > most) break;
    believed = std::max(believed, number);
    most = std::max(believed, ++count) + gap;
  }
  return believed;
}

void leave_out_far_numbers(RawStep& raw, LeftOut& left) {
  constexpr int64_t kGap = 64, kFewGap = 8;
  std::set<int64_t> stages, chunks, microbatches, positions;
  bool any_stage = false;
  for (const auto& rank : raw.ranks)
    for (const auto& op : rank.operators) {
      if (op.share >= 0) continue;
      any_stage |= op.stage >= 0;
      stages.insert(op.stage);
      chunks.insert(op.chunk);
      microbatches.insert(op.microbatch);
      positions.insert(op.position);
    }
  for (const auto& share : raw.shares)
    for (const auto& item : share.items) microbatches.insert(item.microbatch);
  auto ranks = int64_t(raw.ranks.size());
  int64_t stage = most_of(stages, kFewGap + 2 * ranks), chunk = most_of(chunks, kFewGap);
  int64_t microbatch = most_of(microbatches, kGap), position = most_of(positions, kGap);
  leave_out(raw, left, kNumbers, [&](const RawRank&, const RawOperator& op) {
    if (op.share >= 0) return false;
    bool no_stage = any_stage && op.stage < 0 && op.chunk < 0;
    bool illegal = op.phase == Phase::generate || no_stage;
    return illegal || op.stage > stage || op.chunk > chunk || op.microbatch > microbatch ||
           op.position > position;
  });
  for (auto& share : raw.shares)
    std::erase_if(share.items, [&](const RawItem& item) {
      return item.item < 0 || item.microbatch < 0 || item.microbatch > microbatch;
    });
}

// The rank of every stage, where operators say stages and they are no loop, and the chunks that follow from
// it.
std::vector<int32_t> mend_stages(RawStep& raw, LeftOut& left) {
  std::map<int64_t, std::map<int64_t, int64_t>> count;  // by stage and rank
  for (const auto& rank : raw.ranks)
    for (const auto& op : rank.operators)
      if (op.share < 0 && op.stage >= 0) ++count[op.stage][rank.rank];
  if (count.empty()) return {};
  auto ranks = int64_t(raw.ranks.size());
  auto known = std::max(count.rbegin()->first + 1, ranks * raw.chunks);
  std::vector<int32_t> rank_of(size_t(known), -1);
  std::vector<int64_t> held(size_t(ranks), 0);
  for (const auto& [stage, by_rank] : count) {
    auto most = std::max_element(by_rank.begin(), by_rank.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; });
    rank_of[size_t(stage)] = int32_t(most->first);
    ++held[size_t(most->first)];
  }
  leave_out(raw, left, "operators are of a stage of another rank; they are left out",
            [&](const RawRank& rank, const RawOperator& op) {
              return op.share < 0 && rank_of[size_t(op.stage)] != rank.rank;
            });
  // Stages that nothing was read of: in a V beside the other one, else in the loop.
  auto stages = int64_t(rank_of.size());
  for (int64_t stage = 0; stage < stages; ++stage) {
    auto& rank = rank_of[size_t(stage)];
    if (rank >= 0) continue;
    int64_t other = 2 * ranks - 1 - stage;
    bool folded = stages > ranks && other >= 0 && other < stages && rank_of[size_t(other)] >= 0 &&
                  rank_of[size_t(other)] != other % ranks;
    rank = int32_t(folded ? rank_of[size_t(other)] : stage % ranks);
  }
  std::vector<std::map<int64_t, int64_t>> chunk_of(static_cast<size_t>(ranks));
  bool loops = stages % ranks == 0;
  for (int64_t stage = 0; stage < stages; ++stage) {
    int32_t rank = rank_of[size_t(stage)];
    auto& own = chunk_of[size_t(rank)];
    own.emplace(stage, int64_t(own.size()));
    loops &= rank == stage % ranks;
  }
  for (auto& rank : raw.ranks)
    for (auto& op : rank.operators)
      if (op.share < 0) op.chunk = chunk_of[size_t(rank.rank)][op.stage];
  return loops ? std::vector<int32_t>{} : rank_of;
}

void leave_out_repeated(RawStep& raw, LeftOut& left) {
  using Key = std::tuple<bool, int, int64_t, int64_t>;
  std::set<Key> seen;
  int64_t of = -1;
  leave_out(raw, left, kTwice, [&](const RawRank& rank, const RawOperator& op) {
    if (rank.rank != of) seen.clear();
    of = rank.rank;
    int phase = op.phase == Phase::input ? int(Phase::backward) : int(op.phase);
    return !seen.insert(op.share >= 0 ? Key{true, phase, op.share, 0}
                                      : Key{false, phase, op.chunk, op.position})
                .second;
  });
}

// A microbatch has one place, and a place one microbatch.
void mend_order(RawStep& raw, LeftOut& left) {
  std::map<int64_t, int64_t> place_of, microbatch_at;
  int64_t most = raw.microbatches - 1;
  leave_out(raw, left, "operators have another microbatch at their place than others; they are left out",
            [&](const RawRank&, const RawOperator& op) {
              if (op.share >= 0) return false;
              most = std::max({most, op.microbatch, op.position});
              auto place = place_of.emplace(op.microbatch, op.position).first->second;
              auto microbatch = microbatch_at.emplace(op.position, op.microbatch).first->second;
              return place != op.position || microbatch != op.microbatch;
            });
  for (const auto& share : raw.shares)
    for (const auto& item : share.items) most = std::max(most, item.microbatch);
  raw.microbatches = std::max<int64_t>(most + 1, 1);
}

bool runs(Module kind, Phase phase) {
  if (kind == Module::generator) return phase == Phase::generate;
  return phase == Phase::forward || phase == Phase::backward;
}

// Items each once, numbered in the order of their microbatches; shares that some rank runs.
void mend_shares(RawStep& raw, LeftOut& left) {
  std::map<std::string, Module> kinds;
  leave_out(raw, left, kNumbers, [&](const RawRank&, const RawOperator& op) {
    if (op.share < 0) return false;
    const auto& share = raw.shares[size_t(op.share)];
    return kinds.emplace(share.module, share.kind).first->second != share.kind || !runs(share.kind, op.phase);
  });
  std::vector<uint8_t> is_run(raw.shares.size(), 0);
  for (const auto& rank : raw.ranks)
    for (const auto& op : rank.operators)
      if (op.share >= 0) is_run[size_t(op.share)] = 1;
  std::map<std::string, std::map<std::pair<int64_t, int64_t>, int64_t>> numbers;  // by microbatch and number
  std::set<std::pair<std::string, int64_t>> taken;
  for (size_t n = 0; n < raw.shares.size(); ++n) {
    auto& share = raw.shares[n];
    if (!is_run[n]) share.items.clear();
    std::erase_if(share.items, [&](RawItem& item) {
      if (!(item.size > 0 && item.size <= 1e12)) {
        left.add("items have no legal size; 1 is taken",
                 concat("item ", item.item, " of '", share.module, "'"));
        item.size = 1;
      }
      bool twice = !taken.emplace(share.module, item.item).second;
      if (twice)
        left.add("items are there twice; the first is taken",
                 concat("item ", item.item, " of '", share.module, "'"));
      if (!twice) numbers[share.module].emplace(std::pair(item.microbatch, item.item), 0);
      return twice;
    });
  }
  for (auto& [module, of_module] : numbers) {
    int64_t next = 0;
    for (auto& [item, number] : of_module) number = next++;
  }
  std::vector<int32_t> place(raw.shares.size(), -1);
  std::vector<RawShare> kept;
  for (size_t n = 0; n < raw.shares.size(); ++n) {
    auto& share = raw.shares[n];
    if (share.items.empty()) continue;
    for (auto& item : share.items) item.item = numbers[share.module][{item.microbatch, item.item}];
    std::sort(share.items.begin(), share.items.end(),
              [](const auto& a, const auto& b) { return a.item < b.item; });
    place[n] = int32_t(kept.size());
    kept.push_back(std::move(share));
  }
  leave_out(
      raw, left, "encoder or generator operators have no items of their own; they are left out",
      [&](const RawRank&, const RawOperator& op) { return op.share >= 0 && place[size_t(op.share)] < 0; });
  for (auto& rank : raw.ranks)
    for (auto& op : rank.operators)
      if (op.share >= 0) op.share = place[size_t(op.share)];
  raw.shares = std::move(kept);
}

}  // namespace

std::vector<int32_t> mend_shape(RawStep& raw, LeftOut& left) {
  leave_out_far_numbers(raw, left);
  fill_in_unknown(raw, true);
  auto stage_ranks = mend_stages(raw, left);
  leave_out_repeated(raw, left);
  mend_order(raw, left);
  mend_shares(raw, left);
  return stage_ranks;
}

}  // namespace bigmac
