#include "bigmac/train/arguments.h"

#include "bigmac/command/arguments.h"

namespace bigmac::train {
namespace {

// "vision=full" -> vision, full
std::pair<std::string, std::string> named_value(const std::string& option, const std::string& text,
                                                const char* legal) {
  auto at = text.find('=');
  if (at == std::string::npos || at == 0) throw must_be(option, legal, text);
  return {text.substr(0, at), text.substr(at + 1)};
}

std::vector<int64_t> whole_numbers(const std::string& option, const std::string& text) {
  std::vector<int64_t> numbers;
  std::string piece;
  for (std::istringstream in(text); std::getline(in, piece, ',');) {
    int64_t number = 0;
    if (!parse_whole(piece, number))
      throw must_be(option, "layers of each stage between commas, as 7,8,8,7", text);
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

void TrainArguments::add_to(CLI::App& command) {
  auto change = [this](std::function<void(TrainOptions&)> apply) { changes_.push_back(std::move(apply)); };
  auto whole = [&](const std::string& option, int64_t least, auto member, const std::string& help) {
    return add_whole(
        command, option, least,
        [change, member](int64_t number) { change([=](TrainOptions& o) { o.*member = number; }); }, help);
  };
  auto choice = [&](const std::string& option, const std::string& names, auto member, auto parse,
                    const std::string& help) {
    add_choice(
        command, option, names,
        [change, member, parse](const std::string& text) {
          auto value = parse(text);
          change([=](TrainOptions& o) { o.*member = value; });
        },
        help);
  };
  auto each = [&](const std::string& option, const std::string& type, auto take, const std::string& help) {
    command
        .add_option_function<std::vector<std::string>>(
            option,
            [change, take](const std::vector<std::string>& texts) {
              for (const auto& text : texts) change(take(text));
            },
            help)
        ->type_name(type)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  using O = TrainOptions;
  whole("--pp", 1, &O::pp, "P, pipeline ranks");
  whole("--vpp", 1, &O::vpp, "V, chunks (virtual pipeline stages) on each rank");
  whole("--dp", 0, &O::dp, "Replicas of the pipeline; 0: as many as there are ranks for");
  whole("--microbatches", 1, &O::microbatches, "M, microbatches of a step, of each replica");
  whole("--steps", 0, &O::steps, "Steps to train, those before a resume included");
  add_whole(
      command, "--seed", 0,
      [change](int64_t seed) { change([=](TrainOptions& o) { o.seed = uint64_t(seed); }); },
      "Seed of parameters, order of the data and noise");
  command
      .add_option_function<std::string>(
          "--learning-rate",
          [change](const std::string& text) {
            double rate = 0;
            if (!parse_number(text, rate) || !(rate >= 0))
              throw must_be("--learning-rate", "a number from 0", text);
            change([=](TrainOptions& o) { o.optimizer.learning_rate = rate; });
          },
          "After the warm-up; it falls as a cosine over --steps. The optimizer's other settings are "
          "--config's")
      ->type_name("X");
  choice(
      "--schedule", "nested|nested-fill|three-phase|optimus|megatron", &O::schedule, arrangement_from_name,
      "Where encoder and generator work goes: unit by unit into the LLM's order; item by item into its "
      "bubbles too; all encoder forwards before and all backwards behind it; into its bubbles, else before "
      "and behind; into the first and the last stage");
  choice("--base", "gpipe|1f1b|interleaved|zb-h1|zb-v|dualpipe-v", &O::base, made_base_from_name,
         "Order of the LLM's own operators");
  whole("--generator-unit", 0, &O::generator_unit,
        "K, microbatches in a unit of the generators, from 1 to P; 0: P")
      ->type_name("K");
  choice("--order", "as-is|balanced", &O::order, order_from_name,
         "Order in which a step runs its microbatches: as they come, or so that units cost about their mean");
  command
      .add_option_function<std::string>(
          "--split",
          [change](const std::string& text) {
            auto split = whole_numbers("--split", text);
            change([=](TrainOptions& o) { o.cut.split = split; });
          },
          "The LLM's layers of each stage, in order")
      ->type_name("N,N,...");
  command
      .add_option_function<std::string>(
          "--layout",
          [change](const std::string& text) { change([=](TrainOptions& o) { o.cut.layout = text; }); },
          "The same as Megatron Core writes it: Et*3|t*4|t*3L")
      ->type_name("TEXT");
  command.add_flag_callback(
      "--measured-split", [change] { change([](TrainOptions& o) { o.measured_split = true; }); },
      "Gives stages the LLM's layers by what they take, measured beforehand with the first step's samples");
  each(
      "--freeze", "PATTERN",
      [](const std::string& text) { return [=](TrainOptions& o) { o.trained.freeze.push_back(text); }; },
      "Parameters that are not trained, by name: 'vision.*'. May be given several times");
  each(
      "--train-only", "PATTERN",
      [](const std::string& text) {
        return [=](TrainOptions& o) {
          o.trained.freeze = {"*"};
          o.trained.train.push_back(text);
        };
      },
      "Parameters that alone are trained: '*.projector.*'. May be given several times");
  each(
      "--recompute", "MODULE",
      [](const std::string& text) { return [=](TrainOptions& o) { o.recompute.push_back(text); }; },
      "An encoder, or the LLM, whose activations are made anew before its backward");
  each(
      "--shard", "MODULE=HOW",
      [](const std::string& text) {
        auto [module, how] = named_value("--shard", text, "MODULE=replicated|states|full");
        auto sharding = sharding_from_name(how);
        return [=, module = module](TrainOptions& o) { o.shard[module] = sharding; };
      },
      "What ranks share of a module: nothing (replicated), gradients and optimizer states (states), or its "
      "parameters too (full)");
  choice(
      "--gather", "collective|one-sided", &O::gather, gather_from_name,
      "How fully sharded parameters come together: all ranks at one place of the table, or by the rank that "
      "needs them");
  choice(
      "--dtype", "float32|float64|bfloat16", &O::dtype,
      [](const std::string& text) {
        dtype_from_name(text);
        return text;
      },
      "Of parameters and activations; bfloat16 has main weights and gradients in float32");
  command
      .add_option_function<std::string>(
          "--device",
          [change](const std::string& text) { change([=](TrainOptions& o) { o.device = text; }); },
          "cpu, cuda or cuda:N")
      ->type_name("DEVICE");
  choice("--ranks-as", "threads|processes", &O::ranks_as, ranks_as_from_name,
         "What the ranks are when this program starts them");
  command
      .add_option_function<std::string>(
          "--checkpoints",
          [change](const std::string& text) { change([=](TrainOptions& o) { o.checkpoints = text; }); },
          "Where checkpoints go")
      ->type_name("FOLDER");
  whole("--checkpoint-every", 0, &O::checkpoint_every, "Steps between them; 0: one at the end");
  command.add_flag_callback(
      "--resume", [change] { change([](TrainOptions& o) { o.resume = true; }); },
      "Go on from the newest checkpoint there, if there is one");
  command
      .add_option_function<std::string>(
          "--profile",
          [change](const std::string& text) { change([=](TrainOptions& o) { o.profile.folder = text; }); },
          "Where each rank writes what it does while it does it, for bigmac view and report; what it did "
          "last is there after a crash too")
      ->type_name("FOLDER");
  add_whole(
      command, "--profile-every", 1,
      [change](int64_t steps) { change([=](TrainOptions& o) { o.profile.every = steps; }); },
      "Steps of which one is written down")
      ->type_name("N");
  add_whole(
      command, "--profile-keep", 1,
      [change](int64_t steps) { change([=](TrainOptions& o) { o.profile.keep = steps; }); },
      "Of these steps the last so many are kept")
      ->type_name("N");
}

void TrainArguments::apply(TrainOptions& options) const {
  for (const auto& change : changes_) change(options);
}

}  // namespace bigmac::train
