#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "bigmac/analysis/faults.h"

namespace bigmac {
namespace {

constexpr double kSlowLink = 1.5;     // times the other links
constexpr size_t kFewestSamples = 3;  // messages that a receiver waited for

// Messages between stages, and those of items, are of different size.
bool is_item(const StepModel& model, size_t i) {
  return model.slices[i].op.module != Module::backbone ||
         model.slices[size_t(model.last_input[i])].op.module != Module::backbone;
}

int64_t link_of(const StepModel& model, size_t i) {
  auto ranks = int64_t(model.ranks);
  return ((is_item(model, i) ? ranks : 0) + model.rank[size_t(model.last_input[i])]) * ranks + model.rank[i];
}

// Median of what messages took that a free receiver waited for, by link.
std::map<int64_t, double> link_times(const StepModel& model) {
  std::map<int64_t, std::vector<double>> samples;
  for (size_t i = 0; i < model.count(); ++i)
    if (model.last_input[i] >= 0 && model.by_input[i])
      samples[link_of(model, i)].push_back(model.message[i] - model.order[i]);
  std::map<int64_t, double> medians;
  for (auto& [link, list] : samples)
    if (list.size() >= kFewestSamples) medians[link] = median_of(std::move(list));
  return medians;
}

// Lets operators of a stage start without what they need of a module's.
bool drop_inputs(Cleared& step, Module needs, Module from, size_t& waiting, double& waited, int& rank) {
  auto& model = step.model;
  auto inputs = std::move(model.inputs);
  std::vector<uint32_t> begin{0};
  model.inputs.clear();
  for (size_t i = 0; i < model.count(); ++i) {
    bool needed = model.slices[i].op.module == needs;
    for (uint32_t n = model.inputs_begin[i]; n < model.inputs_begin[i + 1]; ++n)
      if (!needed || model.slices[size_t(inputs[n])].op.module != from) model.inputs.push_back(inputs[n]);
    begin.push_back(uint32_t(model.inputs.size()));
    if (!needed || model.last_input[i] < 0 || !model.by_input[i] ||
        model.slices[size_t(model.last_input[i])].op.module != from)
      continue;
    ++waiting;
    waited += model.slices[i].start - model.free_at(i);
    rank = model.rank[i];
  }
  model.inputs_begin = std::move(begin);
  return waiting > 0;
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

double end_of(const StepModel& model) {
  double last = 0;
  for (const auto& slice : model.slices) last = std::max(last, slice.end);
  return last;
}

}  // namespace

std::optional<Finding> clear_link(Cleared& step) {
  auto& model = step.model;
  auto medians = link_times(model);
  auto ranks = int64_t(model.ranks);
  auto kind_of = [&](int64_t link) { return link / (ranks * ranks); };
  // Both directions are one link.
  auto same = [&](int64_t a, int64_t b) {
    int64_t from = a / ranks % ranks, to = a % ranks;
    return a == b || (kind_of(a) == kind_of(b) && b / ranks % ranks == to && b % ranks == from);
  };
  std::optional<int64_t> slowest;
  double most = 0, of_others = 0;
  for (auto [link, time] : medians) {
    std::vector<double> others;
    for (auto [other, value] : medians)
      if (!same(link, other) && kind_of(link) == kind_of(other)) others.push_back(value);
    if (others.empty()) continue;
    double median = median_of(others);
    if (time <= kSlowLink * median || time - median <= most) continue;
    slowest = link;
    most = time - median;
    of_others = median;
  }
  if (!slowest) return {};
  double time = medians[*slowest];
  Finding found{.fault = Fault::slow_link,
                .rank = int(*slowest / ranks % ranks),
                .peer = int(*slowest % ranks),
                .factor = of_others > 0 ? time / of_others : 0};
  bool both = false;
  for (size_t i = 0; i < model.count(); ++i) {
    if (model.last_input[i] < 0 || !same(*slowest, link_of(model, i))) continue;
    int64_t link = link_of(model, i);
    auto own = medians.find(link);
    both |= link != *slowest && own != medians.end() && own->second > kSlowLink * of_others;
    double over = own == medians.end() ? time - of_others : own->second - of_others;
    model.message[i] -= std::max(0.0, std::min(over, model.message[i] - of_others));
  }
  // Ranks that exchange and do nothing else meanwhile.
  for (size_t i = 0; i < model.count(); ++i) {
    if (model.rank[i] != found.rank && model.rank[i] != found.peer) continue;
    double over = std::min(model.own[i], model.transfer[i] - of_others);
    if (2 * model.transfer[i] < time || over <= 0) continue;
    model.own[i] -= over;
    model.transfer[i] -= over;
  }
  double share = time / end_of(model);
  found.text = fmt::format("the link {} rank {} {} rank {} is slow: a message takes {}",
                           both ? "between" : "from", found.rank, both ? "and" : "to", found.peer,
                           found.factor > 0 && found.factor < 1000
                               ? fmt::format("{:.1f}x what it takes on the other links", found.factor)
                               : percent(share) + " of the step, on the other links next to nothing");
  found.advice = fmt::format(
      "check the cable, switch and transport between ranks {} and {} (is it the same "
      "network as the others'?), or map neighbouring stages to other hosts",
      found.rank, found.peer);
  return found;
}

std::optional<Finding> clear_order(Cleared& step) {
  auto& model = step.model;
  double total = std::accumulate(model.order.begin(), model.order.end(), 0.0);
  if (total <= 0) return {};
  std::vector<double> by_rank(size_t(model.ranks), 0);
  for (size_t i = 0; i < model.count(); ++i) {
    by_rank[size_t(model.rank[i])] += model.order[i];
    model.message[i] -= model.order[i];
    model.order[i] = 0;
  }
  Finding found{.fault = Fault::message_order};
  found.rank = int(std::max_element(by_rank.begin(), by_rank.end()) - by_rank.begin());
  found.text = fmt::format(
      "messages stand behind others that are not needed yet: ranks wait {} of their time for it, rank {} "
      "most",
      percent(total / double(model.ranks) / end_of(model)), found.rank);
  found.advice = "send items' outputs and stages' activations through queues of their own";
  return found;
}

std::optional<Finding> clear_units(Cleared& step) {
  const auto& schedule = step.schedule;
  auto& model = step.model;
  step.placed.resize(schedule.step.modules.size(), 0);
  struct Work {
    double total = 0, most = 0, mean = 0;
    size_t items = 0;
  };
  std::map<std::tuple<int32_t, int32_t, Phase>, Work> units;
  auto unit_of = [&](size_t i) -> Work& {
    const Operator& op = model.slices[i].op;
    const Share& share = schedule.shares.list[op.index];
    return units[{share.module, share.unit, op.phase}];
  };
  // A rank may run a unit as several shares.
  std::map<std::pair<Work*, int>, double> of_rank;
  auto taken_apart = [&](size_t i) {
    return step.kinds.stage[i] < 0 &&
           !step.placed[size_t(schedule.shares.list[model.slices[i].op.index].module)];
  };
  for (size_t i = 0; i < model.count(); ++i) {
    if (!taken_apart(i)) continue;
    Work& unit = unit_of(i);
    unit.total += model.duration[i];
    unit.items += schedule.shares.list[model.slices[i].op.index].count;
    double& own = of_rank[{&unit, model.rank[i]}];
    own += model.duration[i];
    unit.most = std::max(unit.most, own);
  }
  // A module may have ranks of its own.
  std::vector<std::set<int>> ranks_of(schedule.step.modules.size());
  for (const auto& share : schedule.shares.list) ranks_of[size_t(share.module)].insert(share.rank);
  double slowest = 0, even = 0;
  for (auto& [key, unit] : units) {
    unit.mean = unit.total / double(std::min(unit.items, ranks_of[size_t(std::get<0>(key))].size()));
    slowest += unit.most;
    even += std::min(unit.most, unit.mean);
  }
  if (even <= 0 || slowest <= even) return {};
  for (size_t i = 0; i < model.count(); ++i) {
    if (!taken_apart(i)) continue;
    Work& unit = unit_of(i);
    double own = of_rank[{&unit, model.rank[i]}];
    if (own > unit.mean) model.duration[i] *= unit.mean / own;
  }
  Finding found{.fault = Fault::uneven_units, .factor = slowest / even};
  found.text =
      fmt::format("units are uneven: their slowest ranks take {:.2f}x the units' mean", found.factor);
  found.advice = "spread items over the ranks by size, and order the microbatches so that units are alike";
  return found;
}

std::optional<Finding> clear_embeddings(Cleared& step) {
  size_t waiting = 0;
  double waited = 0;
  Finding found{.fault = Fault::late_embedding, .stage = 0};
  if (!drop_inputs(step, Module::backbone, Module::encoder, waiting, waited, found.rank)) return {};
  found.text = fmt::format("embeddings are late: stage 0 waits {} of the step for encoder outputs, {} times",
                           percent(waited / end_of(step.model)), waiting);
  found.advice = "run the encoder further ahead (W), and earlier in the rows of all ranks";
  return found;
}

std::optional<Finding> clear_generators(Cleared& step) {
  size_t waiting = 0;
  double waited = 0;
  Finding found{.fault = Fault::late_generator, .stage = step.schedule.step.stages() - 1};
  if (!drop_inputs(step, Module::backbone, Module::generator, waiting, waited, found.rank)) return {};
  found.text =
      fmt::format("the generator is late: the last stage's backward waits {} of the step for it, {} times",
                  percent(waited / end_of(step.model)), waiting);
  found.advice =
      "run the generator right behind its unit's last forward on all ranks, and let backwards turn behind it";
  return found;
}

std::optional<Finding> clear_messages(Cleared& step) {
  auto& model = step.model;
  std::vector<double> took, forwards;
  for (size_t i = 0; i < model.count(); ++i) {
    if (model.last_input[i] >= 0 && model.by_input[i]) took.push_back(model.message[i]);
    model.message[i] = std::min(0.0, model.message[i]);
    if (step.kinds.stage[i] >= 0 && model.slices[i].op.phase == Phase::forward)
      forwards.push_back(model.duration[i]);
  }
  double median = median_of(took), forward = median_of(forwards);
  if (std::all_of(took.begin(), took.end(), [](double time) { return time <= 0; })) return {};
  Finding found{.fault = Fault::messages};
  found.text = fmt::format("messages between ranks: the median one takes {} of an LLM forward",
                           percent(forward > 0 ? median / forward : 0));
  found.advice = "overlap messages with operators; fewer chunks, or faster links";
  return found;
}

std::optional<Finding> clear_exchanges(Cleared& step) {
  auto& model = step.model;
  double total = std::accumulate(model.transfer.begin(), model.transfer.end(), 0.0);
  if (total <= 0) return {};
  for (size_t i = 0; i < model.count(); ++i) {
    model.own[i] -= std::min(model.own[i], model.transfer[i]);
    model.transfer[i] = 0;
  }
  Finding found{.fault = Fault::exchanges};
  found.text = fmt::format("ranks do nothing but exchange messages for {} of their time",
                           percent(total / double(model.ranks) / end_of(model)));
  found.advice = "overlap messages with operators (Megatron: --overlap-p2p-communication)";
  return found;
}

std::optional<Finding> clear_between(Cleared& step) {
  auto& model = step.model;
  double total = 0;
  for (size_t i = 0; i < model.count(); ++i) {
    if (model.before[i] < 0) continue;
    total += model.own[i];
    model.own[i] = 0;
  }
  if (total <= 0) return {};
  Finding found{.fault = Fault::between_operators};
  found.text = fmt::format(
      "ranks spend {} of their time between operators that could run: host, launches, "
      "exchanges that were not recorded",
      percent(total / double(model.ranks) / end_of(model)));
  found.advice = "look at the host: launches, synchronisation, optimizer or data work between microbatches";
  return found;
}

}  // namespace bigmac
