#include "bigmac/schedule/check.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/sends.h"
#include "bigmac/schedule/walk.h"

namespace bigmac {
namespace {

constexpr int64_t kNowhere = -1;
constexpr size_t kMostProblems = 10;

std::string where(int rank, int64_t position, const Operator& op) {
  return concat("rank ", rank, " position ", position, " (", long_name(op), ")");
}

bool belongs(const Step& step, int rank, const Operator& op) {
  if (op.microbatch >= step.microbatches) return false;
  if (op.module == Module::backbone) return op.chunk < step.chunks && op.phase != Phase::generate;
  bool nests = step.arrangement != Arrangement::llm_only;
  const auto& flags = op.module == Module::encoder ? step.encoder : step.generator;
  bool phase_fits = (op.module == Module::generator) == (op.phase == Phase::generate);
  return nests && !flags.empty() && flags[op.microbatch] && phase_fits && op.chunk == 0 &&
         rank == unit_rank(step, op.microbatch);
}

// Positions of all operators by id; tells what is missing, twice or strange.
std::vector<int64_t> find_operators(const Schedule& schedule, std::vector<std::string>& problems) {
  const Step& step = schedule.step;
  Ids ids(step);
  std::vector<int64_t> positions(ids.count, kNowhere);
  auto tell = [&](std::string text) {
    if (problems.size() < kMostProblems) problems.push_back(std::move(text));
  };
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto row = schedule.row(rank);
    for (int64_t p = 0; p < int64_t(row.size()); ++p) {
      if (!belongs(step, rank, row[p])) {
        tell(concat(where(rank, p, row[p]), " does not belong to this rank of the step"));
        continue;
      }
      auto& position = positions[ids.of(rank, row[p])];
      if (position != kNowhere)
        tell(concat(where(rank, p, row[p]), " is there twice, first at position ", position));
      position = p;
    }
  }
  for (int64_t id = 0; id < ids.count; ++id) {
    if (positions[id] != kNowhere) continue;
    auto [rank, op] = ids.at(id);
    if (belongs(step, rank, op)) tell(concat("rank ", rank, " misses ", long_name(op)));
  }
  return positions;
}

// What keeps a rank from going on: another rank that has not come far enough.
struct Wait {
  int rank = kNowhere;
  std::string reason;
  explicit operator bool() const { return rank != kNowhere; }
};

class Progress {
 public:
  Progress(const Schedule& schedule, const std::vector<int64_t>& positions, Sends sends)
      : schedule_(schedule), ids_(schedule.step), positions_(positions), sends_(sends) {
    reached_.assign(schedule.ranks(), 0);
    next_unit_.assign(schedule.ranks(), 0);
    last_backbone_.assign(schedule.ranks(), kNowhere);
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
    for_each_predecessor(schedule_.step, ids_, rank, op, [&](int64_t id, int from) {
      if (wait || reached_[from] > positions_[id]) return;
      wait.rank = from;
      if (explain) wait.reason = concat("needs the output of ", text(from, positions_[id]));
    });
    if (wait || sends_ == Sends::buffered) return wait;
    if (auto at_unit = waits_at_units(rank, position, explain)) return at_unit;
    return op.module == Module::backbone ? waits_to_send(rank, explain) : wait;
  }

 private:
  std::string text(int rank, int64_t position) const {
    return where(rank, position, schedule_.row(rank)[position]);
  }

  // The unit's messages all start from or end on one rank: where the encoder's output goes to and comes
  // back from, and where the generator's input comes from.
  int root(const Unit& unit) const { return unit.module == Module::encoder ? 0 : schedule_.ranks() - 1; }

  bool takes_part(const Unit& unit, int rank) const {
    const auto& flags = unit.module == Module::encoder ? schedule_.step.encoder : schedule_.step.generator;
    return flags[unit.index * schedule_.step.ranks + rank] != 0;
  }

  // A rank may leave a unit's place when the other end of each of its messages has come to the unit, and,
  // where the unit's outputs are received, when they are there.
  Wait waits_at_units(int rank, int64_t position, bool explain) {
    for (auto& u = next_unit_[rank]; u < schedule_.units.size(); ++u) {
      const Unit& unit = schedule_.units[u];
      bool own = takes_part(unit, rank);
      if (unit.place[rank] + (own ? 1 : 0) > position) break;
      for (int other = 0; other < schedule_.ranks(); ++other) {
        bool linked = rank == root(unit) ? takes_part(unit, other) : own && other == root(unit);
        if (other == rank || !linked) continue;
        bool receives = rank == root(unit) && unit.phase != Phase::backward;
        if (reached_[other] >= unit.place[other] + (receives ? 1 : 0)) continue;
        Wait wait{other, {}};
        if (explain)
          wait.reason = concat("exchanges unit ", unit.index, " of the ", name(unit.module), " with rank ",
                               other, ", which is due at its position ", unit.place[other]);
        return wait;
      }
    }
    return {};
  }

  Wait waits_to_send(int rank, bool explain) const {
    int64_t from = last_backbone_[rank];
    Wait wait;
    if (from == kNowhere) return wait;
    const Operator& sent = schedule_.row(rank)[from];
    for_each_receiver(schedule_.step, ids_, rank, sent, [&](int64_t id, int to) {
      if (wait || to == rank || ids_.at(id).op.module != Module::backbone) return;
      if (reached_[to] >= receive_posted_after(schedule_.step, to, schedule_.row(to), positions_[id])) return;
      wait.rank = to;
      if (explain)
        wait.reason = concat("sends the output of ", text(rank, from), " to ", text(to, positions_[id]),
                             ", which has not come to receive it");
    });
    return wait;
  }

  const Schedule& schedule_;
  Ids ids_;
  const std::vector<int64_t>& positions_;
  Sends sends_;
  std::vector<int64_t> reached_;
  std::vector<size_t> next_unit_;
  std::vector<int64_t> last_backbone_;
};

std::string describe_deadlock(const Schedule& schedule, Progress& progress,
                              const std::vector<int64_t>& reached) {
  int rank = 0;
  while (reached[rank] == int64_t(schedule.row(rank).size())) ++rank;
  // Every stuck rank waits for another stuck one, so following the waits ends in a cycle.
  std::vector<int> seen;
  std::vector<std::string> lines;
  while (std::find(seen.begin(), seen.end(), rank) == seen.end()) {
    seen.push_back(rank);
    const Operator& op = schedule.row(rank)[reached[rank]];
    Wait wait = progress.waits_for(rank, reached[rank], op, true);
    lines.push_back(concat(where(rank, reached[rank], op), " ", wait.reason));
    rank = wait.rank;
  }
  auto first = std::find(seen.begin(), seen.end(), rank) - seen.begin();
  std::string text = "deadlock:";
  for (size_t i = size_t(first); i < lines.size(); ++i) text += "\n  " + lines[i];
  return text;
}

// Every encoder and generator operator at a place of its unit, and units in the order in which they cut each
// row. False where the places cannot be worked with.
bool check_units(const Schedule& schedule, std::vector<std::string>& problems) {
  const Step& step = schedule.step;
  std::vector<int64_t> least(step.ranks, 0);
  std::vector<uint8_t> in_unit(schedule.operators.size(), 0);
  auto tell = [&](std::string text) {
    if (problems.size() < kMostProblems) problems.push_back(std::move(text));
  };
  for (const auto& unit : schedule.units) {
    auto what = concat("unit ", unit.index, " of the ", name(unit.module), " (", letter(unit.phase), ")");
    if (unit.module == Module::backbone || unit.index < 0 || unit.index >= step.microbatches / step.ranks ||
        int64_t(unit.place.size()) != step.ranks) {
      tell(what + " does not belong to the step");
      return false;
    }
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      auto row = schedule.row(rank);
      int64_t place = unit.place[rank];
      Operator op{uint32_t(unit.index * step.ranks + rank), 0, unit.module, unit.phase};
      bool own = belongs(step, rank, op);
      if (place < least[rank] || place + own > int64_t(row.size())) {
        tell(concat(what, " cuts rank ", rank, " at position ", place,
                    ", outside of its row or before the unit that comes first"));
        return false;
      }
      least[rank] = place + own;
      if (!own) continue;
      if (row[place] == op)
        in_unit[schedule.row_begin[rank] + place] = 1;
      else
        tell(concat(what, " has its place at ", where(rank, place, row[place]), ", which is not ",
                    long_name(op)));
    }
  }
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (int64_t p = 0; p < int64_t(schedule.row(rank).size()); ++p) {
      const Operator& op = schedule.row(rank)[p];
      if (op.module != Module::backbone && !in_unit[schedule.row_begin[rank] + p])
        tell(concat(where(rank, p, op), " is at no place of its unit"));
    }
  return true;
}

// Takes the cut away: a message from behind a cut to before it.
void check_cuts(const Schedule& schedule, const std::vector<int64_t>& positions,
                std::vector<std::string>& problems) {
  const Step& step = schedule.step;
  Ids ids(step);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto row = schedule.row(rank);
    size_t unit = 0;
    // For each operator, the last unit whose place on this rank is at or before it; a predecessor must not be
    // behind a later one's place on its own rank.
    for (int64_t p = 0; p < int64_t(row.size()); ++p) {
      while (unit < schedule.units.size() && schedule.units[unit].place[rank] <= p) ++unit;
      if (unit == schedule.units.size()) break;
      const Unit& next = schedule.units[unit];
      for_each_predecessor(step, ids, rank, row[p], [&](int64_t id, int from) {
        if (positions[id] < next.place[from] || problems.size() >= kMostProblems) return;
        problems.push_back(
            concat("unit ", next.index, " of the ", name(next.module), " (", letter(next.phase),
                   ") is no consistent cut: ", where(rank, p, row[p]), " is before it, but needs ",
                   where(from, positions[id], schedule.row(from)[positions[id]]), " behind it"));
      });
    }
  }
}

}  // namespace

std::vector<std::string> check(const Schedule& schedule, Sends sends) {
  std::vector<std::string> problems;
  auto positions = find_operators(schedule, problems);
  if (!problems.empty() || !check_units(schedule, problems)) return problems;
  check_cuts(schedule, positions, problems);
  Progress progress(schedule, positions, sends);
  auto reached = walk(schedule, [&](int rank, int64_t position, const Operator& op) {
    return progress.try_run(rank, position, op);
  });
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    if (reached[rank] == int64_t(schedule.row(rank).size())) continue;
    problems.push_back(describe_deadlock(schedule, progress, reached));
    break;
  }
  return problems;
}

std::vector<PeakLive> peak_live(const Schedule& schedule) {
  std::vector<PeakLive> peaks(schedule.ranks());
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    PeakLive live, &peak = peaks[rank];
    for (const auto& op : schedule.row(rank)) {
      auto& count = op.module == Module::backbone ? live.backbone_in_flight : live.encoder_units;
      auto& most = op.module == Module::backbone ? peak.backbone_in_flight : peak.encoder_units;
      if (op.phase == Phase::generate)
        peak.generator_units = 1;
      else if (op.phase == Phase::forward)
        most = std::max(most, ++count);
      else
        --count;
    }
  }
  return peaks;
}

}  // namespace bigmac
