#include "bigmac/schedule/deadlock.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/schedule/complete.h"
#include "bigmac/schedule/walk.h"

namespace bigmac {
namespace {

// What keeps a rank from going on: another rank that has not come far enough.
struct Wait {
  int rank = kNowhere;
  std::string reason;
  explicit operator bool() const { return rank != kNowhere; }
};

class Progress {
 public:
  Progress(const Schedule& schedule, const Dependencies& dependencies, const std::vector<int32_t>& positions,
           Sends sends)
      : schedule_(schedule),
        dependencies_(dependencies),
        positions_(positions),
        sends_(sends),
        reached_(schedule.ranks(), 0),
        next_unit_(schedule.ranks(), 0),
        last_backbone_(schedule.ranks(), kNowhere) {
    if (sends == Sends::buffered) return;
    posted_after_ = receives_posted_after(schedule);
    for (const auto& unit : schedule.units) {
      std::vector<uint8_t> parts(schedule.ranks());
      for (int rank = 0; rank < schedule.ranks(); ++rank) parts[rank] = takes_part(unit, rank);
      takes_part_.push_back(std::move(parts));
    }
  }

  bool try_run(int rank, int64_t position, const Operator& op) {
    if (waits_for(rank, position, op)) return false;
    if (op.module == Module::backbone) last_backbone_[rank] = position;
    reached_[rank] = position + 1;
    return true;
  }

  // With `explain`, the text is filled in as well.
  Wait waits_for(int rank, int64_t position, const Operator& op, bool explain = false) {
    Wait wait;
    dependencies_.for_each_predecessor(rank, op, [&](int64_t id, int from) {
      if (wait || reached_[from] > positions_[id]) return;
      wait.rank = from;
      if (explain) wait.reason = concat("needs the output of ", where(schedule_, from, positions_[id]));
    });
    if (wait || sends_ == Sends::buffered) return wait;
    if (auto at_unit = waits_at_units(rank, position, explain)) return at_unit;
    return op.module == Module::backbone ? waits_to_send(rank, explain) : wait;
  }

 private:
  // The unit's messages all start from or end on one rank: where the encoder's output goes to and comes
  // back from, and where the generator's input comes from.
  int root(const Unit& unit) const {
    bool encodes = schedule_.step.modules[unit.module].kind == Module::encoder;
    return dependencies_.rank_of(encodes ? 0 : dependencies_.stages() - 1);
  }

  bool takes_part(const Unit& unit, int rank) const {
    auto row = schedule_.row(rank);
    int64_t place = unit.place[rank];
    return place < int64_t(row.size()) && is_of(schedule_, row[place], unit);
  }

  // A rank may leave a unit's place when the other end of each of its messages has come to the unit, and,
  // where the unit's outputs are received, when they are there.
  Wait waits_at_units(int rank, int64_t position, bool explain) {
    for (auto& u = next_unit_[rank]; u < schedule_.units.size(); ++u) {
      const Unit& unit = schedule_.units[u];
      const auto& parts = takes_part_[u];
      if (unit.place[rank] + parts[rank] > position) break;
      for (int other = 0; other < schedule_.ranks(); ++other) {
        bool linked = rank == root(unit) ? parts[other] : parts[rank] && other == root(unit);
        if (other == rank || !linked) continue;
        bool receives = rank == root(unit) && unit.phase != Phase::backward;
        if (reached_[other] >= unit.place[other] + (receives ? 1 : 0)) continue;
        Wait wait{other, {}};
        if (explain)
          wait.reason =
              concat("exchanges unit ", unit.index, " of '", schedule_.step.modules[unit.module].name,
                     "' with rank ", other, ", which is due at its position ", unit.place[other]);
        return wait;
      }
    }
    return {};
  }

  Wait waits_to_send(int rank, bool explain) const {
    int64_t from = last_backbone_[rank];
    Wait wait;
    if (from == kNowhere) return wait;
    dependencies_.for_each_receiver(rank, schedule_.row(rank)[from], [&](int64_t id, int to) {
      if (wait || to == rank || id >= dependencies_.backbone_count()) return;
      if (reached_[to] >= posted_after_[schedule_.row_begin[to] + positions_[id]]) return;
      wait.rank = to;
      if (explain)
        wait.reason = concat("sends the output of ", where(schedule_, rank, from), " to ",
                             where(schedule_, to, positions_[id]), ", which has not come to receive it");
    });
    return wait;
  }

  const Schedule& schedule_;
  const Dependencies& dependencies_;
  const std::vector<int32_t>& positions_;
  Sends sends_;
  std::vector<int64_t> reached_;
  std::vector<size_t> next_unit_;
  std::vector<int64_t> last_backbone_;
  std::vector<int32_t> posted_after_;
  std::vector<std::vector<uint8_t>> takes_part_;  // by unit, rank
};

}  // namespace

std::string tell_circle(int rank, const std::function<std::pair<std::string, int>(int)>& wait_of) {
  std::vector<int> seen;
  std::vector<std::string> lines;
  while (std::find(seen.begin(), seen.end(), rank) == seen.end()) {
    seen.push_back(rank);
    auto [line, next] = wait_of(rank);
    lines.push_back(std::move(line));
    rank = next;
  }
  auto first = std::find(seen.begin(), seen.end(), rank) - seen.begin();
  std::string text = "deadlock:";
  for (size_t i = size_t(first); i < lines.size(); ++i) text += "\n  " + lines[i];
  return text;
}

std::string find_deadlock(const Schedule& schedule, const Dependencies& dependencies,
                          const std::vector<int32_t>& positions, Sends sends) {
  Progress progress(schedule, dependencies, positions, sends);
  auto reached = walk(schedule, [&](int rank, int64_t position, const Operator& op) {
    return progress.try_run(rank, position, op);
  });
  int rank = 0;
  while (rank < schedule.ranks() && reached[rank] == int64_t(schedule.row(rank).size())) ++rank;
  if (rank == schedule.ranks()) return "";
  return tell_circle(rank, [&](int stuck) {
    Wait wait = progress.waits_for(stuck, reached[stuck], schedule.row(stuck)[reached[stuck]], true);
    return std::pair(concat(where(schedule, stuck, reached[stuck]), " ", wait.reason), wait.rank);
  });
}

}  // namespace bigmac
