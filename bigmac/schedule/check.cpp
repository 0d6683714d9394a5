#include "bigmac/schedule/check.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/schedule/complete.h"
#include "bigmac/schedule/deadlock.h"
#include "bigmac/schedule/spread.h"

namespace bigmac {
namespace {

std::string name_of(const Schedule& schedule, const Unit& unit) {
  return concat("unit ", unit.index, " of '", schedule.step.modules[unit.module].name, "' (",
                letter(unit.phase), ")");
}

class UnitCheck {
 public:
  UnitCheck(const Schedule& schedule, const Dependencies& dependencies, const std::vector<int32_t>& positions,
            std::vector<std::string>& problems)
      : schedule_(schedule), dependencies_(dependencies), positions_(positions), problems_(problems) {}

  // Every encoder and generator operator at a place of its unit, and units in the order in which they cut
  // each row. False where the places cannot be worked with.
  bool places_fit() {
    std::vector<int64_t> least(schedule_.ranks(), 0);
    std::vector<uint8_t> in_unit(schedule_.operators.size(), 0);
    for (const auto& unit : schedule_.units) {
      if (unit.module < 0 || unit.module >= int64_t(schedule_.step.modules.size()) ||
          int64_t(unit.place.size()) != schedule_.step.ranks) {
        tell(concat("a unit of module ", unit.module, " with ", unit.place.size(),
                    " places does not belong to the step"));
        return false;
      }
      if (!schedule_.step.modules[unit.module].trained && unit.phase == Phase::backward) {
        tell(name_of(schedule_, unit) + " does not belong to the step: a frozen encoder has no backward");
        return false;
      }
      for (int rank = 0; rank < schedule_.ranks(); ++rank) {
        auto row = schedule_.row(rank);
        int64_t place = unit.place[rank];
        if (place < least[rank] || place > int64_t(row.size())) {
          tell(concat(name_of(schedule_, unit), " cuts rank ", rank, " at position ", place,
                      ", outside of its row or before the unit that comes first"));
          return false;
        }
        least[rank] = place;
        if (place == int64_t(row.size()) || !is_of(schedule_, row[place], unit)) continue;
        in_unit[schedule_.row_begin[rank] + place] = 1;
        least[rank] = place + 1;
      }
    }
    for (int rank = 0; rank < schedule_.ranks(); ++rank)
      for (size_t p = 0; p < schedule_.row(rank).size(); ++p)
        if (schedule_.row(rank)[p].module != Module::backbone && !in_unit[schedule_.row_begin[rank] + p] &&
            problems_.size() < kMostProblems)
          tell(where(schedule_, rank, int64_t(p)) + " is at no place of its unit");
    return true;
  }

  // What is wrong with the cuts: a message from behind one to before it.
  void cuts_are_consistent() {
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      auto row = schedule_.row(rank);
      size_t unit = 0;
      // For each operator, the first unit whose place on this rank is behind it; a predecessor must not be
      // behind its place on the predecessor's rank.
      for (int64_t p = 0; p < int64_t(row.size()); ++p) {
        while (unit < schedule_.units.size() && schedule_.units[unit].place[rank] <= p) ++unit;
        if (unit == schedule_.units.size()) break;
        const Unit& next = schedule_.units[unit];
        dependencies_.for_each_predecessor(rank, row[p], [&](int64_t id, int from) {
          if (positions_[id] < next.place[from] || problems_.size() >= kMostProblems) return;
          tell(concat(name_of(schedule_, next), " is no consistent cut: ", where(schedule_, rank, p),
                      " is before it, but needs ", where(schedule_, from, positions_[id]), " behind it"));
        });
      }
    }
  }

 private:
  void tell(std::string text) {
    if (problems_.size() < kMostProblems) problems_.push_back(std::move(text));
  }

  const Schedule& schedule_;
  const Dependencies& dependencies_;
  const std::vector<int32_t>& positions_;
  std::vector<std::string>& problems_;
};

}  // namespace

std::vector<std::string> check(const Schedule& schedule, Sends sends) {
  auto problems = find_malformed(schedule);
  if (!problems.empty()) return problems;
  Dependencies dependencies(schedule);
  auto positions = find_operators(schedule, dependencies, problems);
  if (!problems.empty()) return problems;
  if (!schedule.units.empty()) {
    UnitCheck units(schedule, dependencies, positions, problems);
    if (!units.places_fit()) return problems;
    units.cuts_are_consistent();
  }
  if (auto deadlock = find_deadlock(schedule, dependencies, positions, sends); !deadlock.empty())
    problems.push_back(std::move(deadlock));
  return problems;
}

std::vector<PeakLive> peak_live(const Schedule& schedule) {
  const Step& step = schedule.step;
  auto unit_size = unit_sizes(step, spread(step));
  std::vector<double> share_units;
  for (const auto& share : schedule.shares.list)
    share_units.push_back(size_of(schedule, share) / unit_size[share.module]);
  std::vector<PeakLive> peaks(schedule.ranks());
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto& peak = peaks[rank];
    peak.units.assign(step.modules.size(), 0);
    std::vector<double> live(step.modules.size(), 0);
    int64_t in_flight = 0;
    for (const auto& op : schedule.row(rank)) {
      if (op.module == Module::backbone) {
        if (op.phase == Phase::forward) peak.in_flight = std::max(peak.in_flight, ++in_flight);
        if (frees_activations(op.phase)) --in_flight;
        continue;
      }
      auto module = size_t(schedule.shares.list[op.index].module);
      if (op.phase == Phase::backward) {
        live[module] -= share_units[op.index];
        continue;
      }
      peak.units[module] = std::max(peak.units[module], live[module] + share_units[op.index]);
      if (op.phase == Phase::forward && step.modules[module].trained) live[module] += share_units[op.index];
    }
  }
  return peaks;
}

}  // namespace bigmac
