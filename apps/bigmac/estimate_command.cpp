#include "apps/bigmac/estimate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/arguments.h"
#include "apps/bigmac/console.h"
#include "apps/bigmac/plan_text.h"
#include "apps/bigmac/text_columns.h"
#include "bigmac/cost/count.h"
#include "bigmac/cost/layer_bytes.h"
#include "bigmac/cost/layer_time.h"
#include "bigmac/cost/read_model.h"
#include "bigmac/formats/units.h"
#include "bigmac/simulate/memory.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Counts what a model has and takes, from its Hugging Face configuration (config.json, or the same fields in "
    "YAML): parameters, FLOPs of a sequence, bytes of activations that its training keeps, bytes of parameters, "
    "gradients and optimizer states, and the time of forward and backward at the hardware's figures and default "
    "efficiencies. All of it is one GPU's, without pipeline stages, unless it says otherwise.\n"
    "\n"
    "Known are LLMs (Llama, Qwen2.5, Qwen3, Qwen3-MoE), vision encoders (Qwen2.5-VL, Qwen3-VL, DotsViT), audio "
    "encoders (Whisper, Qwen3-Omni) and diffusion transformers (Qwen-Image, FLUX). docs/cost.md says what is counted.";

constexpr char kExamples[] =
    "Examples:\n"
    "  An LLM on sequences of 8192 tokens:\n"
    "    bigmac estimate workloads/models/qwen3-30b-a3b.json --tokens 8192\n"
    "  What tensor and expert parallelism and recompute leave of it on a GPU:\n"
    "    bigmac estimate workloads/models/qwen3-30b-a3b.json --tp 2 --dp 8 --ep 8 --recompute full\n"
    "  The vision encoder of a combined model on an image of 4096 patches:\n"
    "    bigmac estimate workloads/models/qwen2.5-vl-72b.json --tower vision --tokens 4096\n"
    "  A diffusion transformer on a picture of 1024 x 1024 and a text of 512 tokens:\n"
    "    bigmac estimate workloads/models/qwen-image.json --tokens 4096 --text 512";

struct EstimateArguments {
  std::string file;
  cost::Tower tower = cost::Tower::whole;
  int64_t tokens = 0, text = 0, sequences = 1;
  cost::Parallel parallel;
  cost::Training training;
  std::string hardware = "H800";
  bool json = false;
};

// What is counted of one layer, or of some alike.
struct Counted {
  std::string name;
  int64_t layers = 0;
  cost::Parameters parameters;
  cost::Flops flops;
  cost::LayerBytes bytes;
  cost::StateBytes state;
  cost::LayerTime time;

  void add(const Counted& other) {
    layers += other.layers;
    parameters += other.parameters;
    flops += other.flops;
    bytes += other.bytes;
    state += other.state;
    time += other.time;
  }
};

// Layers alike that stand next to one another are one line.
std::vector<Counted> count(const cost::Model& model, const EstimateArguments& arguments) {
  cost::Sequences sequences{.count = double(arguments.sequences),
                            .tokens = double(arguments.tokens),
                            .text = double(arguments.text),
                            .merge = model.merge};
  auto hardware = cost::hardware_from_name(arguments.hardware);
  std::vector<Counted> lines;
  const cost::Layer* last = nullptr;
  for (const auto& layer : model.layers) {
    Counted one{layer.name,
                1,
                cost::parameters(layer),
                cost::flops(layer, sequences),
                cost::layer_bytes(layer, model.hidden, sequences, arguments.parallel, arguments.training),
                cost::state_bytes(layer, arguments.parallel, arguments.training, {}, true),
                cost::layer_time(layer, sequences, arguments.parallel, arguments.training, hardware, {})};
    if (last && *last == layer)
      lines.back().add(one);
    else
      lines.push_back(one);
    last = &layer;
  }
  return lines;
}

Counted total_of(const std::vector<Counted>& lines) {
  Counted total{.name = "all", .layers = 0, .parameters = {}, .flops = {}, .bytes = {}, .state = {}, .time = {}};
  for (const auto& line : lines) total.add(line);
  return total;
}

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

std::string to_text(const cost::Model& model, const EstimateArguments& arguments, std::vector<Counted> lines) {
  lines.push_back(total_of(lines));
  Column name{"layers", {}, true}, parameters{"parameters", {}}, forward{"forward", {}}, backward{"backward", {}},
      kept{"activations", {}}, state{"states", {}}, time{"time", {}};
  for (const auto& line : lines) {
    name.cells.push_back(line.layers == 1 ? line.name : fmt::format("{} x {}", line.layers, line.name));
    parameters.cells.push_back(grouped(line.parameters.all));
    forward.cells.push_back(fmt::format("{:.4g} T", line.flops.forward / 1e12));
    backward.cells.push_back(fmt::format("{:.4g} T", (line.flops.input + line.flops.weight) / 1e12));
    kept.cells.push_back(bytes_text(line.bytes.kept));
    state.cells.push_back(bytes_text(line.state.all()));
    time.cells.push_back(seconds_text(line.time.forward + line.time.backward()));
  }
  const auto& all = lines.back();
  auto text = fmt::format("{}: {} parameters", model.name, grouped(all.parameters.all));
  if (all.parameters.experts > 0)
    text += fmt::format(", {} of them in experts; {} active for a token", grouped(all.parameters.experts),
                        grouped(all.parameters.active));
  const auto& p = arguments.parallel;
  text += fmt::format("\n{} sequence{} of {} tokens{}, TP {} DP {} EP {}, recompute {}{}, {}\n\n", arguments.sequences,
                      arguments.sequences == 1 ? "" : "s", arguments.tokens,
                      arguments.text > 0 ? fmt::format(" and {} of text", arguments.text) : "", p.tensor, p.data,
                      p.expert, cost::name(arguments.training.recompute), arguments.training.frozen ? ", frozen" : "",
                      arguments.hardware);
  text += side_by_side({name, parameters, forward, backward, kept, state, time});
  text += fmt::format(
      "\nforward, backward  FLOPs of the whole model, recompute not counted\n"
      "activations        bytes that one GPU keeps from the forward to the backward\n"
      "states             parameters {}, gradients {}, optimizer {}: bytes of one GPU\n"
      "time               forward and backward on one GPU, at default efficiencies\n",
      bytes_text(all.state.parameters), bytes_text(all.state.gradients), bytes_text(all.state.optimizer));
  return text;
}

nlohmann::ordered_json json_of(const Counted& line) {
  return {{"layers", line.layers},
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
          {"backward_seconds", line.time.backward()}};
}

std::string to_json(const cost::Model& model, const std::vector<Counted>& lines) {
  nlohmann::ordered_json json{{"model", model.name}};
  json["total"] = json_of(total_of(lines));
  json["by_layer"] = nlohmann::ordered_json::array();
  for (const auto& line : lines) {
    auto one = json_of(line);
    one["name"] = line.name;
    json["by_layer"].push_back(one);
  }
  return json.dump() + "\n";
}

void run(EstimateArguments arguments) {
  auto model = cost::read_model_file(arguments.file, arguments.tower);
  bool two_streams = model.family == cost::Family::diffusion;
  if (arguments.tokens == 0) arguments.tokens = 4096;
  if (two_streams && arguments.text == 0) arguments.text = 512;
  if (!two_streams && arguments.text > 0) print_note("the model has one stream: --text has no effect");
  check(arguments.parallel);
  check_fits(model.layers, arguments.parallel);
  auto lines = count(model, arguments);
  write_stdout(arguments.json ? to_json(model, lines) : to_text(model, arguments, lines));
}

}  // namespace

void add_estimate_command(CLI::App& program) {
  auto* command = program.add_subcommand("estimate", kAbout);
  auto arguments = std::make_shared<EstimateArguments>();
  command->add_option("CONFIG", arguments->file, "The model's config.json, or the same fields in YAML")->required();
  add_choice(
      *command, "--tower", "whole|text|vision|audio",
      [arguments](const std::string& text) { arguments->tower = cost::tower_from_name(text); },
      "Which part of a configuration that holds several models")
      ->default_str("whole");
  add_choice(
      *command, "--tokens", "N", [arguments](const std::string& text) { arguments->tokens = count_from(text); },
      "Tokens of a sequence: of text, patches of an image, latent patches of a picture")
      ->default_str("4096");
  add_choice(
      *command, "--text", "N", [arguments](const std::string& text) { arguments->text = count_from(text); },
      "Text tokens beside a picture's, for diffusion transformers")
      ->default_str("512");
  add_count(*command, "--sequences", arguments->sequences, "Sequences in a microbatch")->default_str("1");
  add_count(*command, "--tp", arguments->parallel.tensor, "Tensor parallelism, with sequence parallelism")
      ->default_str("1");
  add_count(*command, "--dp", arguments->parallel.data, "Replicas that share out optimizer states")
      ->default_str("1");
  add_count(*command, "--ep", arguments->parallel.expert, "Expert parallelism")->default_str("1");
  add_choice(
      *command, "--recompute", "none|selective|full",
      [arguments](const std::string& text) { arguments->training.recompute = cost::recompute_from_name(text); },
      "What of the activations is computed again in the backward")
      ->default_str("none");
  add_switch(*command, "--frozen", arguments->training.frozen, "The weights are not trained");
  add_choice(
      *command, "--hardware", "NAME",
      [arguments](const std::string& text) { arguments->hardware = cost::hardware_from_name(text).name; },
      "H800, H100, H200 or A100")
      ->default_str("H800");
  add_switch(*command, "--json", arguments->json, "Print all of it as JSON");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
