#include "apps/bigmac/estimate_command.h"

#include <memory>
#include <optional>

#include "apps/bigmac/estimate_text.h"
#include "bigmac/command/arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/cost/read_model.h"
#include "bigmac/formats/units.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Counts what a model has and takes, from its Hugging Face configuration (config.json, or the same fields "
    "in "
    "YAML): parameters, FLOPs, the time of forward and backward, bytes of the activations that training "
    "keeps, and "
    "of parameters, gradients and optimizer states, by kind of layer.\n"
    "\n"
    "Known are LLMs (Llama, Qwen2.5, Qwen3, Qwen3-MoE), vision encoders (Qwen2.5-VL, Qwen3-VL, DotsViT), "
    "audio "
    "encoders (Whisper, Qwen3-Omni) and diffusion transformers (Qwen-Image, FLUX). Assumed are bf16 with "
    "fp32 "
    "gradients and Adam (2 + 4 + 12 bytes a parameter), and that matrix products reach 0.6 of the peak, "
    "experts' 0.4, "
    "attention 0.5, memory 0.7 and links 0.8 of their bandwidth; in a workload each of these is a field. "
    "docs/cost.md "
    "says what is counted and how.";

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

constexpr int64_t kMostTokens = int64_t{1} << 40, kText = 512;

struct EstimateArguments {
  std::string file;
  cost::Tower tower = cost::Tower::whole;
  int64_t tokens = 4096, sequences = 1;
  std::optional<int64_t> text;
  cost::Parallel parallel;
  cost::Training training;
  cost::Hardware hardware = cost::hardware_from_name("H800");
  bool json = false;
};

// A whole number from 1 on, such as 8192 or 8K.
int64_t tokens_from(const std::string& text) {
  int64_t tokens = count_from(text);
  if (tokens < 1 || tokens > kMostTokens)
    throw InvalidInput(concat("must be from 1 to ", kMostTokens, ", got '", text, "'"));
  return tokens;
}

bool has_experts(const cost::Model& model) {
  for (const auto& layer : model.layers)
    for (const auto& part : layer.parts)
      if (part.experts > 0) return true;
  return false;
}

void run(const EstimateArguments& arguments) {
  auto model = cost::read_model_file(arguments.file, arguments.tower);
  bool two_streams = model.family == cost::Family::diffusion;
  if (!two_streams && arguments.text) print_note("the model has one stream: --text has no effect");
  if (arguments.parallel.expert > 1 && !has_experts(model))
    print_note("the model has no experts: --ep has no effect");
  check(arguments.parallel);
  check_fits(model.layers, arguments.parallel);
  Estimated estimated{model,
                      {.count = double(arguments.sequences),
                       .tokens = double(arguments.tokens),
                       .text = two_streams ? double(arguments.text.value_or(kText)) : 0,
                       .merge = model.merge},
                      arguments.parallel,
                      arguments.training,
                      arguments.hardware};
  bool is_encoder = model.family == cost::Family::vision || model.family == cost::Family::audio;
  estimated.training.passes_gradient = !(estimated.training.frozen && is_encoder);
  auto counts = count(estimated);
  write_stdout(arguments.json ? to_json(estimated, counts) : to_text(estimated, counts));
}

}  // namespace

void add_estimate_command(CLI::App& program) {
  auto* command = program.add_subcommand("estimate", kAbout);
  auto arguments = std::make_shared<EstimateArguments>();
  command->add_option("CONFIG", arguments->file, "The model's config.json, or the same fields in YAML")
      ->required()
      ->type_name("FILE");
  add_choice(
      *command, "--tower", "whole|text|vision|audio",
      [arguments](const std::string& text) { arguments->tower = cost::tower_from_name(text); },
      "Which part of a configuration that holds several models")
      ->default_str("whole");
  add_choice(
      *command, "--tokens", "N",
      [arguments](const std::string& text) { arguments->tokens = tokens_from(text); },
      "Tokens of a sequence: of text, patches of an image, latent patches of a picture")
      ->default_str("4096");
  add_choice(
      *command, "--text", "N", [arguments](const std::string& text) { arguments->text = tokens_from(text); },
      "Text tokens beside a picture's, for diffusion transformers")
      ->default_str("512");
  add_count(*command, "--sequences", arguments->sequences, "Sequences in a microbatch")->default_str("1");
  add_count(*command, "--tp", arguments->parallel.tensor, "Tensor parallelism, with sequence parallelism")
      ->default_str("1");
  add_count(*command, "--dp", arguments->parallel.data,
            "Data-parallel replicas, over which optimizer states are sharded (ZeRO-1)")
      ->default_str("1");
  add_count(*command, "--ep", arguments->parallel.expert, "Expert parallelism, inside TP * DP")
      ->default_str("1");
  add_choice(
      *command, "--recompute", "none|selective|full",
      [arguments](const std::string& text) {
        arguments->training.recompute = cost::recompute_from_name(text);
      },
      "What of the activations is computed again in the backward")
      ->default_str("none");
  add_switch(
      *command, "--frozen", arguments->training.frozen,
      "The weights are not trained: an encoder then has no backward, others still pass gradients back");
  add_choice(
      *command, "--hardware", "H800|H100|H200|A100",
      [arguments](const std::string& text) { arguments->hardware = cost::hardware_from_name(text); },
      "What it runs on")
      ->default_str("H800");
  add_switch(*command, "--json", arguments->json, "Print all of it as JSON");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
