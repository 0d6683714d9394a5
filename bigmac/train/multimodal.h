#pragma once

#include "bigmac/runtime/gradients.h"
#include "bigmac/runtime/model.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/train/config.h"

namespace bigmac::train {

// Which layers stage s of S holds: as even as whole layers allow, every layer once.
std::vector<int64_t> layers_of_stage(int64_t layers, int64_t stage, int64_t stages);

// The configured device; of several GPUs ("cuda" without a number) the one with this rank's number on its
// host. Throws InvalidInput where libtorch finds no such device.
torch::Device device_of(const Config& config, int rank);

// One rank's part of the encoder + decoder + generator model: the encoder and the generator whole, of the
// decoder the layers of this rank's stages. Parameters start from `seed` by global name, so any cut starts
// alike.
class Multimodal : public Model {
 public:
  Multimodal(const Config& config, int rank);

  // Binds the step's batch; it must outlive the step.
  void set_batch(const data::Batch& batch) { batch_ = &batch; }

  // A picture's tokens [T, hidden]; all pictures of the call in one batch.
  std::vector<Tensors> encode(int module, std::span<const ModelItem> items) override;
  // A target takes the states of its text [its tokens, hidden].
  Output forward(int chunk, int microbatch, const Inputs& inputs) override;
  // All targets and draws of the call in one batch, shorter texts padded and masked.
  torch::Tensor generate(int module, std::span<const ModelItem> items,
                         const std::vector<Tensors>& inputs) override;

  // "encoder.*", "backbone.*", "generator.*"
  NamedParameters parameters() const;

  nn::VisionEncoder& encoder() { return encoder_; }
  nn::Decoder& backbone() { return backbone_; }
  nn::DiffusionTransformer& generator() { return generator_; }
  torch::TensorOptions options() const { return options_; }

 private:
  torch::Tensor real(const torch::Tensor& values) const { return values.to(options_); }
  torch::Tensor text_loss(const torch::Tensor& states, const torch::Tensor& labels);
  std::vector<Tensors> target_texts(const torch::Tensor& states, const data::Microbatch& data);

  Config config_;
  int rank_;
  Dependencies placed_;  // which stages this rank holds
  torch::TensorOptions options_;
  nn::VisionEncoder encoder_;
  nn::Decoder backbone_;
  nn::DiffusionTransformer generator_;
  const data::Batch* batch_ = nullptr;
};

}  // namespace bigmac::train
