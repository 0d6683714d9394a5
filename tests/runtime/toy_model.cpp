#include "tests/runtime/toy_model.h"

#include <torch/autograd.h>

#include <cmath>

#include "bigmac/runtime/gather.h"
#include "bigmac/schedule/nest.h"

namespace bigmac {
namespace {

constexpr int64_t kWidth = 4;

at::Generator generator_of(uint64_t seed) {
  return at::detail::createCPUGenerator(seed);
}

torch::Tensor matrix(uint64_t seed) {
  return torch::randn({kWidth, kWidth}, generator_of(seed), torch::dtype(torch::kFloat64)) / 2;
}

torch::Tensor data(int microbatch, uint64_t seed) {
  return torch::randn({1 + microbatch * 7 % 5, kWidth}, generator_of(seed + 100 * uint64_t(microbatch)),
                      torch::dtype(torch::kFloat64));
}

}  // namespace

ToyModel::ToyModel(const ToyOptions& options, int rank) : options_(options), rank_(rank) {
  for (int64_t stage = 0; stage < options.step.stages(); ++stage)
    stages_.push_back(matrix(options.seed + 10 + uint64_t(stage)).requires_grad_());
  encoder_ = matrix(options.seed + 1).requires_grad_(options.trained_encoder);
  generator_ = matrix(options.seed + 2).requires_grad_();
  first_ = matrix(options.seed + 3).requires_grad_();
}

torch::Tensor ToyModel::watched(torch::Tensor value, const Operator& backward) {
  if (value.requires_grad())
    value.register_hook([this, backward](torch::Tensor gradient) { on_operator(backward); });
  return value;
}

Tensors ToyModel::encode(int microbatch) {
  on_operator(encoder_forward(microbatch));
  auto value = torch::tanh(data(microbatch, options_.seed + 1000).matmul(encoder_));
  auto mask = torch::arange(value.size(0)).remainder(2).eq(0).to(torch::kInt64);
  return {watched(value, encoder_backward(microbatch)), mask, torch::full({1}, 0.5f)};
}

Model::Output ToyModel::forward(int chunk, int microbatch, const Tensors& inputs) {
  on_operator(backbone_forward(chunk, microbatch));
  int64_t stage = chunk * options_.step.ranks + rank_;
  torch::Tensor value, single, mask, constant;
  if (stage == 0) {
    value = torch::tanh(data(microbatch, options_.seed + 2000).matmul(first_));
    single = value.sum(0).to(torch::kFloat32);
    mask = torch::arange(value.size(0)).remainder(3).ne(0).to(torch::kInt64);
    constant = torch::full({1}, 0.25f);
    if (!inputs.empty()) {
      value = value + inputs.at(0) * inputs.at(1).unsqueeze(1);
      constant = inputs.at(2);
    }
  } else {
    value = inputs.at(0);
    single = inputs.at(1);
    mask = inputs.at(2);
    constant = inputs.at(3);
  }
  value = torch::tanh(value.matmul(stages_.at(size_t(stage)))) + single.to(torch::kFloat64) * constant +
          value * mask.unsqueeze(1);
  value = watched(value, backbone_backward(chunk, microbatch));
  single = torch::sin(value.sum(0)).to(torch::kFloat32);
  if (stage + 1 < options_.step.stages()) return {{value, single, mask, constant}, {}};
  Output output;
  if (every_loss || microbatch % 3 != 1)
    output.loss = value.square().sum() / double(options_.step.microbatches);
  if (options_.step.has_generator() && options_.step.generator.at(size_t(microbatch)))
    output.values = {value.slice(0, 0, 1 + value.size(0) / 2), mask, single};
  return output;
}

torch::Tensor ToyModel::generate(int microbatch, const Tensors& inputs) {
  on_operator(bigmac::generate(microbatch));
  auto got = inputs.at(0).matmul(generator_) + inputs.at(2).to(torch::kFloat64) * inputs.at(1).sum();
  return (got - 1).square().sum() / double(options_.step.microbatches);
}

NamedParameters ToyModel::parameters() const {
  NamedParameters all{{"encoder", encoder_}, {"generator", generator_}};
  if (rank_ == 0) all.emplace_back("first", first_);
  for (int64_t stage = rank_; stage < options_.step.stages(); stage += options_.step.ranks)
    all.emplace_back("stage" + std::to_string(stage), stages_[size_t(stage)]);
  return all;
}

ToyResult run_plainly(const ToyOptions& options) {
  ToyOptions one = options;
  one.step.chunks = options.step.stages();
  one.step.ranks = 1;
  ToyModel model(one, 0);
  ToyResult result;
  bool nests = options.step.arrangement != Arrangement::llm_only;
  for (int m = 0; m < options.step.microbatches; ++m) {
    Tensors values;
    if (nests && options.step.has_encoder() && options.step.encoder[size_t(m)]) values = model.encode(m);
    torch::Tensor total = torch::zeros({}, torch::dtype(torch::kFloat64).requires_grad(true));
    for (int stage = 0; stage < one.step.chunks; ++stage) {
      auto output = model.forward(stage, m, values);
      values = output.values;
      if (!output.loss.defined()) continue;
      result.backbone_loss += output.loss.item<double>();
      total = total + output.loss;
    }
    if (nests && options.step.has_generator() && options.step.generator[size_t(m)]) {
      auto loss = model.generate(m, values);
      result.generator_loss += loss.item<double>();
      total = total + loss;
    }
    total.backward();
  }
  for (const auto& [name, parameter] : model.parameters())
    if (parameter.requires_grad())
      result.gradients[name] = parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter);
  return result;
}

ToyResult run_rank(const ToyOptions& options, Transport& transport) {
  ToyModel model(options, transport.rank());
  SharedGradients gradients(transport, model.parameters());
  auto schedule = make_schedule(options.step);
  auto step = Executor(schedule, transport).run(model);
  gradients.sum();
  auto losses = torch::tensor({step.backbone_loss, step.generator_loss}, torch::kFloat64);
  transport.all_reduce(losses);
  NamedParameters own;
  for (const auto& [name, parameter] : gradients.owned())
    if (parameter.requires_grad()) own.emplace_back(name, parameter.grad());
  return {losses[0].item<double>(), losses[1].item<double>(), gather_named(transport, own)};
}

double distance(const ToyResult& a, const ToyResult& b) {
  double most = std::max(std::abs(a.backbone_loss - b.backbone_loss) / std::max(1.0, b.backbone_loss),
                         std::abs(a.generator_loss - b.generator_loss) / std::max(1.0, b.generator_loss));
  if (a.gradients.size() != b.gradients.size()) return INFINITY;
  for (const auto& [name, value] : b.gradients) {
    auto found = a.gradients.find(name);
    if (found == a.gradients.end()) return INFINITY;
    double scale = std::max(1.0, value.abs().max().item<double>());
    double off = (found->second - value).abs().max().item<double>() / scale;
    if (!(off <= most)) most = off;
  }
  return most;
}

Step toy_step(int ranks, int chunks, int64_t microbatches, Arrangement arrangement) {
  Step step;
  step.ranks = ranks;
  step.chunks = chunks;
  step.microbatches = microbatches;
  step.base = chunks == 1 ? Base::one_f_one_b : Base::interleaved;
  step.arrangement = arrangement;
  if (arrangement == Arrangement::llm_only) return step;
  for (int64_t m = 0; m < microbatches; ++m) {
    step.encoder.push_back(m % 4 != 2);
    step.generator.push_back(m % 5 != 3);
  }
  return step;
}

}  // namespace bigmac
