#include <algorithm>
#include <array>
#include <utility>

#include "bigmac/common/error.h"
#include "bigmac/formats/torch_shape.h"
#include "bigmac/formats/torch_table.h"
#include "bigmac/schedule/complete.h"
#include "bigmac/schedule/deadlock.h"

namespace bigmac {
namespace {

// What is looked up by stage and microbatch. A gradient is a full backward or an input gradient.
enum Entry { kForward, kGradient, kSendForward, kReceiveForward, kSendBackward, kReceiveBackward, kEntries };

// A send or receive, seen from its own stage.
struct Link {
  Entry own, other;   // the ends
  Entry computation;  // what is sent, or what waits for what is received; at both ends
  int towards;        // the other end's stage, less the own
  bool sends;
};

constexpr Link kLinks[] = {{kSendForward, kReceiveForward, kForward, 1, true},
                           {kReceiveForward, kSendForward, kForward, -1, false},
                           {kSendBackward, kReceiveBackward, kGradient, -1, true},
                           {kReceiveBackward, kSendBackward, kGradient, 1, false}};

const Link* link_of(TorchKind kind) {
  switch (kind) {
    case TorchKind::send_forward:
      return &kLinks[0];
    case TorchKind::receive_forward:
      return &kLinks[1];
    case TorchKind::send_backward:
      return &kLinks[2];
    case TorchKind::receive_backward:
      return &kLinks[3];
    default:
      return nullptr;
  }
}

int entry_of(TorchKind kind) {
  if (kind == TorchKind::forward) return kForward;
  if (kind == TorchKind::full_backward || kind == TorchKind::input_gradient) return kGradient;
  const Link* link = link_of(kind);
  return link ? int(link->own) : -1;
}

TorchKind kind_of(Entry entry) {
  constexpr TorchKind kKinds[kEntries] = {TorchKind::forward,       TorchKind::full_backward,
                                          TorchKind::send_forward,  TorchKind::receive_forward,
                                          TorchKind::send_backward, TorchKind::receive_backward};
  return kKinds[entry];
}

// A rank's row has two slots a cell, since a cell may hold two actions.
class Communication {
 public:
  Communication(const TorchTable& table, Sends sends)
      : table_(table),
        sends_(sends),
        step_(step_of(table, "table", true)),
        unshards_(size_t(step_.stages()), 0),
        last_backward_(size_t(step_.stages()), kNowhere) {}

  std::vector<std::string> check() {
    index();
    if (links_)
      for_each_action(
          [&](int rank, int64_t slot, const TorchAction& action) { check_links(rank, slot, action); });
    check_sharding();
    if (links_) find_deadlock();
    return std::move(problems_);
  }

 private:
  int64_t slots(int rank) const { return 2 * int64_t(table_.rows[size_t(rank)].size()); }
  const TorchAction& action_at(int rank, int64_t slot) const {
    const TorchCell& cell = table_.rows[size_t(rank)][size_t(slot / 2)];
    return slot % 2 == 0 ? cell.first : cell.second;
  }

  template <class Visit>
  void for_each_action(Visit&& visit) const {
    for (int rank = 0; rank < step_.ranks; ++rank)
      for (int64_t slot = 0; slot < slots(rank); ++slot)
        if (action_at(rank, slot).kind != TorchKind::none) visit(rank, slot, action_at(rank, slot));
  }

  int32_t& slot_of(int entry, int64_t stage, int64_t microbatch) {
    return slots_[size_t(entry)][size_t(stage * step_.microbatches + microbatch)];
  }
  bool has(int entry, int64_t stage, int64_t microbatch) {
    return slot_of(entry, stage, microbatch) != kNowhere;
  }

  std::string name(Entry entry, int64_t stage, uint32_t microbatch) const {
    return to_text({microbatch, uint16_t(stage), kind_of(entry)}, table_.dialect);
  }
  // "cell 3 (0SEND_F2)"
  std::string cell(int rank, int64_t slot) const {
    return concat("cell ", slot / 2 + 1, " (", to_text(action_at(rank, slot), table_.dialect), ")");
  }
  std::string place(int rank, int64_t slot) const { return concat("rank ", rank, " ", cell(rank, slot)); }
  bool told_enough() const { return problems_.size() >= kMostProblems; }
  void tell(std::string text) {
    if (!told_enough()) problems_.push_back(std::move(text));
  }

  void index() {
    for (auto& slots : slots_) slots.assign(size_t(step_.stages() * step_.microbatches), kNowhere);
    for_each_action([&](int rank, int64_t slot, const TorchAction& action) {
      if (action.kind == TorchKind::unshard) unshards_[action.stage] = 1;
      if (is_computation(action.kind) && action.kind != TorchKind::forward)
        last_backward_[action.stage] = int32_t(slot);
      if (int entry = entry_of(action.kind); entry >= 0) {
        auto& first = slot_of(entry, action.stage, action.microbatch);
        links_ = links_ || link_of(action.kind);
        if (first == kNowhere)
          first = int32_t(slot);
        else if (link_of(action.kind) && !told_enough())
          tell(concat(place(rank, slot), " is there twice, first in cell ", first / 2 + 1));
      }
    });
  }

  // The other end's stage; -1 where there is none or it is on the same rank.
  int64_t other_stage(const Link& link, int64_t stage) const {
    int64_t other = stage + link.towards;
    bool links = other >= 0 && other < step_.stages() &&
                 step_.stage_ranks[size_t(other)] != step_.stage_ranks[size_t(stage)];
    return links ? other : -1;
  }

  void check_links(int rank, int64_t slot, const TorchAction& action) {
    if (told_enough()) return;
    if (const Link* link = link_of(action.kind)) return check_link(rank, slot, action, *link);
    int entry = entry_of(action.kind);
    for (const Link& link : kLinks)
      if (!link.sends && link.computation == entry) check_received(rank, slot, action, link);
  }

  void check_link(int rank, int64_t slot, const TorchAction& action, const Link& link) {
    int64_t stage = action.stage, other = other_stage(link, stage), m = action.microbatch;
    if (other < 0) {
      int64_t beyond = stage + link.towards;
      bool exists = beyond >= 0 && beyond < step_.stages();
      return tell(
          concat(place(rank, slot),
                 exists ? " is between stages of the same rank, which send nothing: " : " has no other end: ",
                 "stage ", beyond, exists ? concat(" is on rank ", rank, " too") : " does not exist"));
    }
    if (!has(link.other, other, m) && has(link.computation, other, m))
      tell(concat(place(rank, slot), " is not ", link.sends ? "received" : "sent", ": rank ",
                  step_.stage_ranks[size_t(other)], " lacks ", name(link.other, other, action.microbatch)));
    int64_t computation = slot_of(link.computation, stage, m);
    if (link.sends && computation > slot)
      tell(concat(place(rank, slot), " is before ", cell(rank, computation), ", whose output it sends"));
  }

  // Whether a computation has received what it needs over a link of receives.
  void check_received(int rank, int64_t slot, const TorchAction& action, const Link& link) {
    int64_t stage = action.stage, other = other_stage(link, stage), m = action.microbatch;
    if (other < 0) return;
    int64_t receive = slot_of(link.own, stage, m);
    if (receive > slot)
      tell(concat(place(rank, slot), " is before ", cell(rank, receive), ", whose input it needs"));
    bool missing = receive == kNowhere && !has(link.other, other, m) && has(link.computation, other, m);
    if (missing)
      tell(concat(place(rank, slot), " needs the output of stage ", other,
                  ", but nothing is sent: right would be ", name(link.other, other, action.microbatch),
                  " on rank ", step_.stage_ranks[size_t(other)], " and ",
                  name(link.own, stage, action.microbatch), " before it"));
  }

  void check_sharding() {
    std::vector<uint8_t> whole(size_t(step_.stages()), 0), reduced = whole;
    for_each_action([&](int rank, int64_t slot, const TorchAction& action) {
      if (told_enough()) return;
      auto& is_whole = whole[action.stage];
      if (action.kind == TorchKind::unshard && is_whole)
        tell(concat(place(rank, slot), " is of a stage that is not sharded; a RESHARD must come first"));
      if (action.kind == TorchKind::reshard && !is_whole)
        tell(concat(place(rank, slot), " is of a stage that is sharded; an UNSHARD must come first"));
      if (action.kind == TorchKind::unshard) is_whole = 1;
      if (action.kind == TorchKind::reshard) is_whole = 0;
      if (action.kind == TorchKind::reduce_gradient && std::exchange(reduced[action.stage], 1))
        tell(concat(place(rank, slot), " reduces the stage's gradients a second time"));
      if (is_computation(action.kind) && unshards_[action.stage] && !whole[action.stage])
        tell(concat(place(rank, slot), " is not between an UNSHARD and a RESHARD of stage ", action.stage));
      int64_t last = last_backward_[action.stage];
      if (action.kind == TorchKind::reduce_gradient && last > slot)
        tell(concat(place(rank, slot), " is before the stage's last backward in ", cell(rank, last)));
    });
  }

  // The slot that the rank of the other end must have reached before this one can go on, or kNowhere.
  struct Wait {
    int rank = kNowhere;
    int64_t slot = kNowhere;
    bool passed = false;  // it must have been passed
  };
  Wait waits_for(const TorchAction& action) {
    const Link* link = link_of(action.kind);
    if (!link || (link->sends && sends_ == Sends::buffered)) return {};
    int64_t other = other_stage(*link, action.stage);
    if (other < 0 || !has(link->other, other, action.microbatch)) return {};
    return {step_.stage_ranks[size_t(other)], slot_of(link->other, other, action.microbatch),
            sends_ == Sends::buffered};
  }

  void find_deadlock() {
    auto ranks = size_t(step_.ranks);
    std::vector<int64_t> reached(ranks, 0);
    std::vector<std::vector<int>> waiting(ranks);  // for this rank
    std::vector<int> ready;
    for (int rank = int(ranks) - 1; rank >= 0; --rank) ready.push_back(rank);
    auto keeps = [&](const Wait& wait) {
      return wait.rank != kNowhere && reached[size_t(wait.rank)] < wait.slot + (wait.passed ? 1 : 0);
    };
    while (!ready.empty()) {
      int rank = ready.back();
      ready.pop_back();
      int64_t& at = reached[size_t(rank)];
      int64_t before = at;
      Wait wait;
      for (; at < slots(rank); ++at) {
        wait = waits_for(action_at(rank, at));
        if (keeps(wait)) break;
      }
      if (at < slots(rank)) waiting[size_t(wait.rank)].push_back(rank);
      if (at == before) continue;
      auto& woken = waiting[size_t(rank)];
      ready.insert(ready.end(), woken.begin(), woken.end());
      woken.clear();
    }
    tell_stuck(reached);
  }

  void tell_stuck(const std::vector<int64_t>& reached) {
    int rank = 0;
    while (rank < step_.ranks && reached[size_t(rank)] == slots(rank)) ++rank;
    if (rank == step_.ranks) return;
    tell(tell_circle(rank, [&](int stuck) {
      int64_t at = reached[size_t(stuck)];
      Wait wait = waits_for(action_at(stuck, at));
      return std::pair(concat(place(stuck, at), " waits for ", place(wait.rank, wait.slot)), wait.rank);
    }));
  }

  const TorchTable& table_;
  Sends sends_;
  Step step_;
  std::array<std::vector<int32_t>, kEntries>
      slots_;  // by stage and microbatch, kNowhere for what is not there
  std::vector<uint8_t> unshards_;
  std::vector<int32_t> last_backward_;
  bool links_ = false;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check_communication(const TorchTable& table, Sends sends) {
  return Communication(table, sends).check();
}

}  // namespace bigmac
