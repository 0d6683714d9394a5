#pragma once

#include "bigmac/runtime/gradients.h"
#include "bigmac/runtime/model.h"
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

  Tensors encode(int microbatch) override;
  Output forward(int chunk, int microbatch, const Tensors& inputs) override;
  torch::Tensor generate(int microbatch, const Tensors& inputs) override;

  // "encoder.*", "backbone.*", "generator.*"
  NamedParameters parameters() const;

  nn::VisionEncoder& encoder() { return encoder_; }
  nn::Decoder& backbone() { return backbone_; }
  nn::DiffusionTransformer& generator() { return generator_; }
  torch::TensorOptions options() const { return options_; }

 private:
  torch::Tensor real(const torch::Tensor& values) const { return values.to(options_); }
  torch::Tensor text_loss(const torch::Tensor& states, const torch::Tensor& labels);

  Config config_;
  int rank_;
  torch::TensorOptions options_;
  nn::VisionEncoder encoder_;
  nn::Decoder backbone_;
  nn::DiffusionTransformer generator_;
  const data::Batch* batch_ = nullptr;
};

}  // namespace bigmac::train
