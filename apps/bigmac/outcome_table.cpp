#include "apps/bigmac/outcome_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/simulate/memory.h"

namespace bigmac {
namespace {

// In the order of OutcomeTable's numbers.
std::vector<int64_t> numbers_of(const Configuration& c) {
  return {c.parallel.tensor, c.parallel.pipeline, c.chunks,      c.parallel.data,
          c.parallel.expert, c.microbatch,        c.warmup_units};
}

// disttrain's: "16 + 64/TP8 whole", encoder and generator GPUs that shard nothing.
std::string own_gpus_text(const Configuration& c) {
  auto own = [](int64_t gpus, int64_t tensor) {
    return tensor > 1 ? concat(gpus, "/TP", tensor) : concat(gpus);
  };
  std::string text;
  if (c.encoder_gpus > 0) text = own(c.encoder_gpus, c.encoder_tensor);
  if (c.generator_gpus > 0)
    text += concat(text.empty() ? "0 + " : " + ", own(c.generator_gpus, c.generator_tensor));
  if (c.own_whole) text += " whole";
  return text;
}

std::string recompute_title(const Workload& workload) {
  auto title = "recompute " + workload.backbone.name;
  for (const auto& module : workload.modules) title += "/" + module.name;
  return title;
}

std::string recompute_text(const Configuration& c) {
  std::string text(cost::name(c.recompute));
  for (auto level : c.module_recompute) text += concat("/", cost::name(level));
  return text;
}

bool is_usual(const Column& column, int64_t usual) {
  auto text = std::to_string(usual);
  return std::all_of(column.cells.begin(), column.cells.end(),
                     [&](const std::string& cell) { return cell == text || cell.empty(); });
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds >= 0.99995) return fmt::format("{:#.4g} s", seconds);
  return seconds >= 0.99995e-3 ? fmt::format("{:#.4g} ms", seconds * 1e3)
                               : fmt::format("{:#.4g} us", seconds * 1e6);
}

std::string percent_text(double part) {
  return fmt::format("{:.1f} %", 100 * part);
}

std::string signed_percent(double part) {
  return fmt::format("{:+.1f} %", 100 * part);
}

OutcomeTable::OutcomeTable(const Workload& workload)
    : workload_(workload), recompute_{recompute_title(workload), {}, true} {
  constexpr int64_t kAlways = -1;
  for (auto [title, usual] : {std::pair{"TP", kAlways},
                              {"PP", kAlways},
                              {"VPP", 1},
                              {"DP", kAlways},
                              {"EP", 1},
                              {"MBS", 1},
                              {"W", 0}})
    numbers_.push_back({{title, {}}, usual});
}

void OutcomeTable::add(const Outcome& outcome, const std::string& step) {
  step_.cells.push_back(step.empty() ? seconds_text(outcome.step) : step);
  bool runs = step.empty();
  tokens_.cells.push_back(runs ? fmt::format("{:.0f}", outcome.tokens_per_second) : "");
  mfu_.cells.push_back(runs ? percent_text(outcome.mfu) : "");
  bubble_.cells.push_back(runs ? percent_text(outcome.bubble) : "");
  memory_.cells.push_back(bytes_text(outcome.memory));
  const auto& c = outcome.configuration;
  schedule_.cells.emplace_back(name(c.arrangement));
  base_.cells.emplace_back(name(c.base));
  auto numbers = numbers_of(c);
  for (size_t n = 0; n < numbers_.size(); ++n) {
    auto& number = numbers_[n];
    number.column.cells.push_back(numbers[n] == 0 ? "" : std::to_string(numbers[n]));
  }
  own_gpus_.cells.push_back(own_gpus_text(c));
  recompute_.cells.push_back(recompute_text(c));
}

void OutcomeTable::add_without(Arrangement arrangement, const std::string& step) {
  step_.cells.push_back(step);
  schedule_.cells.emplace_back(name(arrangement));
  for (auto* column : {&tokens_, &mfu_, &bubble_, &memory_, &base_, &own_gpus_, &recompute_})
    column->cells.emplace_back();
  for (auto& number : numbers_) number.column.cells.emplace_back();
}

std::string OutcomeTable::text(const std::vector<Column>& extra) const {
  std::vector<Column> columns{schedule_, step_};
  columns.insert(columns.end(), extra.begin(), extra.end());
  columns.insert(columns.end(), {tokens_, mfu_, bubble_, memory_, base_});
  std::string throughout;
  for (const auto& [column, usual] : numbers_) {
    if (!is_usual(column, usual))
      columns.push_back(column);
    else if (usual > 0)
      throughout += concat(throughout.empty() ? "" : ", ", column.title, " ", usual);
  }
  bool owns = std::any_of(own_gpus_.cells.begin(), own_gpus_.cells.end(),
                          [](const auto& cell) { return !cell.empty(); });
  if (owns) columns.push_back(own_gpus_);
  columns.push_back(recompute_);
  auto text = side_by_side(columns);
  return throughout.empty() ? text : text + throughout + " throughout\n";
}

}  // namespace bigmac
