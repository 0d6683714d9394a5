#include "apps/bigmac/estimate_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/bigmac/outcome_table.h"
#include "apps/bigmac/plan_json_text.h"
#include "apps/bigmac/text_columns.h"
#include "bigmac/simulate/memory.h"

namespace bigmac {
namespace {

// Digits in groups of three.
std::string grouped(int64_t number) {
  auto digits = std::to_string(number);
  std::string text;
  for (size_t n = 0; n < digits.size(); ++n) {
    if (n > 0 && (digits.size() - n) % 3 == 0) text += ',';
    text += digits[n];
  }
  return text;
}

struct FlopsUnit {
  const char* name;
  double size;
};

FlopsUnit unit_of(double flops) {
  for (auto unit : {FlopsUnit{"PFLOP", 1e15}, {"TFLOP", 1e12}, {"GFLOP", 1e9}})
    if (flops >= unit.size) return unit;
  return {"MFLOP", 1e6};
}

std::string what_text(const Estimated& estimated, const Counted& all) {
  const auto& s = estimated.sequences;
  const auto& p = estimated.parallel;
  auto text = fmt::format("{}: {} parameters", estimated.model.name, grouped(all.parameters.all));
  if (all.parameters.experts > 0)
    text += fmt::format(", {} of them in experts; {} active for a token", grouped(all.parameters.experts),
                        grouped(all.parameters.active));
  text += fmt::format("\n{:.0f} sequence{} of {:.0f} tokens", s.count, s.count == 1 ? "" : "s", s.tokens);
  if (s.text > 0) text += fmt::format(" and {:.0f} of text", s.text);
  return text + fmt::format(", TP {} DP {} EP {}, recompute {}{}, {}\n", p.tensor, p.data, p.expert,
                            cost::name(estimated.training.recompute),
                            estimated.training.frozen ? ", frozen" : "", estimated.hardware.name);
}

// What one GPU has to hold.
std::string memory_text(const Estimated& estimated, const Counted& all) {
  double needed = all.state.all() + all.bytes.kept + all.bytes.working;
  auto text = fmt::format("\none GPU without pipeline stages: {}; {} has {}\n", bytes_text(needed),
                          estimated.hardware.name, bytes_text(estimated.hardware.memory));
  std::pair<double, const char*> lines[] = {
      {all.state.parameters, "parameters"},
      {all.state.gradients, "gradients"},
      {all.state.optimizer, "optimizer states"},
      {all.bytes.kept, "activations, kept from the forward to the backward"},
      {all.bytes.working, "more in a layer's backward, of what is recomputed"}};
  for (const auto& [bytes, what] : lines)
    if (bytes > 0) text += fmt::format("  {:>8}  {}\n", bytes_text(bytes), what);
  return text;
}

std::string time_text(const Estimated& estimated, const Counted& all) {
  double seconds = all.time.forward + all.time.backward();
  auto text = fmt::format("\nforward and backward: {}", seconds_text(seconds));
  if (all.time.again > 0) text += fmt::format(", {} of it recompute", seconds_text(all.time.again));
  if (all.time.links > 0) text += fmt::format(", {} of it TP and EP traffic", seconds_text(all.time.links));
  if (estimated.training.frozen) return text + "\n";
  double mfu =
      3 * all.flops.forward / double(estimated.parallel.tensor) / (seconds * estimated.hardware.peak);
  return text + fmt::format("; MFU {} (3 forwards' FLOPs)\n", percent_text(mfu));
}

nlohmann::ordered_json json_of(const Counted& line) {
  return {{"name", line.name},
          {"layers", line.layers},
          {"parameters", line.parameters.all},
          {"expert_parameters", line.parameters.experts},
          {"active_parameters", line.parameters.active},
          {"forward_flops", line.flops.forward},
          {"input_flops", line.flops.input},
          {"weight_flops", line.flops.weight},
          {"activation_bytes", line.bytes.kept},
          {"working_bytes", line.bytes.working},
          {"parameter_bytes", line.state.parameters},
          {"gradient_bytes", line.state.gradients},
          {"optimizer_bytes", line.state.optimizer},
          {"forward_seconds", line.time.forward},
          {"backward_seconds", line.time.backward()},
          {"recompute_seconds", line.time.again},
          {"traffic_seconds", line.time.links}};
}

// Those of the gradients that are computed.
cost::Flops flops_of(const cost::Layer& layer, const cost::Sequences& sequences,
                     const cost::Training& training) {
  auto flops = cost::flops(layer, sequences);
  if (training.frozen) flops.weight = 0;
  if (training.frozen && !training.passes_gradient) flops.input = 0;
  return flops;
}

}  // namespace

void Counted::add(const Counted& other) {
  layers += other.layers;
  parameters += other.parameters;
  flops += other.flops;
  bytes = {bytes.kept + other.bytes.kept, std::max(bytes.working, other.bytes.working)};
  state += other.state;
  time += other.time;
}

Counts count(const Estimated& estimated) {
  const auto& [model, sequences, parallel, training, hardware] = estimated;
  Counts counts{{}, {"all", 0, {}, {}, {}, {}, {}}};
  std::vector<const cost::Layer*> kinds;
  for (const auto& layer : model.layers) {
    Counted one{layer.name,
                1,
                cost::parameters(layer),
                flops_of(layer, sequences, training),
                cost::layer_bytes(layer, model.hidden, sequences, parallel, training),
                cost::state_bytes(layer, parallel, training, {}, true),
                cost::layer_time(layer, sequences, parallel, training, hardware, {})};
    counts.all.add(one);
    auto at = std::find_if(kinds.begin(), kinds.end(), [&](const auto* kind) { return *kind == layer; });
    if (at != kinds.end()) {
      counts.kinds[size_t(at - kinds.begin())].add(one);
      continue;
    }
    kinds.push_back(&layer);
    counts.kinds.push_back(std::move(one));
  }
  return counts;
}

std::string to_text(const Estimated& estimated, const Counts& counts) {
  auto lines = counts.kinds;
  lines.push_back(counts.all);
  auto unit = unit_of(counts.all.flops.all());
  Column name{"layers", {}, true}, parameters{"parameters", {}},
      forward{fmt::format("forward {}", unit.name), {}}, backward{fmt::format("backward {}", unit.name), {}},
      forward_time{"time", {}}, backward_time{"time", {}}, kept{"activations", {}}, state{"states", {}};
  auto flops_text = [&](double flops) { return flops > 0 ? fmt::format("{:.4f}", flops / unit.size) : "-"; };
  for (const auto& line : lines) {
    bool one = line.layers == 1 || &line == &lines.back();
    name.cells.push_back(one ? line.name : fmt::format("{} x {}", line.layers, line.name));
    parameters.cells.push_back(grouped(line.parameters.all));
    forward.cells.push_back(flops_text(line.flops.forward));
    forward_time.cells.push_back(seconds_text(line.time.forward));
    backward.cells.push_back(flops_text(line.flops.input + line.flops.weight));
    backward_time.cells.push_back(line.time.backward() > 0 ? seconds_text(line.time.backward()) : "-");
    kept.cells.push_back(bytes_text(line.bytes.kept));
    state.cells.push_back(bytes_text(line.state.all()));
  }
  return what_text(estimated, counts.all) + "\n" +
         side_by_side({name, parameters, forward, forward_time, backward, backward_time, kept, state}) +
         "FLOPs: of the whole model, recompute not counted; time and bytes: of one GPU\n" +
         time_text(estimated, counts.all) + memory_text(estimated, counts.all);
}

std::string to_json(const Estimated& estimated, const Counts& counts) {
  const auto& s = estimated.sequences;
  const auto& p = estimated.parallel;
  nlohmann::ordered_json json{{"model", estimated.model.name},
                              {"sequences", int64_t(s.count)},
                              {"tokens", int64_t(s.tokens)},
                              {"text", int64_t(s.text)},
                              {"tensor", p.tensor},
                              {"data", p.data},
                              {"expert", p.expert},
                              {"recompute", cost::name(estimated.training.recompute)},
                              {"frozen", estimated.training.frozen},
                              {"hardware", estimated.hardware.name}};
  json["total"] = json_of(counts.all);
  json["by_layer"] = nlohmann::ordered_json::array();
  for (const auto& line : counts.kinds) json["by_layer"].push_back(json_of(line));
  return line_of(json);
}

}  // namespace bigmac
