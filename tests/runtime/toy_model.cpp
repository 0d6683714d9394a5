#include "tests/runtime/toy_model.h"

#include <torch/autograd.h>

#include <cmath>

#include "bigmac/runtime/gather.h"
#include "bigmac/schedule/make.h"
#include "bigmac/schedule/order.h"

namespace bigmac {
namespace {

constexpr int64_t kWidth = 4;

at::Generator generator_of(uint64_t seed) {
  return at::detail::createCPUGenerator(seed);
}

torch::Tensor matrix(uint64_t seed) {
  return torch::randn({kWidth, kWidth}, generator_of(seed), torch::dtype(torch::kFloat64)) / 2;
}

torch::Tensor data(int64_t rows, uint64_t seed) {
  return torch::randn({rows, kWidth}, generator_of(seed), torch::dtype(torch::kFloat64));
}

// A number for each module and item, so that none can be taken for another.
double weight_of(size_t module, size_t number) {
  return 1 + 0.3 * double(module) - 0.2 * double(number);
}

}  // namespace

Schedule toy_schedule(const ToyOptions& options) {
  return make_schedule(options.order.empty() ? options.step : reordered(options.step, options.order));
}

ToyModel::ToyModel(const ToyOptions& options, const Step& placed, int rank)
    : options_(options), placed_(placed, {}), rank_(rank) {
  for (int64_t stage = 0; stage < placed_.stages(); ++stage)
    stages_.push_back(matrix(options.seed + 100 + uint64_t(stage)).requires_grad_());
  for (size_t n = 0; n < options.step.modules.size(); ++n) {
    const auto& module = options.step.modules[n];
    bool trained = module.kind == Module::generator || options.trained_encoders;
    modules_.push_back(matrix(options.seed + 10 + n).requires_grad_(trained));
    counts_.emplace_back(size_t(options.step.microbatches), 0);
    if (options.step.arrangement != Arrangement::llm_only)
      for (const auto& item : module.items) ++counts_[n][item.microbatch];
  }
  first_ = matrix(options.seed + 3).requires_grad_();
}

torch::Tensor ToyModel::watched(torch::Tensor value, ToyCall call) {
  call.phase = Phase::backward;
  if (value.requires_grad()) value.register_hook([this, call](torch::Tensor gradient) { on_call(call); });
  return value;
}

std::vector<Bundle> ToyModel::encode(int module, std::span<const ModelItem> items) {
  ToyCall call{Module::encoder, Phase::forward, module, {items.begin(), items.end()}};
  on_call(call);
  auto weight = watched(modules_.at(size_t(module)) * 1.0, call);
  std::vector<Bundle> values;
  for (const auto& [microbatch, number] : items) {
    uint64_t seed = options_.seed + 1000 + uint64_t(10000 * module + 100 * number + 1000000 * microbatch);
    auto value = torch::tanh(data(1 + (microbatch + 2 * number) % 4, seed).matmul(weight));
    auto mask = torch::arange(value.size(0)).remainder(2).eq(0).to(torch::kInt64);
    values.push_back({value, mask, torch::full({1}, 0.5f)});
  }
  return values;
}

Model::Output ToyModel::forward(int chunk, int microbatch, const Inputs& inputs) {
  ToyCall call{Module::backbone, Phase::forward, chunk, {{microbatch, 0}}};
  on_call(call);
  int64_t stage = placed_.stage(rank_, chunk);
  torch::Tensor value, single, mask, constant;
  if (stage == 0) {
    int64_t rows = 1 + microbatch * 7 % 5;
    value = torch::tanh(data(rows, options_.seed + 2000 + 100 * uint64_t(microbatch)).matmul(first_));
    single = value.sum(0).to(torch::kFloat32);
    mask = torch::arange(value.size(0)).remainder(3).ne(0).to(torch::kInt64);
    constant = torch::full({1}, 0.25f);
    for (size_t n = 0; n < inputs.items.size(); ++n)
      for (size_t i = 0; i < inputs.items[n].size(); ++i) {
        const auto& item = inputs.items[n][i];
        value = value + weight_of(n, i) * (item.at(0) * item.at(1).unsqueeze(1)).sum(0);
        constant = constant + item.at(2);
      }
  } else {
    value = inputs.values.at(0);
    single = inputs.values.at(1);
    mask = inputs.values.at(2);
    constant = inputs.values.at(3);
  }
  value = torch::tanh(value.matmul(stages_.at(size_t(stage)))) + single.to(torch::kFloat64) * constant +
          value * mask.unsqueeze(1);
  value = watched(value, call);
  single = torch::sin(value.sum(0)).to(torch::kFloat32);
  if (stage + 1 < placed_.stages()) return {{value, single, mask, constant}, {}, {}};
  Output output;
  if (options_.every_loss || microbatch % 3 != 1)
    output.loss = value.square().sum() / double(options_.step.microbatches);
  output.items.resize(modules_.size());
  for (size_t n = 0; n < modules_.size(); ++n)
    for (int i = 0; i < counts_[n][size_t(microbatch)]; ++i)
      if (options_.step.modules[n].kind == Module::generator)
        output.items[n].push_back(
            {value.slice(0, 0, 1 + (value.size(0) + i) / 2) * weight_of(n, size_t(i)), mask, constant});
  return output;
}

torch::Tensor ToyModel::generate(int module, std::span<const ModelItem> items,
                                 const std::vector<Bundle>& inputs) {
  on_call({Module::generator, Phase::generate, module, {items.begin(), items.end()}});
  auto loss = torch::zeros({}, torch::kFloat64);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& input = inputs.at(i);
    auto got = input.at(0).matmul(modules_.at(size_t(module))) + input.at(2) * input.at(1).sum();
    loss = loss + (got - weight_of(size_t(items[i].microbatch), size_t(items[i].number))).square().sum();
  }
  return loss / double(options_.step.microbatches);
}

NamedParameters ToyModel::parameters() const {
  NamedParameters all;
  for (size_t n = 0; n < modules_.size(); ++n) all.emplace_back(options_.step.modules[n].name, modules_[n]);
  for (int64_t stage = 0; stage < placed_.stages(); ++stage) {
    if (placed_.rank_of(stage) != rank_) continue;
    if (stage == 0) all.emplace_back("first", first_);
    all.emplace_back("stage" + std::to_string(stage), stages_[size_t(stage)]);
  }
  return all;
}

ToyResult run_plainly(const ToyOptions& options) {
  Step whole;
  whole.chunks = toy_schedule(options).step.stages();
  whole.stage_ranks.assign(size_t(whole.chunks), 0);
  ToyModel model(options, whole, 0);
  ToyResult result;
  const auto& modules = options.step.modules;
  for (int m = 0; m < options.step.microbatches; ++m) {
    std::vector<std::vector<ModelItem>> items(modules.size());
    if (options.step.arrangement != Arrangement::llm_only)
      for (size_t n = 0; n < modules.size(); ++n)
        for (const auto& item : modules[n].items)
          if (int(item.microbatch) == m) items[n].push_back({m, int(items[n].size())});
    Model::Inputs inputs;
    inputs.items.resize(modules.size());
    for (size_t n = 0; n < modules.size(); ++n)
      if (modules[n].kind == Module::encoder && !items[n].empty())
        inputs.items[n] = model.encode(int(n), items[n]);
    auto total = torch::zeros({}, torch::dtype(torch::kFloat64).requires_grad(true));
    Model::Output output;
    for (int stage = 0; stage < whole.chunks; ++stage) {
      output = model.forward(stage, m, inputs);
      inputs = {output.values, {}};
    }
    if (output.loss.defined()) {
      result.backbone_loss += output.loss.item<double>();
      total = total + output.loss;
    }
    for (size_t n = 0; n < modules.size(); ++n) {
      if (modules[n].kind != Module::generator || items[n].empty()) continue;
      auto loss = model.generate(int(n), items[n], output.items[n]);
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
  auto schedule = toy_schedule(options);
  ToyModel model(options, schedule.step, transport.rank());
  SharedGradients gradients(transport, model.parameters());
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

Step toy_step(int64_t ranks, int64_t chunks, int64_t microbatches, Arrangement arrangement) {
  Step step;
  step.ranks = ranks;
  step.chunks = chunks;
  step.microbatches = microbatches;
  step.base = chunks == 1 ? Base::one_f_one_b : Base::interleaved;
  step.arrangement = arrangement;
  NestedModule image{"image", Module::encoder, {}}, audio{"audio", Module::encoder, {}};
  NestedModule drawing{"drawing", Module::generator, {}}, speech{"speech", Module::generator, {}};
  for (uint32_t m = 0; m < uint32_t(microbatches); ++m) {
    if (m % 2 == 0) {
      for (uint32_t i = 0; i < (m / 2 + 3) % 4; ++i) image.items.push_back({m, 1 + double((m + 3 * i) % 5)});
      if (m % 6 != 2) audio.items.push_back({m, 2});
    }
    if (m % 4 < 2) {
      for (uint32_t i = 0; i < 1 + m % 3; ++i) drawing.items.push_back({m, 1 + double((m + i) % 3)});
      if (m % 4 == 1) speech.items.push_back({m, 1});
    }
  }
  step.modules = {image, drawing, audio, speech};
  return step;
}

std::vector<uint32_t> toy_order(int64_t microbatches) {
  std::vector<uint32_t> order;
  for (uint32_t m = 0; m < uint32_t(microbatches); ++m) order.push_back(m);
  for (size_t i = 0; i + 1 < order.size(); ++i)
    std::swap(order[i], order[i + (i * 5 + 3) % (order.size() - i)]);
  return order;
}

}  // namespace bigmac
