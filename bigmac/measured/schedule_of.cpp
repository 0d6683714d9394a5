#include "bigmac/measured/schedule_of.h"

#include <algorithm>
#include <map>

#include "bigmac/common/error.h"
#include "bigmac/formats/table_header.h"

namespace bigmac {
namespace {

[[noreturn]] void fail(const RawStep& raw, const RawRank& rank, const std::string& text) {
  throw InvalidInput(concat("[measured] ", rank.file, ": ", raw.name.empty() ? "" : "iteration ", raw.name,
                            raw.name.empty() ? "" : ", ", "rank ", rank.rank, ": ", text));
}

class Assembly {
 public:
  explicit Assembly(const RawStep& raw) : raw_(raw) {}

  Schedule schedule(std::vector<int32_t> stage_ranks) {
    set_step(std::move(stage_ranks));
    add_shares();
    for (const auto& rank : raw_.ranks) {
      for (const auto& op : rank.operators)
        schedule_.operators.push_back(op.share >= 0 ? share_operator(op) : backbone_operator(op));
      schedule_.row_begin.push_back(int64_t(schedule_.operators.size()));
    }
    return std::move(schedule_);
  }

 private:
  static Operator backbone_operator(const RawOperator& op) {
    return backbone(op.phase, op.chunk, op.position);
  }
  Operator share_operator(const RawOperator& op) const {
    return {number_of_share_[size_t(op.share)], 0, raw_.shares[size_t(op.share)].kind, op.phase};
  }

  void set_step(std::vector<int32_t> stage_ranks) {
    Step& step = schedule_.step;
    int64_t operators = 0, most = 0;
    for (const auto& rank : raw_.ranks) {
      operators += int64_t(rank.operators.size());
      for (const auto& op : rank.operators) {
        if (op.share >= 0) continue;
        step.chunks = std::max(step.chunks, op.chunk + 1);
        most = std::max({most, op.position, op.microbatch});
      }
    }
    step.base = Base::custom;
    step.ranks = int64_t(raw_.ranks.size());
    step.microbatches = std::max(most + 1, raw_.microbatches);
    step.stage_ranks = std::move(stage_ranks);
    std::vector<int64_t> held(raw_.ranks.size(), 0);
    for (int32_t rank : step.stage_ranks) step.chunks = std::max(step.chunks, ++held[size_t(rank)]);
    try {
      check_step_fits(step, operators);
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat("[measured] ", raw_.ranks[0].file, ": ", error.what()));
    }
    schedule_.row_begin = {0};
    set_order();
  }

  void set_order() {
    Step& step = schedule_.step;
    auto count = size_t(step.microbatches);
    std::vector<uint32_t> order(count, kUnset);
    position_of_.assign(count, kUnset);
    for (const auto& rank : raw_.ranks)
      for (const auto& op : rank.operators)
        if (op.share < 0) {
          order[size_t(op.position)] = uint32_t(op.microbatch);
          position_of_[size_t(op.microbatch)] = uint32_t(op.position);
        }
    // What no operator says, in order.
    uint32_t next = 0;
    for (uint32_t position = 0; position < count; ++position) {
      if (order[position] != kUnset) continue;
      while (next < count && position_of_[next] != kUnset) ++next;
      if (next == count) break;
      order[position] = next;
      position_of_[next] = position;
    }
    if (!std::is_sorted(order.begin(), order.end())) step.order = std::move(order);
  }

  void add_shares() {
    std::vector<std::string> names;
    std::vector<int32_t> module_of;
    Step& step = schedule_.step;
    for (const auto& share : raw_.shares) {
      auto at = std::find(names.begin(), names.end(), share.module);
      module_of.push_back(int32_t(at - names.begin()));
      if (at != names.end()) continue;
      names.push_back(share.module);
      step.modules.push_back({share.module, share.kind, {}});
    }
    if (names.empty()) return;
    step.arrangement = Arrangement::nested;
    for (size_t n = 0; n < names.size(); ++n) add_items(int32_t(n), module_of);
    set_generator_unit();
    for (size_t n = 0; n < names.size(); ++n) {
      auto& module = step.modules[n];
      module.trained = module.kind == Module::generator || has_backward(int32_t(n), module_of);
    }
    add_share_list(module_of);
  }

  // A frozen encoder has none.
  bool has_backward(int32_t module, const std::vector<int32_t>& module_of) const {
    for (const auto& rank : raw_.ranks)
      for (const auto& op : rank.operators)
        if (op.share >= 0 && module_of[size_t(op.share)] == module && op.phase != Phase::forward) return true;
    return false;
  }

  void add_items(int32_t module, const std::vector<int32_t>& module_of) {
    auto& items = schedule_.step.modules[size_t(module)].items;
    size_t count = 0;
    for (size_t s = 0; s < raw_.shares.size(); ++s)
      if (module_of[s] == module) count += raw_.shares[s].items.size();
    items.assign(count, {0, -1});
    for (size_t s = 0; s < raw_.shares.size(); ++s) {
      if (module_of[s] != module) continue;
      for (const auto& item : raw_.shares[s].items) {
        const auto& name = schedule_.step.modules[size_t(module)].name;
        if (item.item < 0 || item.item >= int64_t(count) || items[size_t(item.item)].size >= 0)
          throw InvalidInput(concat("[measured] ", raw_.ranks[0].file, ": item ", item.item, " of '", name,
                                    "' is there twice or not among the ", count, " that there are"));
        if (item.microbatch < 0 || item.microbatch >= schedule_.step.microbatches)
          throw InvalidInput(concat("[measured] ", raw_.ranks[0].file, ": item ", item.item, " of '", name,
                                    "' is of microbatch ", item.microbatch, "; there are ",
                                    schedule_.step.microbatches));
        items[size_t(item.item)] = {position_of_[size_t(item.microbatch)], item.size};
      }
    }
  }

  // The size of the generators' units with which every share is of the unit that it says.
  void set_generator_unit() {
    Step& step = schedule_.step;
    auto fits = [&](int64_t size) {
      for (const auto& share : raw_.shares)
        for (const auto& item : share.items)
          if (share.kind == Module::generator && position_of_[size_t(item.microbatch)] / size != share.unit)
            return false;
      return true;
    };
    for (int64_t size = step.ranks; size > 0; --size)
      if (fits(size)) {
        step.generator_unit = size == step.ranks ? 0 : size;
        return;
      }
  }

  void add_share_list(const std::vector<int32_t>& module_of) {
    std::vector<int32_t> rank_of(raw_.shares.size(), -1);
    for (const auto& rank : raw_.ranks)
      for (const auto& op : rank.operators)
        if (op.share >= 0) rank_of[size_t(op.share)] = int32_t(rank.rank);
    std::vector<uint32_t> order(raw_.shares.size());
    for (size_t n = 0; n < order.size(); ++n) order[n] = uint32_t(n);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(module_of[a], raw_.shares[a].unit, rank_of[a]) <
             std::tuple(module_of[b], raw_.shares[b].unit, rank_of[b]);
    });
    number_of_share_.assign(order.size(), 0);
    auto& shares = schedule_.shares;
    for (uint32_t s : order) {
      number_of_share_[s] = uint32_t(shares.list.size());
      auto first = uint32_t(shares.items.size());
      for (const auto& item : raw_.shares[s].items) shares.items.push_back(uint32_t(item.item));
      shares.list.push_back({module_of[s], int32_t(raw_.shares[s].unit), rank_of[s], first,
                             uint32_t(raw_.shares[s].items.size())});
    }
  }

  static constexpr uint32_t kUnset = ~uint32_t{0};

  const RawStep& raw_;
  Schedule schedule_;
  std::vector<uint32_t> position_of_;  // by microbatch as the caller counts
  std::vector<uint32_t> number_of_share_;
};

}  // namespace

std::vector<int32_t> stage_ranks_of(const RawStep& raw) {
  // Of our own traces ranks may have no stage at all; then an operator that says none is of the loop's.
  auto ranks = int64_t(raw.ranks.size());
  int64_t chunks = 1;
  std::map<int64_t, int32_t> rank_of;
  for (const auto& rank : raw.ranks)
    for (const auto& op : rank.operators) {
      if (op.share >= 0) continue;
      chunks = std::max(chunks, op.chunk + 1);
      if (op.stage < 0 && raw.shares.empty()) continue;
      int64_t stage = op.stage >= 0 ? op.stage : op.chunk * ranks + rank.rank;
      auto [at, is_new] = rank_of.emplace(stage, int32_t(rank.rank));
      if (!is_new && at->second != rank.rank)
        fail(raw, rank, concat(shown(op), " is of stage ", stage, ", which is on rank ", at->second));
    }
  std::vector<int32_t> list;
  bool loops = int64_t(rank_of.size()) == ranks * chunks;
  for (const auto& [stage, rank] : rank_of) {
    if (stage != int64_t(list.size()))
      throw InvalidInput(concat("[measured] ", raw.ranks[0].file, ": stage ", list.size(),
                                " is on no rank; the stages go up to ", rank_of.rbegin()->first));
    loops &= stage % ranks == rank;
    list.push_back(rank);
  }
  return loops ? std::vector<int32_t>{} : list;
}

Schedule schedule_of(const RawStep& raw, std::vector<int32_t> stage_ranks) {
  return Assembly(raw).schedule(std::move(stage_ranks));
}

}  // namespace bigmac
