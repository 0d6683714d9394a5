#include "apps/bigmac/share_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/bigmac/text_columns.h"
#include "bigmac/schedule/labels.h"

namespace bigmac {
namespace {

constexpr size_t kMostOfOrder = 16;
constexpr size_t kMostShares = 64;
constexpr size_t kMostItems = 60;  // characters

Operator first_operator(const Schedule& schedule, size_t share) {
  return schedule.module_of(schedule.shares.list[share]).kind == Module::encoder
             ? encoder_forward(int64_t(share))
             : generate(int64_t(share));
}

// Whether the label of any share has this letter in its number.
bool any_label_has(const Schedule& schedule, const Labels& labels, char letter) {
  for (size_t n = 0; n < schedule.shares.list.size(); ++n)
    if (labels.number(first_operator(schedule, n)).find(letter) != std::string::npos) return true;
  return false;
}

// "0E image   1E audio", where there are several of a kind.
std::string module_numbers(const Schedule& schedule, Module kind) {
  std::string text;
  int number = 0;
  for (const auto& module : schedule.step.modules)
    if (module.kind == kind)
      text += fmt::format("{}{}{} {}", number > 0 ? "   " : "", number, kind == Module::encoder ? "E" : "G",
                          module.name),
          ++number;
  return number > 1 ? text : "";
}

}  // namespace

std::string order_line(const Step& step) {
  if (step.order.empty()) return {};
  std::string text = "order of the microbatches:";
  for (size_t p = 0; p < std::min(kMostOfOrder, step.order.size()); ++p)
    text += fmt::format(" {}", step.order[p]);
  if (step.order.size() > kMostOfOrder) text += fmt::format(" ... {} more", step.order.size() - kMostOfOrder);
  return text + "; everywhere else a microbatch is its place in it\n";
}

std::string grid_legend(const Schedule& schedule) {
  std::string text = "F0.3 forward of chunk 0, microbatch 3   B0.3 its backward";
  bool splits = std::any_of(schedule.operators.begin(), schedule.operators.end(),
                            [](const Operator& op) { return op.phase == Phase::weight; });
  if (splits) text += "   I0.3, W0.3 input, weight gradient";
  bool encodes = schedule.step.has(Module::encoder);
  bool trains = std::any_of(schedule.step.modules.begin(), schedule.step.modules.end(),
                            [](const NestedModule& module) { return module.runs(Phase::backward); });
  if (trains) text += "   EF3, EB3 encoder forward, backward";
  if (encodes && !trains) text += "   EF3 encoder forward";
  if (schedule.step.has(Module::generator)) text += "   G3 generator";
  text += "\n";
  Labels labels(schedule);
  std::vector<std::string> more;
  const char* name = encodes ? "EF" : "G";
  if (any_label_has(schedule, labels, '.')) more.push_back(fmt::format("{}3.1 item 1 of microbatch 3", name));
  if (any_label_has(schedule, labels, 'u'))
    more.push_back(fmt::format("{}u2 items of unit 2, listed below", name));
  for (auto kind : {Module::encoder, Module::generator})
    if (auto numbers = module_numbers(schedule, kind); !numbers.empty()) more.push_back(numbers);
  for (size_t i = 0; i < more.size(); ++i) text += more[i] + (i + 1 < more.size() ? "   " : "\n");
  return text + order_line(schedule.step);
}

std::string share_list(const Schedule& schedule) {
  Labels labels(schedule);
  Column rank{"rank", {}}, label{"share", {}, true}, module{"module", {}, true}, size{"size", {}},
      items{"items as microbatch.item", {}, true};
  size_t found = 0;
  for (size_t n = 0; n < schedule.shares.list.size(); ++n) {
    const Share& share = schedule.shares.list[n];
    auto op = first_operator(schedule, n);
    if (labels.number(op)[0] != 'u' || ++found > kMostShares) continue;
    rank.cells.push_back(fmt::format("{}", share.rank));
    label.cells.push_back(labels(op));
    module.cells.push_back(schedule.module_of(share).name);
    size.cells.push_back(fmt::format("{:.3g}", size_of(schedule, share)));
    auto text = item_list(schedule, share);
    items.cells.push_back(text.size() <= kMostItems ? text
                                                    : text.substr(0, text.rfind(' ', kMostItems)) + " ...");
  }
  if (found == 0) return {};
  auto text = fmt::format("\n{}", side_by_side({label, rank, module, size, items}));
  if (found > kMostShares) text += fmt::format("... {} more; --format csv has all\n", found - kMostShares);
  return text;
}

}  // namespace bigmac
