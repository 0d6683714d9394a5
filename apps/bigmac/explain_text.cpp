#include "apps/bigmac/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/bigmac/text_columns.h"

namespace bigmac {
namespace {

constexpr size_t kMostStretches = 24;
constexpr size_t kMostRanks = 16;
constexpr size_t kMostName = 90;

// Names and what belongs to them, in the order in which the names came.
template <class Value>
class Tally {
 public:
  Value& operator[](const std::string& name) {
    auto at = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
    return at != list.end() ? at->second : list.emplace_back(name, Value{}).second;
  }
  std::vector<std::pair<std::string, Value>> list;
};

std::string module_of(const Schedule& schedule, const Operator& op) {
  return op.module == Module::backbone ? "LLM" : schedule.module_of(schedule.shares.list[op.index]).name;
}

std::string kind_of(const Schedule& schedule, const Operator& op) {
  if (op.module != Module::backbone) return module_of(schedule, op);
  if (op.phase == Phase::weight) return "LLM weight gradient";
  return op.phase == Phase::forward ? "LLM forward" : "LLM backward";
}

// What the path consists of, as shares of its length.
Tally<double> shares_of(const Schedule& schedule, const std::vector<PathStep>& path, double length) {
  Tally<double> shares;
  double messages = 0;
  for (const auto& step : path) {
    if (length > 0) shares[kind_of(schedule, step.slice.op)] += (step.slice.end - step.slice.start) / length;
    if (length > 0) messages += step.gap / length;
  }
  if (messages > 0) shares["messages"] = messages;
  std::stable_sort(shares.list.begin(), shares.list.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return shares;
}

// An operator with many items, up to a length that can be read.
std::string short_description(const Schedule& schedule, const Operator& op) {
  auto text = describe(schedule, op);
  return text.size() <= kMostName ? text : text.substr(0, kMostName - 3) + "...";
}

// A part of the path on one rank.
struct Stretch {
  size_t first, last;  // steps of the path, [first, last)
};

std::vector<Stretch> stretches_of(const std::vector<PathStep>& path) {
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i == 0 || path[i].rank != path[i - 1].rank) stretches.push_back({i, i});
    stretches.back().last = i + 1;
  }
  return stretches;
}

// "LLM 3 F 2 B, image 1 F"
std::string operators_of(const Schedule& schedule, const std::vector<PathStep>& path,
                         const Stretch& stretch) {
  Tally<Tally<int64_t>> modules;
  for (size_t i = stretch.first; i < stretch.last; ++i) {
    const auto& op = path[i].slice.op;
    ++modules[module_of(schedule, op)][std::string(letter(op.phase))];
  }
  std::string text;
  for (const auto& [module, phases] : modules.list) {
    text += (text.empty() ? "" : ", ") + module;
    for (const auto& [phase, count] : phases.list) text += fmt::format(" {} {}", count, phase);
  }
  return text;
}

std::string began_when(const Schedule& schedule, const std::vector<PathStep>& path, size_t first) {
  if (first == 0) return "the step began";
  const auto& before = path[first - 1];
  auto text = fmt::format("rank {} ended {}", before.rank, short_description(schedule, before.slice.op));
  return path[first].gap > 0 ? text + fmt::format(", and a message of {:g}", path[first].gap) : text;
}

std::string path_text(const Schedule& schedule, const std::vector<PathStep>& path, double length) {
  auto stretches = stretches_of(path);
  auto text = fmt::format("critical path, {} operators on which the step's end hangs:", path.size());
  for (const auto& [kind, share] : shares_of(schedule, path, length).list)
    text += fmt::format("{} {} {:.1f} %", text.back() == ':' ? "" : ",", kind, 100 * share);
  text += "\n\n";
  size_t left_out = stretches.size() > kMostStretches ? stretches.size() - kMostStretches : 0;
  size_t gap_at = left_out > 0 ? kMostStretches / 2 : stretches.size();
  stretches.erase(stretches.begin() + int64_t(gap_at), stretches.begin() + int64_t(gap_at + left_out));
  std::vector<double> from, to;
  Column rank{"rank", {}}, operators{"operators", {}, true}, began{"began when", {}, true};
  for (const auto& stretch : stretches) {
    from.push_back(path[stretch.first].slice.start);
    to.push_back(path[stretch.last - 1].slice.end);
    rank.cells.push_back(fmt::format("{}", path[stretch.first].rank));
    operators.cells.push_back(operators_of(schedule, path, stretch));
    began.cells.push_back(began_when(schedule, path, stretch.first));
  }
  auto table = side_by_side({{"from", time_cells(from)}, {"to", time_cells(to)}, rank, operators, began});
  if (left_out == 0) return text + table;
  size_t at = 0;
  for (size_t line = 0; line <= gap_at; ++line) at = table.find('\n', at) + 1;
  return text + table.substr(0, at) + fmt::format("... {} more; --json has all\n", left_out) +
         table.substr(at);
}

std::string wait_line(const Schedule& schedule, const Wait& wait) {
  auto text =
      fmt::format("rank {} waits {:g} from {:g} to {:g}", wait.rank, wait.length(), wait.start, wait.end);
  if (!wait.next) return text + ": its row is done\n";
  auto next = short_description(schedule, wait.next->op);
  if (!wait.input) return text + " before " + next + "\n";
  const auto& [from, input] = *wait.input;
  text += fmt::format(" for {} on rank {}, needed by {}", short_description(schedule, input.op), from, next);
  if (wait.culprit && wait.culprit->slice.op != input.op)
    text += fmt::format("; {:g} of it for {} on rank {}", wait.culprit_time,
                        short_description(schedule, wait.culprit->slice.op), wait.culprit->rank);
  return text + "\n";
}

std::string waits_text(const Schedule& schedule, const Timeline& timeline, size_t most) {
  auto by_rank = longest_waits(schedule, timeline, most);
  auto times = rank_times(timeline);
  std::vector<size_t> ranks(by_rank.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::string text = fmt::format("longest waits, at most {} a rank:\n\n", most);
  if (ranks.size() > kMostRanks) {
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](size_t a, size_t b) { return times[a].idle > times[b].idle; });
    ranks.resize(kMostRanks);
    std::sort(ranks.begin(), ranks.end());
    text = fmt::format(
        "longest waits, at most {} a rank, of the {} ranks of {} that idle most; --json has all:\n\n", most,
        kMostRanks, by_rank.size());
  }
  for (size_t rank : ranks) {
    if (by_rank[rank].empty()) text += fmt::format("rank {} never waits\n", rank);
    for (const auto& wait : by_rank[rank]) text += wait_line(schedule, wait);
  }
  return text;
}

const char* name(Cause cause) {
  switch (cause) {
    case Cause::start:
      return "start";
    case Cause::row:
      return "row";
    case Cause::input:
      return "input";
  }
  return "";
}

}  // namespace

std::string explain_text(const Schedule& schedule, const Timeline& timeline, size_t waits) {
  return path_text(schedule, critical_path(schedule, timeline), timeline.length()) + "\n" +
         waits_text(schedule, timeline, waits);
}

nlohmann::ordered_json explain_json(const Schedule& schedule, const Timeline& timeline, size_t waits) {
  using Json = nlohmann::ordered_json;
  auto path = critical_path(schedule, timeline);
  auto steps = Json::array(), by_rank = Json::array();
  for (const auto& step : path)
    steps.push_back({{"rank", step.rank},
                     {"start", step.slice.start},
                     {"end", step.slice.end},
                     {"operator", describe(schedule, step.slice.op)},
                     {"cause", name(step.cause)},
                     {"gap", step.gap}});
  auto shares = Json::object();
  for (const auto& [kind, share] : shares_of(schedule, path, timeline.length()).list) shares[kind] = share;
  for (const auto& of_rank : longest_waits(schedule, timeline, waits)) {
    auto list = Json::array();
    for (const auto& wait : of_rank) {
      Json entry{{"start", wait.start}, {"end", wait.end}};
      auto ran_on = [&](const std::optional<RanOn>& ran) {
        return ran ? Json{{"operator", describe(schedule, ran->slice.op)}, {"rank", ran->rank}}
                   : Json(nullptr);
      };
      entry["needed_by"] = wait.next ? Json(describe(schedule, wait.next->op)) : Json(nullptr);
      entry["for"] = ran_on(wait.input);
      entry["culprit"] = ran_on(wait.culprit);
      entry["culprit_time"] = wait.culprit_time;
      list.push_back(std::move(entry));
    }
    by_rank.push_back(std::move(list));
  }
  return {{"critical_path", std::move(steps)}, {"shares", std::move(shares)}, {"waits", std::move(by_rank)}};
}

}  // namespace bigmac
