#include "bigmac/emulate/emulated_model.h"

#include <sys/prctl.h>
#include <torch/autograd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "bigmac/schedule/dependencies.h"

namespace bigmac {
namespace {

// Wakes in time: a thread's timers are otherwise rounded up by 50 us.
void pass(double seconds) {
  if (seconds <= 0) return;
  auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  std::this_thread::sleep_until(until);
}

// Takes its time forwards and backwards, and keeps bytes in between.
struct Passing : torch::autograd::Function<Passing> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               double forwards, double backwards, int64_t kept) {
    context->saved_data["seconds"] = backwards;
    if (kept > 0) context->saved_data["kept"] = torch::empty({kept}, x.options().dtype(torch::kUInt8));
    pass(forwards);
    return x.clone();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    pass(context->saved_data["seconds"].toDouble());
    return {gradients[0], torch::Tensor(), torch::Tensor(), torch::Tensor()};
  }
};

double of_list(const std::vector<double>& list, size_t n) {
  return list.empty() ? 0 : list[list.size() == 1 ? 0 : n];
}

bool has_trained_encoder(const Step& step) {
  return std::any_of(step.modules.begin(), step.modules.end(), [](const auto& module) {
    return module.kind == Module::encoder && module.trained && !module.items.empty();
  });
}

}  // namespace

EmulatedModel::EmulatedModel(const Schedule& schedule, const Emulation& emulation, int rank)
    : schedule_(schedule),
      emulation_(emulation),
      durations_(schedule, emulation.costs),
      rank_(rank),
      stages_(schedule.step.stages()),
      weight_(torch::zeros({1}, torch::requires_grad())) {
  Dependencies dependencies(schedule);
  for (int chunk = 0; chunk < schedule.step.chunks; ++chunk)
    stage_of_chunk_.push_back(dependencies.stage(rank, chunk));
  const auto& step = schedule.step;
  for (const auto& module : step.modules) {
    auto& sizes = sizes_.emplace_back();
    std::map<int, int> numbers;
    for (const auto& item : module.items) {
      int microbatch = int(step.declared(item.microbatch));
      sizes[{microbatch, numbers[microbatch]++}] = double(item.size);
    }
  }
}

double EmulatedModel::seconds_of(Phase phase, int chunk) const {
  return durations_(rank_, backbone(phase, int16_t(chunk), 0)) * emulation_.seconds;
}

double EmulatedModel::size_of(int module, std::span<const ModelItem> items) const {
  double size = 0;
  for (const auto& item : items) size += sizes_.at(size_t(module)).at({item.microbatch, item.number});
  return size;
}

// As many bytes as are handed over, whose gradient reaches `from`.
torch::Tensor EmulatedModel::values(double bytes, const torch::Tensor& from) const {
  auto count = std::max<int64_t>(1, int64_t(bytes * emulation_.scale / 4));
  return from.expand({count}).contiguous();
}

std::vector<Bundle> EmulatedModel::encode(int module, std::span<const ModelItem> items) {
  auto n = size_t(module);
  auto cost = costs_of_module(schedule_.step, emulation_.costs, n);
  double size = size_of(module, items), seconds = size * emulation_.seconds;
  auto kept = int64_t(of_list(emulation_.bytes.item, n) * size * emulation_.scale);
  auto made = Passing::apply(weight_, cost.forward * seconds, cost.backward * seconds, kept);
  std::vector<Bundle> bundles;
  for (const auto& item : items) {
    std::vector<ModelItem> one{item};
    bundles.push_back(Bundle{values(of_list(emulation_.links.item_bytes, n) * size_of(module, one), made)});
  }
  return bundles;
}

Model::Output EmulatedModel::forward(int chunk, int microbatch, const Inputs& inputs) {
  int64_t stage = stage_of_chunk_.at(size_t(chunk));
  auto input = weight_;
  auto take = [&](const Bundle& bundle) {
    for (const auto& tensor : bundle.tensors) input = input + tensor.mean();
  };
  take(inputs.values);
  for (const auto& items : inputs.items)
    for (const auto& bundle : items) take(bundle);
  bool owed = stage > 0 || input.grad_fn() != nullptr;
  double weights = seconds_of(Phase::weight, chunk), inputs_part = seconds_of(Phase::input, chunk);
  auto kept = int64_t(of_list(emulation_.bytes.stage, size_t(stage)) * emulation_.scale);
  auto made = Passing::apply(input, seconds_of(Phase::forward, chunk), owed ? inputs_part : 0.0, kept) +
              Passing::apply(weight_, 0.0, owed ? weights : weights + inputs_part, int64_t{0});
  Output output;
  if (stage + 1 < stages_) {
    output.values = Bundle{values(emulation_.links.stage_bytes, made)};
    return output;
  }
  output.loss = made.sum();
  output.items.resize(sizes_.size());
  for (size_t n = 0; n < sizes_.size(); ++n) {
    if (schedule_.step.modules[n].kind != Module::generator) continue;
    for (int number = 0; sizes_[n].contains({microbatch, number}); ++number)
      output.items[n].push_back(
          Bundle{values(of_list(emulation_.links.item_bytes, n) * sizes_[n].at({microbatch, number}), made)});
  }
  return output;
}

torch::Tensor EmulatedModel::generate(int module, std::span<const ModelItem> items,
                                      const std::vector<Bundle>& inputs) {
  auto n = size_t(module);
  auto cost = costs_of_module(schedule_.step, emulation_.costs, n);
  double size = size_of(module, items), seconds = size * emulation_.seconds;
  auto input = weight_;
  for (const auto& bundle : inputs)
    for (const auto& tensor : bundle.tensors) input = input + tensor.mean();
  auto kept = int64_t(of_list(emulation_.bytes.item, n) * size * emulation_.scale);
  return Passing::apply(input, cost.forward * seconds, cost.backward * seconds, kept).sum();
}

Costs as_emulated(const Step& step, const Emulation& emulation) {
  Costs costs = emulation.costs;
  auto scale = [&](std::vector<double>& list) {
    for (double& time : list) time *= emulation.seconds;
  };
  scale(costs.forward);
  scale(costs.backward);
  scale(costs.weight);
  for (auto& module : costs.modules) {
    module.forward *= emulation.seconds;
    module.backward *= emulation.seconds;
  }
  costs.latency = 0;
  if (!step.splits_backward() || has_trained_encoder(step)) return costs;
  auto stages = size_t(step.stages());
  std::vector<double> weight(stages);
  for (size_t s = 0; s < stages; ++s)
    weight[s] = s == 0 ? of_list(costs.backward, 0)
                       : (costs.weight.empty() ? of_list(costs.backward, s) / 2 : of_list(costs.weight, s));
  costs.weight = std::move(weight);
  return costs;
}

}  // namespace bigmac
