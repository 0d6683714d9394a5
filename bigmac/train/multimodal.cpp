#include "bigmac/train/multimodal.h"

#include <torch/torch.h>

#include <cstdlib>

#include "bigmac/data/text.h"
#include "bigmac/nn/initialise.h"

namespace bigmac::train {
namespace {

constexpr int64_t kNoLabel = -100;

std::vector<int64_t> held_layers(const Config& config, int rank) {
  std::vector<int64_t> held;
  for (int64_t chunk = 0; chunk < config.vpp; ++chunk)
    for (int64_t layer :
         layers_of_stage(config.backbone.layers, chunk * config.pp + rank, config.pp * config.vpp))
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
      options_(torch::dtype(config.dtype == "float64" ? torch::kFloat64 : torch::kFloat32)
                   .device(device_of(config, rank))),
      encoder_(config.encoder),
      backbone_(config.backbone, held_layers(config, rank), rank == 0, rank == config.pp - 1),
      generator_(config.generator) {
  auto prepare = [&](torch::nn::Module& module, const char* prefix) {
    module.to(options_.device(), torch::typeMetaToScalarType(options_.dtype()));
    nn::initialise(module, config.seed, prefix);
  };
  prepare(*encoder_, "encoder.");
  prepare(*backbone_, "backbone.");
  prepare(*generator_, "generator.");
}

Tensors Multimodal::encode(int microbatch) {
  return {encoder_->forward(real(batch_->microbatches.at(microbatch).pictures))};
}

Model::Output Multimodal::forward(int chunk, int microbatch, const Tensors& inputs) {
  const auto& data = batch_->microbatches.at(microbatch);
  int64_t stage = chunk * config_.pp + rank_, stages = config_.pp * config_.vpp;
  torch::Tensor x;
  if (stage == 0)
    x = backbone_->embed(data.tokens.to(options_.device()), inputs.empty() ? torch::Tensor() : inputs[0],
                         to_vector(data.picture_rows), data::kPicture);
  else
    x = inputs.at(0);
  for (int64_t layer : layers_of_stage(config_.backbone.layers, stage, stages)) x = backbone_->run(layer, x);
  if (stage + 1 < stages) return {{x}, {}};
  auto states = backbone_->states(x);
  Output output{{}, text_loss(states, data.labels)};
  if (data.has_targets()) output.values = {states.index_select(0, data.target_rows.to(options_.device()))};
  return output;
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

torch::Tensor Multimodal::generate(int microbatch, const Tensors& inputs) {
  const auto& data = batch_->microbatches.at(microbatch);
  auto sum = nn::rectified_flow_loss(generator_, real(data.targets), real(data.noise), real(data.times),
                                     inputs.at(0), data.target_mask.to(options_.device()));
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
