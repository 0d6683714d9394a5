#include "bigmac/timeline/explain.h"

#include <algorithm>

namespace bigmac {
namespace {

// Of measured times, what ended this share of the step's length before is still what was waited for.
constexpr double kSameMoment = 1e-9;

// Operators without a length that follow one another in one moment may do so in a circle, where a measured
// table is damaged.
class Circle {
 public:
  // Whether to go on from an operator that starts then to one before it.
  bool goes_on(double start, double before) {
    at_once_ = before < start ? 0 : at_once_ + 1;
    return at_once_ < kMostAtOnce;
  }

 private:
  static constexpr int kMostAtOnce = 4096;
  int at_once_ = 0;
};

// Every operator's slice by id.
class Slices {
 public:
  Slices(const Schedule& schedule, const Timeline& timeline)
      : timeline_(timeline), dependencies_(schedule), places_(dependencies_.count(), {-1, -1}) {
    for (int rank = 0; rank < int(timeline.rows.size()); ++rank) {
      const auto& row = timeline.rows[rank].operators;
      for (size_t p = 0; p < row.size(); ++p) places_[dependencies_.of(rank, row[p].op)] = {rank, int64_t(p)};
    }
  }

  struct Place {
    int rank;
    int64_t position;
  };
  Place place_of(int rank, const Operator& op) const { return places_[dependencies_.of(rank, op)]; }
  const Slice& at(Place place) const { return timeline_.rows[place.rank].operators[place.position]; }

  // Of what an operator needs of other ranks, what it waited for last, or else what ended last. What it needs
  // of its own ended before the operator before it in the row did.
  std::optional<Place> last_input(Place place) const {
    int peer = gap_before(place).peer;
    std::optional<Place> last, of_peer;
    auto keep_later = [&](std::optional<Place>& kept, Place input) {
      if (!kept || at(input).end > at(*kept).end) kept = input;
    };
    dependencies_.for_each_predecessor(place.rank, at(place).op, [&](int64_t id, int from) {
      Place input = places_[id];
      if (from == place.rank || input.rank < 0) return;
      keep_later(last, input);
      if (from == peer) keep_later(of_peer, input);
    });
    return of_peer ? of_peer : last;
  }

  struct Binding {
    Cause cause;
    Place place;  // of what was waited for; none for Cause::start
  };
  Binding binding(Place place) const {
    auto input = last_input(place);
    if (input && at(*input).start > at(place).start) input.reset();  // by another clock
    if (place.position > 0) {
      Place row{place.rank, place.position - 1};
      if (!input || gap_before(place).free + tolerance() >= at(place).start) return {Cause::row, row};
    }
    return input ? Binding{Cause::input, left_with(*input)} : Binding{Cause::start, {}};
  }

 private:
  double tolerance() const { return kSameMoment * timeline_.length(); }

  // What a rank did between an operator and the one before it.
  struct Gap {
    double free;    // when the operator before had ended, and what was transferred right behind it
    int peer = -1;  // whom it waited for last
  };
  Gap gap_before(Place place) const {
    const auto& row = timeline_.rows[place.rank];
    double end = place.position > 0 ? row.operators[place.position - 1].end : timeline_.start;
    Gap gap{end};
    auto next = std::lower_bound(row.intervals.begin(), row.intervals.end(), end - tolerance(),
                                 [](const Interval& interval, double time) { return interval.start < time; });
    for (; next != row.intervals.end() && next->start < at(place).start; ++next) {
      if (next->spent != Spent::transfer)
        gap.peer = next->peer;
      else if (next->start <= gap.free + tolerance())
        gap.free = next->end;
    }
    return gap;
  }

  bool transfers_behind(Place place) const {
    const auto& intervals = timeline_.rows[place.rank].intervals;
    auto next = std::lower_bound(intervals.begin(), intervals.end(), at(place).end - tolerance(),
                                 [](const Interval& interval, double time) { return interval.start < time; });
    return next != intervals.end() && next->spent == Spent::transfer && next->op == at(place).op;
  }

  // The operator with whose output a forward's left: the backward behind it, or its own.
  Place left_with(Place place) const {
    Place next{place.rank, place.position + 1};
    const auto& row = timeline_.rows[place.rank].operators;
    if (at(place).op.phase != Phase::forward || next.position == int64_t(row.size()) ||
        !gives_input_gradient(at(next).op.phase) || transfers_behind(place) || !transfers_behind(next))
      return place;
    return next;
  }

  const Timeline& timeline_;
  Dependencies dependencies_;
  std::vector<Place> places_;
};

void find_reason(const Slices& slices, Wait& wait) {
  if (!wait.next) return;
  auto at = slices.last_input(slices.place_of(wait.rank, wait.next->op));
  if (!at) return;
  wait.input = RanOn{at->rank, slices.at(*at)};
  Circle circle;
  while (at && slices.at(*at).end > wait.start) {
    const Slice& slice = slices.at(*at);
    double share = slice.end - std::max(slice.start, wait.start);
    if (share > wait.culprit_time) {
      wait.culprit = RanOn{at->rank, slice};
      wait.culprit_time = share;
    }
    auto [cause, before] = slices.binding(*at);
    bool ends = cause == Cause::start || !circle.goes_on(slice.start, slices.at(before).start);
    at = ends ? std::nullopt : std::optional(before);
  }
}

}  // namespace

std::vector<PathStep> critical_path(const Schedule& schedule, const Timeline& timeline) {
  Slices slices(schedule, timeline);
  std::optional<Slices::Place> at;
  for (int rank = 0; rank < int(timeline.rows.size()); ++rank) {
    const auto& row = timeline.rows[rank].operators;
    if (!row.empty() && (!at || row.back().end > slices.at(*at).end)) at = {rank, int64_t(row.size()) - 1};
  }
  std::vector<PathStep> path;
  Circle circle;
  while (at) {
    const Slice& slice = slices.at(*at);
    auto [cause, before] = slices.binding(*at);
    double since = cause == Cause::start ? timeline.start : slices.at(before).end;
    path.push_back({at->rank, slice, cause, std::max(0.0, slice.start - since)});
    bool ends = cause == Cause::start || !circle.goes_on(slice.start, slices.at(before).start);
    at = ends ? std::nullopt : std::optional(before);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<std::vector<Wait>> longest_waits(const Schedule& schedule, const Timeline& timeline,
                                             size_t most) {
  Slices slices(schedule, timeline);
  std::vector<std::vector<Wait>> by_rank;
  double least = kSameMoment * timeline.length();
  for (int rank = 0; rank < int(timeline.rows.size()); ++rank) {
    const auto& row = timeline.rows[rank].operators;
    std::vector<Wait> waits;
    double free = timeline.start;
    for (size_t p = 0; p < row.size(); ++p) {
      if (row[p].start - free > least) {
        waits.push_back({rank, free, row[p].start, row[p], std::nullopt, std::nullopt});
      }
      free = row[p].end;
    }
    if (timeline.end - free > least)
      waits.push_back({rank, free, timeline.end, std::nullopt, std::nullopt, std::nullopt});
    std::stable_sort(waits.begin(), waits.end(),
                     [](const Wait& a, const Wait& b) { return a.length() > b.length(); });
    if (waits.size() > most) waits.resize(most);
    for (auto& wait : waits) find_reason(slices, wait);
    by_rank.push_back(std::move(waits));
  }
  return by_rank;
}

}  // namespace bigmac
