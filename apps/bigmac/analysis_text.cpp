#include "apps/bigmac/analysis_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "apps/bigmac/text_columns.h"
#include "bigmac/simulate/memory.h"

namespace bigmac {
namespace {

constexpr size_t kMostRanks = 16;
constexpr size_t kMostLines = 8;

std::string ms(double seconds) {
  auto text = fmt::format("{:.1f}", seconds * 1e3);
  return text == "-0.0" ? "0.0" : text;
}
std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}
std::string signed_ms(double seconds) {
  auto text = fmt::format("{:+.1f}", seconds * 1e3);
  return text == "-0.0" ? "+0.0" : text;
}
std::string signed_percent(double share) {
  auto text = fmt::format("{:+.1f} %", share * 100);
  return text == "-0.0 %" ? "+0.0 %" : text;
}

std::string heading(const Recording& recording, const Analysis& analysis) {
  const Step& step = recording.schedule.step;
  const auto& found = analysis.suggestions;
  auto text = fmt::format("{}\nP={} V={} M={}, {} operators", recording.name, step.ranks, step.chunks,
                          step.microbatches, recording.schedule.operators.size());
  if (analysis.whole) text += ", base " + found.base;
  if (!step.modules.empty() && analysis.whole) text += fmt::format(", arrangement {}", found.arrangement);
  for (size_t n = 0; n < step.modules.size(); ++n) {
    const auto& module = step.modules[n];
    text += fmt::format(", {} '{}' {} items", name(module.kind), module.name, module.items.size());
    bool ahead =
        found.arrangement == name(Arrangement::nested) || found.arrangement == name(Arrangement::nested_fill);
    if (ahead && found.warmup_units.size() > n && found.warmup_units[n] > 0)
      text += fmt::format(" W={}", found.warmup_units[n]);
  }
  return text + fmt::format("\nstep {} ms, idle/total {}, idle/busy {}\n", ms(analysis.step),
                            percent(analysis.idle_over_total), percent(analysis.idle_over_busy));
}

// Parts of the step that add up to it.
std::string parts_text(const Recording& recording, const Analysis& analysis) {
  const auto& causes = analysis.causes;
  Column times{"ms", {}}, shares{"of step", {}}, what{"", {}, true};
  auto add = [&](double share, const std::string& text) {
    if (std::abs(share) < 5e-4) return;  // 0.0 %
    times.cells.push_back(ms(share * analysis.step));
    shares.cells.push_back(percent(share));
    what.cells.push_back(text);
  };
  add(causes.operators, "operators, spread evenly over the ranks");
  auto shape = fmt::format("{} with {} microbatches on {} ranks", analysis.suggestions.base,
                           recording.schedule.step.microbatches, recording.schedule.step.ranks);
  if (analysis.base_bubble > 0) add(analysis.base_bubble, "warm-up and cool-down that " + shape + " has");
  add(causes.ramp - analysis.base_bubble, analysis.base_bubble > 0
                                              ? "idle by the order of operators"
                                              : "warm-up, cool-down and the order of operators");
  for (const auto& finding : causes.findings) add(finding.cost, finding.text);
  add(causes.ends, "before the first operator and behind the last");
  return "\nwhere the step goes (a fault: how much shorter the step is without it)\n\n" +
         side_by_side({times, shares, what});
}

std::string help_text(const Analysis& analysis) {
  const auto& found = analysis.suggestions;
  std::string text;
  for (const auto& finding : analysis.causes.findings)
    if (finding.cost >= kLeastCost && !finding.advice.empty())
      text += fmt::format("  {}: {}\n", name(finding.fault), finding.advice);
  Column gains{"step", {}}, times{"ms", {}},
      what{"schedule, simulated with this step's mean costs", {}, true};
  for (const auto& suggestion : found.list) {
    gains.cells.push_back(suggestion.saves_memory ? std::string("memory")
                                                  : fmt::format("-{}", percent(suggestion.gain)));
    times.cells.push_back(ms(suggestion.step));
    what.cells.push_back(suggestion.text + (suggestion.condition.empty() ? "" : "; " + suggestion.condition));
  }
  if (!found.list.empty() && !text.empty()) text += '\n';
  if (!found.list.empty()) text += side_by_side({gains, times, what});
  if (found.list.empty() && found.tried > 0)
    text += fmt::format("  none of {} other schedules that were tried gains 1 %\n", found.tried);
  if (found.tried + found.left_out == 0) text += "  no other schedule can be made of these stages\n";
  if (found.left_out > 0)
    text +=
        fmt::format("  {} schedules were not tried, for the step is large; --try-all does\n", found.left_out);
  return "\nwhat would help\n\n" + text;
}

std::vector<size_t> ranks_shown(const Analysis& analysis) {
  std::vector<size_t> ranks(analysis.ranks.size());
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  if (ranks.size() <= kMostRanks) return ranks;
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](size_t a, size_t b) { return analysis.ranks[a].busy > analysis.ranks[b].busy; });
  ranks.resize(kMostRanks);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string ranks_text(const Analysis& analysis) {
  Column rank{"rank", {}}, compute{"compute", {}}, transfer{"transfer", {}}, order{"order", {}},
      wait{"wait", {}}, idle{"idle", {}}, busy{"busy", {}}, path{"of path", {}};
  auto ranks = ranks_shown(analysis);
  for (size_t r : ranks) {
    const auto& time = analysis.ranks[r];
    rank.cells.push_back(std::to_string(r));
    compute.cells.push_back(ms(time.busy));
    transfer.cells.push_back(ms(time.transfer));
    order.cells.push_back(ms(time.order));
    wait.cells.push_back(ms(time.wait));
    idle.cells.push_back(ms(time.idle));
    busy.cells.push_back(percent(analysis.step > 0 ? time.busy / analysis.step : 0));
    if (analysis.whole) path.cells.push_back(percent(analysis.path.ranks[r]));
  }
  auto text = fmt::format("\nranks, ms; the five add up to the step{}\n\n",
                          ranks.size() < analysis.ranks.size()
                              ? fmt::format(" (the {} of {} that compute most; --json has all)", ranks.size(),
                                            analysis.ranks.size())
                              : "");
  std::vector<Column> columns{rank, compute, transfer, order, wait, idle, busy};
  if (analysis.whole) columns.push_back(path);
  return text + side_by_side(columns);
}

std::string waits_text(const Analysis& analysis) {
  Column share{"of ranks' time", {}}, count{"waits", {}}, cause{"cause", {}, true},
      longest{"longest, ms", {}}, where{"", {}, true};
  for (size_t n = 0; n < std::min(kMostLines, analysis.waits.size()); ++n) {
    if (analysis.waits[n].share < 5e-4) break;  // 0.0 %
    const auto& group = analysis.waits[n];
    share.cells.push_back(percent(group.share));
    count.cells.push_back(std::to_string(group.count));
    cause.cells.push_back(group.cause);
    longest.cells.push_back(ms(group.length));
    auto text = fmt::format("rank {} at {}", group.rank, ms(group.start));
    where.cells.push_back(group.needs.empty() ? text : text + ", for " + group.needs);
  }
  if (share.cells.empty()) return {};
  return "\nwhat ranks wait for\n\n" + side_by_side({share, count, cause, longest, where});
}

std::string path_text(const Analysis& analysis) {
  const auto& path = analysis.path;
  Column share{"of step", {}}, count{"n", {}}, what{"", {}, true};
  for (size_t n = 0; n < std::min(kMostLines, path.parts.size()); ++n) {
    share.cells.push_back(percent(path.parts[n].share));
    count.cells.push_back(std::to_string(path.parts[n].count));
    what.cells.push_back(path.parts[n].what);
  }
  if (path.parts.size() > kMostLines) {
    double rest = 0;
    int64_t counts = 0;
    for (size_t n = kMostLines; n < path.parts.size(); ++n) {
      rest += path.parts[n].share;
      counts += path.parts[n].count;
    }
    share.cells.push_back(percent(rest));
    count.cells.push_back(std::to_string(counts));
    what.cells.push_back(fmt::format("{} others", path.parts.size() - kMostLines));
  }
  auto text = fmt::format("\ncritical path, {} operators on which the step's end hangs\n\n", path.operators) +
              side_by_side({share, count, what});
  if (path.longest.empty()) return text;
  constexpr size_t kMostName = 70;
  auto name = path.longest[0].what;
  if (name.size() > kMostName) name = name.substr(0, kMostName - 3) + "...";
  return text + fmt::format("the longest is {} on rank {}: {} ms at {}\n", name, path.longest[0].rank,
                            ms(path.longest[0].length), ms(path.longest[0].start));
}

std::string costs_text(const Recording& recording, const Analysis& analysis) {
  constexpr size_t kMostStages = 16;
  const auto& times = analysis.causes.stage_times;
  std::vector<size_t> stages(times.size());
  std::iota(stages.begin(), stages.end(), size_t{0});
  if (stages.size() > kMostStages) {
    std::stable_sort(stages.begin(), stages.end(), [&](size_t a, size_t b) { return times[a] > times[b]; });
    stages.resize(kMostStages);
    std::sort(stages.begin(), stages.end());
  }
  double mean = times.empty() ? 0 : std::accumulate(times.begin(), times.end(), 0.0) / double(times.size());
  Column stage{"stage", {}}, rank{"rank", {}}, all{"ms a microbatch", {}}, ratio{"of mean", {}},
      median{"medians", {}, true};
  for (size_t s : stages) {
    std::string medians;
    for (const auto& of : analysis.stages) {
      if (of.stage != int64_t(s)) continue;
      if (medians.empty()) rank.cells.push_back(std::to_string(of.rank));
      medians += fmt::format("{}{} {:.2f} (p95 {:.2f})", medians.empty() ? "" : ", ", letter(of.phase),
                             of.spread.median * 1e3, of.spread.p95 * 1e3);
    }
    if (medians.empty()) {
      rank.cells.emplace_back();
      medians = "nothing was recorded";
    }
    stage.cells.push_back(std::to_string(s));
    all.cells.push_back(fmt::format("{:.2f}", times[s] * 1e3));
    ratio.cells.push_back(fmt::format("{:.2f}", mean > 0 ? times[s] / mean : 0));
    median.cells.push_back(medians);
  }
  auto text = fmt::format("\nLLM stages{}\n\n",
                          stages.size() < times.size()
                              ? fmt::format(" (the {} of {} that take most)", stages.size(), times.size())
                              : "") +
              // A part of a step does not say what a microbatch takes.
              (analysis.whole ? side_by_side({stage, rank, all, ratio, median})
                              : side_by_side({stage, rank, median}));
  for (const auto& module : analysis.modules)
    text += fmt::format("{} {}: median {:.3f} ms for an item of size 1, p95 {:.3f} (n={})\n", module.module,
                        letter(module.phase), module.spread.median * 1e3, module.spread.p95 * 1e3,
                        module.spread.count);
  if (analysis.unit_imbalance)
    text += fmt::format("unit imbalance {:.3f}: units' slowest ranks / units' mean, items at their sizes\n",
                        *analysis.unit_imbalance);
  return text;
}

std::string memory_text(const Recording& recording, const Analysis& analysis) {
  if (analysis.peaks.empty()) return {};
  Column rank{"rank", {}}, bytes{"peak", {}}, held{"held then", {}, true};
  auto peaks = analysis.peaks;
  std::stable_sort(peaks.begin(), peaks.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  peaks.resize(std::min(peaks.size(), kMostLines));
  for (const auto& peak : peaks) {
    rank.cells.push_back(std::to_string(peak.rank));
    bytes.cells.push_back(bytes_text(peak.bytes));
    std::string text;
    if (analysis.whole) {
      text = fmt::format("activations of {} chunk-forward{}", peak.in_flight, peak.in_flight == 1 ? "" : "s");
      for (const auto& items : peak.items)
        text += fmt::format(", {} items of '{}'", items.count, items.module);
    }
    if (peak.time) text += fmt::format("{}at {} ms, {}", text.empty() ? "" : "; ", ms(*peak.time), peak.at);
    held.cells.push_back(text);
  }
  auto text = std::string("\nmemory, the largest peaks") +
              (recording.memory_limit > 0 ? ", limit " + bytes_text(recording.memory_limit) : "") + "\n\n";
  return text + side_by_side({rank, bytes, held});
}

std::string gap_text(const Analysis& analysis) {
  const auto& gap = analysis.gap;
  auto text = fmt::format("\nagainst {}: {} ms, this step {} ms ({})\n", gap.against, ms(gap.other),
                          ms(gap.step), signed_percent(gap.other > 0 ? gap.step / gap.other - 1 : 0));
  text += fmt::format("  operators {} ms, links {}, between operators {}, order {}", signed_ms(gap.operators),
                      signed_ms(gap.links), signed_ms(gap.between), signed_ms(gap.order));
  if (std::abs(gap.ends) > 5e-5) text += fmt::format(", behind the last operator {}", signed_ms(gap.ends));
  return text + "\n";
}

std::string notes_text(const Analysis& analysis) {
  if (analysis.notes.empty()) return {};
  std::string text = "\n";
  constexpr size_t kMost = 5;
  for (size_t n = 0; n < std::min(kMost, analysis.notes.size()); ++n)
    text += "note: " + analysis.notes[n] + "\n";
  if (analysis.notes.size() > kMost)
    text += fmt::format("and {} more notes; --json has all\n", analysis.notes.size() - kMost);
  return text;
}

}  // namespace

std::string to_text(const Recording& recording, const Analysis& analysis, bool colour) {
  bool fault = !analysis.causes.findings.empty() && analysis.causes.findings[0].cost >= kLeastCost;
  auto verdict =
      colour ? fmt::format("\033[1;{}m{}\033[0m", fault ? 31 : 32, analysis.verdict) : analysis.verdict;
  if (!analysis.whole)
    return verdict + "\n\n" + heading(recording, analysis) + ranks_text(analysis) + waits_text(analysis) +
           costs_text(recording, analysis) + memory_text(recording, analysis) + notes_text(analysis);
  return verdict + "\n\n" + heading(recording, analysis) + parts_text(recording, analysis) +
         help_text(analysis) + ranks_text(analysis) + waits_text(analysis) + path_text(analysis) +
         costs_text(recording, analysis) + memory_text(recording, analysis) + gap_text(analysis) +
         notes_text(analysis);
}

}  // namespace bigmac
