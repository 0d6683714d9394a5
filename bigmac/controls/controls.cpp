#include "bigmac/controls/controls.h"

#include <fmt/format.h>

#include "bigmac/common/error.h"
#include "bigmac/schedule/disttrain.h"
#include "bigmac/schedule/make.h"

namespace bigmac {
namespace {

Base base_of(const Controls& controls) {
  return controls.base.value_or(controls.chunks == 1 ? Base::one_f_one_b : Base::interleaved);
}

void check_size(const Controls& controls, const Step& step) {
  double passes = step.splits_backward() ? 3 : 2;
  double operators = double(step.stages()) * double(step.microbatches) * passes;
  for (const auto* module : {&controls.encoder, &controls.generator}) {
    if (!module->exists()) continue;
    if (module->items < 1)
      throw InvalidInput(concat("[controls] a microbatch must have at least 1 item, got ", module->items,
                                "; without an encoder or generator both of its times are 0"));
    operators += 2 * double(module->items) * double(step.microbatches);
  }
  if (operators > double(kMostControlled))
    throw InvalidInput(
        fmt::format("[controls] {} with these items is some {:.0f} operators, more than {}; take fewer, or "
                    "bigmac simulate",
                    shape(step), operators, kMostControlled));
}

void add_module(const ControlledModule& given, Module kind, Step& step, Costs& costs) {
  if (!given.exists()) return;
  NestedModule module{.name = std::string(name(kind)), .kind = kind, .items = {}};
  module.items.reserve(size_t(given.items * step.microbatches));
  for (int64_t m = 0; m < step.microbatches; ++m)
    module.items.insert(module.items.end(), size_t(given.items), {uint32_t(m), 1.0 / double(given.items)});
  step.modules.push_back(std::move(module));
  costs.modules.push_back({given.forward, given.backward});
}

struct Declared {
  Step step;
  Costs costs;
};

Declared declare(const Controls& controls) {
  if (controls.forward == 0 && controls.backward == 0)
    throw InvalidInput("[controls] the LLM must have a forward or a backward that takes time, got 0 and 0");
  Declared declared;
  auto& [step, costs] = declared;
  step.ranks = controls.ranks;
  step.chunks = controls.chunks;
  step.microbatches = controls.microbatches;
  step.base = base_of(controls);
  step.group = controls.group;
  check_step(step);
  check_size(controls, step);
  costs.forward = {controls.forward};
  costs.backward = {controls.backward};
  if (controls.weight) costs.weight = {*controls.weight};
  costs.latency = controls.latency;
  step.arrangement = controls.arrangement;
  step.generator_unit = controls.generator_unit;
  if (step.arrangement == Arrangement::llm_only) return declared;
  add_module(controls.encoder, Module::encoder, step, costs);
  add_module(controls.generator, Module::generator, step, costs);
  for (auto& module : step.modules)
    if (module.kind == Module::encoder) module.warmup_units = controls.warmup_units;
  check_step(step);
  return declared;
}

std::string name_of(const Controls& controls) {
  auto text = fmt::format("{}, {}, P={} V={} M={}", name(controls.arrangement), name(base_of(controls)),
                          controls.ranks, controls.chunks, controls.microbatches);
  if (controls.arrangement == Arrangement::disttrain)
    text = fmt::format("{}, P={} M={}", name(controls.arrangement), controls.ranks, controls.microbatches);
  return text;
}

}  // namespace

Controlled controlled(const Controls& controls) {
  auto [step, costs] = declare(controls);
  Recording recording;
  recording.name = name_of(controls);
  recording.schedule = make_schedule(step, costs);
  const auto& made = recording.schedule.step;
  if (!made.stage_ranks.empty()) costs = costs_for_stages(step, made.stages(), costs);
  recording.timeline = simulate(recording.schedule, costs);
  auto step_report = report(recording.schedule, costs, recording.timeline);
  return {std::move(recording), std::move(step_report)};
}

std::string command_of(const Controls& controls) {
  auto text = fmt::format("bigmac simulate --pp {}", controls.ranks);
  if (controls.chunks != 1) text += fmt::format(" --vpp {}", controls.chunks);
  text += fmt::format(" --microbatches {}", controls.microbatches);
  if (controls.base) text += fmt::format(" --base {}", name(*controls.base));
  if (controls.group != 0) text += fmt::format(" --group {}", controls.group);
  if (controls.weight)
    text += fmt::format(" --backbone {},{:.12g},{}", controls.forward, controls.backward - *controls.weight,
                        *controls.weight);
  else
    text += fmt::format(" --backbone {},{}", controls.forward, controls.backward);
  if (controls.latency > 0) text += fmt::format(" --latency {}", controls.latency);
  bool nests = controls.arrangement != Arrangement::llm_only;
  for (const auto& [module, option] :
       {std::pair(controls.encoder, "encoder"), std::pair(controls.generator, "generator")}) {
    if (!nests || !module.exists()) continue;
    text += fmt::format(" --{} {},{}", option, module.forward, module.backward);
    if (module.items != 1) text += fmt::format(" --items {}={}", option, module.items);
  }
  if (nests && controls.encoder.exists() && controls.warmup_units != 0)
    text += fmt::format(" --warmup-units {}", controls.warmup_units);
  if (nests && controls.generator.exists() && controls.generator_unit != 0)
    text += fmt::format(" --generator-unit {}", controls.generator_unit);
  return text + fmt::format(" --schedule {}", name(controls.arrangement));
}

}  // namespace bigmac
