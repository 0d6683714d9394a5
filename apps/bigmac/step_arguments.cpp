#include "apps/bigmac/step_arguments.h"

#include <algorithm>
#include <memory>

#include "apps/bigmac/item_lists.h"
#include "apps/bigmac/stage_costs.h"
#include "bigmac/command/console.h"
#include "bigmac/common/names.h"
#include "bigmac/common/read_file.h"
#include "bigmac/schedule/order.h"

namespace bigmac {
namespace {

constexpr int64_t kSeed = 1;

// Adds an encoder or generator a value, named as its kind where it has no name.
void add_modules(const std::vector<NamedText>& values, Module kind, Step& step, Costs& costs) {
  auto option = concat("--", name(kind));
  for (const auto& value : values) {
    auto module = value.name.empty() ? std::string(name(kind)) : value.name;
    if (module == name(Module::backbone))
      throw InvalidInput(concat(option, ": 'backbone' is the LLM; take another name"));
    for (const auto& other : step.modules)
      if (other.name == module)
        throw InvalidInput(concat(option, ": two modules are named '", module, "'; name them apart, as in ",
                                  option, " image=0.5,1 ", option, " audio=0.2,0.4"));
    auto work = parse_work(option, value.text);
    step.modules.push_back(one_item_each(module, kind, step.microbatches));
    costs.modules.push_back({work.forward, work.backward});
  }
}

std::vector<NestedModule*> modules_of(Step& step, bool encoders_only) {
  std::vector<NestedModule*> modules;
  for (auto& module : step.modules)
    if (!encoders_only || module.kind == Module::encoder) modules.push_back(&module);
  return modules;
}

// Calls set(module, text) for the module that a value names, or for all of `modules`. What names a module
// wins.
template <class Set>
void set_by_name(const std::string& option, std::vector<NamedText> values,
                 const std::vector<NestedModule*>& modules, Set&& set) {
  if (modules.empty()) return;
  std::stable_partition(values.begin(), values.end(), [](const auto& value) { return value.name.empty(); });
  std::vector<std::string> names, given;
  for (auto* module : modules) names.push_back(module->name);
  for (const auto& value : values) {
    if (std::find(given.begin(), given.end(), value.name) != given.end())
      throw InvalidInput(
          value.name.empty()
              ? concat(option, " is given twice for all modules; name one: ", option, " NAME=", value.text)
              : concat(option, " is given twice for '", value.name, "'; give it once"));
    given.push_back(value.name);
    if (!value.name.empty() && std::find(names.begin(), names.end(), value.name) == names.end())
      throw InvalidInput(concat(option, ": ", unknown_name("module", value.name, names)));
    for (auto* module : modules)
      if (value.name.empty() || value.name == module->name) set(*module, value.text);
  }
}

void set_items(const StepArguments& arguments, Step& step) {
  bool drawn = false;
  auto seed = uint64_t(arguments.seed.value_or(kSeed));
  auto set = [&](NestedModule& module, const std::string& text) {
    auto number = uint64_t(&module - step.modules.data());
    module.items = make_items(text, step.microbatches, seed + number);
    drawn |= is_random_items(text);
  };
  set_by_name("--items", arguments.items, modules_of(step, false), set);
  if (arguments.seed && !drawn) print_note("without random items nothing is drawn: --seed has no effect");
}

void set_warmup_units(const StepArguments& arguments, Step& step) {
  auto set = [](NestedModule& module, const std::string& text) {
    module.warmup_units = parse_count("--warmup-units", text);
  };
  set_by_name("--warmup-units", arguments.warmup_units, modules_of(step, true), set);
}

void set_frozen(const StepArguments& arguments, Step& step) {
  std::vector<std::string> encoders;
  for (auto* module : modules_of(step, true)) encoders.push_back(module->name);
  for (const auto& name : arguments.frozen) {
    auto found = std::find_if(step.modules.begin(), step.modules.end(),
                              [&](const auto& module) { return module.name == name; });
    if (found != step.modules.end())
      found->trained = false;
    else if (encoders.empty())
      throw InvalidInput("--frozen: the step has no encoder; declare one with --encoder");
    else
      throw InvalidInput(concat("--frozen: ", unknown_name("encoder", name, encoders)));
  }
}

std::vector<uint32_t> order_of(const std::string& text, const DeclaredStep& declared) {
  if (text == "as-is") return {};
  if (text == "balanced") return balanced_order(declared.step, declared.costs);
  std::string contents;
  try {
    contents = read_file(text, kMostListBytes);
  } catch (const InvalidInput& error) {
    auto near = nearest_name(text, {"as-is", "balanced"});
    throw InvalidInput(concat("--order must be as-is, balanced or a file: ", error.what(),
                              near.empty() ? "" : concat(" (did you mean '", near, "'?)")));
  }
  return parse_order(contents, text, declared.step.microbatches);
}

// Options of nesting that the other arrangements have no use for.
void note_not_nested(const StepArguments& arguments, const Step& step) {
  bool fills = step.arrangement == Arrangement::nested_fill,
       distributes = step.arrangement == Arrangement::disttrain;
  bool megatron = step.arrangement == Arrangement::megatron,
       optimus = step.arrangement == Arrangement::optimus;
  auto note = [&](bool given, const char* option, const char* why) {
    if (given)
      print_note(concat("the schedule ", name(step.arrangement), " ", why, ": ", option, " has no effect"));
  };
  bool ahead = step.arrangement == Arrangement::three_phase || optimus || megatron || distributes;
  note(ahead && !arguments.warmup_units.empty(), "--warmup-units", "has no units ahead");
  note((megatron || distributes) && arguments.generator_unit > 0, "--generator-unit",
       "has no units of the generator");
  note((fills || optimus || megatron || distributes) && arguments.no_spread, "--no-spread",
       "chooses an item's rank itself");
  note(distributes && arguments.base, "--base", "has a 1F1B of its own");
}

void note_no_effect(const StepArguments& arguments, const Step& step) {
  bool modules = !step.modules.empty();
  if (modules) note_not_nested(arguments, step);
  if (step.arrangement == Arrangement::llm_only && modules)
    print_note(concat("an llm-only step has no encoder and generator operators: ",
                      !step.has(Module::generator) ? "--encoder has"
                      : !step.has(Module::encoder) ? "--generator has"
                                                   : "--encoder and --generator have",
                      " no effect"));
  if (step.arrangement != Arrangement::llm_only && !modules)
    print_note(concat("without --encoder or --generator the schedule ", name(step.arrangement),
                      " is the LLM's own"));
  if (!arguments.items.empty() && !modules)
    print_note("without --encoder or --generator there are no items: --items has no effect");
  if (!arguments.warmup_units.empty() && !step.has(Module::encoder))
    print_note("without --encoder no units run ahead: --warmup-units has no effect");
  bool trains = std::any_of(step.modules.begin(), step.modules.end(),
                            [](const auto& module) { return module.runs(Phase::backward); });
  if (!arguments.warmup_units.empty() && step.arrangement == Arrangement::nested &&
      step.has(Module::encoder) && !trains)
    print_note(
        "a nested frozen encoder runs when it is needed, ahead of no backward: --warmup-units has no "
        "effect");
  if (arguments.generator_unit > 0 && !step.has(Module::generator))
    print_note("without --generator its units have no size: --generator-unit has no effect");
  if (arguments.order == "balanced" && !modules)
    print_note("without --encoder or --generator there is nothing to balance: --order has no effect");
  if (arguments.layers && !arguments.layout)
    print_note("without --layout there is nothing to add up: --layers has no effect");
}

void add_module_options(CLI::App& command, StepArguments& arguments) {
  auto add_module = [&](const std::string& option, const std::string& times, auto& modules,
                        const char* help) {
    auto check = [option](const std::string& text) { parse_work(option, text); };
    value_may_be_left_out(add_named(command, option, "[NAME=]F,B", modules, check, help), times);
  };
  add_module(
      "--encoder", "0.5,1", arguments.encoders,
      "The model has an encoder: times of its forward and backward on a microbatch's items. Give several "
      "encoders different names");
  add_module("--generator", "2,4", arguments.generators,
             "The model has a generator, likewise; its forward and backward are one operator");
  CLI::callback_t add_frozen = [&arguments](const CLI::results_t& names) {
    arguments.frozen.insert(arguments.frozen.end(), names.begin(), names.end());
    return true;
  };
  auto* frozen =
      command
          .add_option("--frozen", add_frozen,
                      "The encoder of that name is not trained: it has no backward, and nothing is "
                      "kept for one")
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->type_name("NAME");
  value_may_be_left_out(frozen, "encoder");
  add_named(
      command, "--items", "[NAME=]N|random:MEAN,SIGMA[,EMPTY]|FILE", arguments.items,
      [](const std::string&) {},
      "What a microbatch has for the module NAME, or for all of them. N equal items. Or 1 + "
      "Poisson(MEAN-1) items with log-normal sizes, in all but a share EMPTY of the microbatches. Both are "
      "scaled so that the mean microbatch takes F,B. Or a CSV file of lines 'microbatch,size', where an "
      "item of size 1 takes F,B")
      ->default_str("1");
  add_whole(
      command, "--seed", 0, [&arguments](int64_t seed) { arguments.seed = seed; }, "Seed of random items")
      ->default_str("1");
  add_switch(command, "--no-spread", arguments.no_spread,
             "Leave microbatch m's items on rank m mod P instead of spreading a unit's items over the "
             "ranks by size");
}

void add_order_options(CLI::App& command, StepArguments& arguments) {
  add_choice(
      command, "--base", "gpipe|1f1b|interleaved|zb-h1|zb-v|dualpipe-v",
      [&arguments](const std::string& text) { arguments.base = made_base_from_name(text); },
      "Order of the LLM's own operators")
      ->default_str("1f1b with one chunk, else interleaved");
  add_count(command, "--group", arguments.group, "G, microbatches in a group of the interleaved order")
      ->default_str("P");
  add_choice(
      command, "--schedule", "llm-only|nested|nested-fill|three-phase|optimus|megatron|disttrain",
      [&arguments](const std::string& text) { arguments.arrangement = arrangement_from_name(text); },
      "Where encoder and generator work goes: nowhere; unit by unit into the LLM's order; item by item "
      "into its bubbles too; all forwards before and all backwards behind it; into its bubbles, else "
      "before and behind; into the first and the last stage; on ranks of its own, in the fastest split")
      ->default_str("nested with --encoder or --generator, else llm-only");
  auto check_count = [](const std::string& text) { parse_count("--warmup-units", text); };
  add_named(command, "--warmup-units", "[NAME=]N", arguments.warmup_units, check_count,
            "W, how many units of P microbatches an encoder runs ahead of its backward")
      ->default_str("3, or more where the base takes more");
  add_count(command, "--generator-unit", arguments.generator_unit,
            "K, microbatches in a unit of the generators, from 1 to P: fewer hold fewer LLM chunks in flight")
      ->type_name("K")
      ->default_str("P");
  command
      .add_option_function<std::string>(
          "--order", [&arguments](const std::string& text) { arguments.order = text; },
          "Order of the microbatches: as they come; so that units cost about their mean; or as a file "
          "lists them, M whole numbers from 0 to M-1")
      ->type_name("as-is|balanced|FILE")
      ->default_str("as-is");
}

void add_cost_options(CLI::App& command, StepArguments& arguments) {
  add_work(command, "--backbone", arguments.backbone,
           "Times of one chunk of the LLM on one microbatch, or with --layout of one layer: forward and "
           "backward, or forward, input gradient and weight gradient")
      ->default_str("1,2");
  command
      .add_option_function<std::string>(
          "--layout", [&arguments](const std::string& text) { arguments.layout = text; },
          "What each stage holds, as Megatron Core writes it: 'Et*3|(tt|)*6tL'. E embedding, t layer, m "
          "MTP layer, L loss, | cut. Sets --vpp")
      ->type_name("LAYOUT");
  add_whole(
      command, "--layers", 1, [&arguments](int64_t layers) { arguments.layers = layers; },
      "Layers that the layout must add up to");
  add_work(command, "--embedding", arguments.embedding, "Times that the stage with the embedding takes more")
      ->default_str("0,0");
  add_work(command, "--head", arguments.head, "Times that the stage with the loss takes more")
      ->default_str("0,0");
  add_time(command, "--latency", arguments.latency, "Time of a message between two ranks")->default_str("0");
}

}  // namespace

void add_step_options(CLI::App& command, StepArguments& arguments) {
  add_count(command, "--pp", arguments.ranks, "P, pipeline ranks")->required();
  add_whole(
      command, "--vpp", 1, [&arguments](int64_t chunks) { arguments.chunks = chunks; },
      "V, chunks (virtual pipeline stages) on each rank")
      ->default_str("1");
  add_count(command, "--microbatches", arguments.microbatches, "M, microbatches of the step")->required();
  add_module_options(command, arguments);
  add_order_options(command, arguments);
  add_cost_options(command, arguments);
}

DeclaredStep declare_step(const StepArguments& arguments) {
  DeclaredStep declared;
  auto& [step, costs] = declared;
  auto layout = read_layout(arguments);
  step.ranks = arguments.ranks;
  step.chunks = layout ? int64_t(layout->stages.size()) / step.ranks : arguments.chunks.value_or(1);
  step.microbatches = arguments.microbatches;
  step.base = arguments.base.value_or(step.chunks == 1 ? Base::one_f_one_b : Base::interleaved);
  step.group = arguments.group;
  check_step(step);
  costs = stage_costs(arguments, layout, step.stages());
  add_modules(arguments.encoders, Module::encoder, step, costs);
  add_modules(arguments.generators, Module::generator, step, costs);
  set_frozen(arguments, step);
  step.arrangement =
      arguments.arrangement.value_or(step.modules.empty() ? Arrangement::llm_only : Arrangement::nested);
  note_no_effect(arguments, step);
  set_items(arguments, step);
  set_warmup_units(arguments, step);
  step.generator_unit = arguments.generator_unit;
  step.spread = !arguments.no_spread;
  if (step.arrangement == Arrangement::llm_only) {
    step.modules.clear();
    costs.modules.clear();
  }
  check_step(step);
  auto order = order_of(arguments.order, declared);
  if (!std::is_sorted(order.begin(), order.end())) step = reordered(step, order);
  return declared;
}

}  // namespace bigmac
