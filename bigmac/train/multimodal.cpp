#include "bigmac/train/multimodal.h"

#include <torch/torch.h>

#include <cstdlib>

#include "bigmac/data/text.h"
#include "bigmac/nn/initialise.h"

namespace bigmac::train {
namespace {

constexpr int64_t kNoLabel = -100;

std::vector<int64_t> held_layers(const Config& config, const Dependencies& placed, int rank) {
  std::vector<int64_t> held;
  for (int64_t stage = 0; stage < placed.stages(); ++stage)
    if (placed.rank_of(stage) == rank)
      for (int64_t layer : layers_of_stage(config.backbone.layers, stage, placed.stages()))
        held.push_back(layer);
  return held;
}

std::vector<int64_t> to_vector(const torch::Tensor& rows) {
  return {rows.data_ptr<int64_t>(), rows.data_ptr<int64_t>() + rows.numel()};
}

}  // namespace

std::vector<int64_t> layers_of_stage(int64_t layers, int64_t stage, int64_t stages) {
  std::vector<int64_t> held;
  for (int64_t layer = stage * layers / stages; layer < (stage + 1) * layers / stages; ++layer)
    held.push_back(layer);
  return held;
}

torch::Device device_of(const Config& config, int rank) {
  torch::Device device(config.device);
  if (!device.is_cuda()) return device;
  auto count = int64_t(torch::cuda::device_count());
  if (count == 0 || device.index() >= count)
    throw InvalidInput(concat("[config] device is '", config.device, "', but libtorch finds ", count,
                              " CUDA devices; take cpu or a number below that"));
  if (device.has_index()) return device;
  const char* local = std::getenv("LOCAL_RANK");
  return {torch::kCUDA, torch::DeviceIndex((local ? std::atoi(local) : rank) % count)};
}

Multimodal::Multimodal(const Config& config, int rank)
    : config_(config),
      rank_(rank),
      placed_(step_of(config), {}),
      options_(torch::dtype(config.dtype == "float64" ? torch::kFloat64 : torch::kFloat32)
                   .device(device_of(config, rank))),
      encoder_(config.encoder),
      backbone_(config.backbone, held_layers(config, placed_, rank), placed_.rank_of(0) == rank,
                placed_.rank_of(placed_.stages() - 1) == rank),
      generator_(config.generator) {
  auto prepare = [&](torch::nn::Module& module, const char* prefix) {
    module.to(options_.device(), torch::typeMetaToScalarType(options_.dtype()));
    nn::initialise(module, config.seed, prefix);
  };
  prepare(*encoder_, "encoder.");
  prepare(*backbone_, "backbone.");
  prepare(*generator_, "generator.");
}

std::vector<Tensors> Multimodal::encode(int, std::span<const ModelItem> items) {
  Tensors pictures;
  for (const auto& [microbatch, number] : items)
    pictures.push_back(batch_->microbatches.at(size_t(microbatch)).pictures[number]);
  std::vector<Tensors> values;
  for (auto& tokens : encoder_->forward(real(torch::stack(pictures))).unbind()) values.push_back({tokens});
  return values;
}

Model::Output Multimodal::forward(int chunk, int microbatch, const Inputs& inputs) {
  const auto& data = batch_->microbatches.at(size_t(microbatch));
  int64_t stage = placed_.stage(rank_, chunk), stages = placed_.stages();
  torch::Tensor x;
  if (stage == 0) {
    Tensors pictures;
    for (const auto& picture : inputs.items.at(kImage)) pictures.push_back(picture.at(0));
    x = backbone_->embed(data.tokens.to(options_.device()),
                         pictures.empty() ? torch::Tensor() : torch::stack(pictures),
                         to_vector(data.picture_rows), data::kPicture);
  } else {
    x = inputs.values.at(0);
  }
  for (int64_t layer : layers_of_stage(config_.backbone.layers, stage, stages)) x = backbone_->run(layer, x);
  if (stage + 1 < stages) return {{x}, {}, {}};
  auto states = backbone_->states(x);
  return {{}, text_loss(states, data.labels), {{}, target_texts(states, data)}};
}

// The states of the masked positions, target by target.
std::vector<Tensors> Multimodal::target_texts(const torch::Tensor& states, const data::Microbatch& data) {
  std::vector<Tensors> texts;
  if (!data.has_targets()) return texts;
  auto every = [&](const torch::Tensor& rows) { return rows.slice(0, 0, rows.size(0), data.draws); };
  auto mask = every(data.target_mask), at = mask.nonzero();
  auto positions =
      every(data.target_rows).index_select(0, at.select(1, 0)) * states.size(1) + at.select(1, 1);
  auto masked = states.flatten(0, 1).index_select(0, positions.to(options_.device()));
  for (auto& text : masked.split_with_sizes(to_vector(mask.sum(1)))) texts.push_back({text});
  return texts;
}

// Only positions with a label go through the head. The sum over them, divided by the labels of the whole
// step.
torch::Tensor Multimodal::text_loss(const torch::Tensor& states, const torch::Tensor& labels) {
  auto flat = labels.to(options_.device()).flatten();
  auto counted = flat.ne(kNoLabel).nonzero().flatten();
  if (counted.numel() == 0) return {};
  auto logits = backbone_->logits(states.flatten(0, 1).index_select(0, counted));
  auto sum = torch::nn::functional::cross_entropy(
      logits, flat.index_select(0, counted),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  return sum / double(batch_->valid_tokens);
}

torch::Tensor Multimodal::generate(int, std::span<const ModelItem> items,
                                   const std::vector<Tensors>& inputs) {
  Tensors targets, noise, times, texts;
  std::vector<int64_t> lengths;
  int64_t draws = config_.batch.draws;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& data = batch_->microbatches.at(size_t(items[i].microbatch));
    auto rows = [&](const torch::Tensor& all) { return all.narrow(0, items[i].number * draws, draws); };
    targets.push_back(rows(data.targets));
    noise.push_back(rows(data.noise));
    times.push_back(rows(data.times));
    texts.push_back(inputs[i].at(0));
    lengths.push_back(texts.back().size(0));
  }
  auto text = torch::nn::utils::rnn::pad_sequence(texts, /*batch_first=*/true);
  auto mask = torch::arange(text.size(1)) < torch::tensor(lengths).unsqueeze(1);
  auto sum = nn::rectified_flow_loss(generator_, real(torch::cat(targets)), real(torch::cat(noise)),
                                     real(torch::cat(times)), text.repeat_interleave(draws, 0),
                                     mask.to(options_.device()).repeat_interleave(draws, 0));
  return sum * (config_.generator_weight / double(batch_->target_values));
}

NamedParameters Multimodal::parameters() const {
  NamedParameters all;
  auto add = [&](const torch::nn::Module& module, const std::string& prefix) {
    for (const auto& item : module.named_parameters()) all.emplace_back(prefix + item.key(), item.value());
  };
  add(*encoder_, "encoder.");
  add(*backbone_, "backbone.");
  add(*generator_, "generator.");
  return all;
}

}  // namespace bigmac::train
