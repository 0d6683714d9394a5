#include <torch/torch.h>

#include <cmath>

#include "bigmac/runtime/threads_transport.h"
#include "bigmac/system/batch.h"
#include "bigmac/system/part.h"
#include "tests/train/systems.h"

namespace bigmac::train {
namespace {

// Every module of a system on one device.
class PlainModel {
 public:
  PlainModel(const System& system, const TrainOptions& options) : system_(system) {
    Precision precision{torch::kCPU, dtype_from_name(options.dtype)};
    dtype_ = precision.dtype;
    for (const auto& module : system.modules())
      add(make_part(system, module.name + ".", module.make, options.seed, precision));
    for (const auto* layer : system.backbone().all())
      add(make_part(system, system.backbone().name + "." + layer->name + ".", layer->make, options.seed,
                    precision));
    for (const auto& tie : system.backbone().ties) {
      auto name = system.backbone().name + ".";
      parameters_.at(name + tie.parameter).set_data(parameters_.at(name + tie.to));
      tied_[name + tie.parameter] = name + tie.to;
    }
    for (auto& [name, parameter] : parameters_)
      parameter.requires_grad_(parameter.requires_grad() &&
                               options.trained(tied_.contains(name) ? tied_.at(name) : name));
  }

  // The loss of one microbatch.
  torch::Tensor loss(const std::vector<Values>& samples, const Batch& counts) {
    auto total = torch::zeros({}, torch::dtype(dtype_).requires_grad(true));
    auto add_loss = [&](const std::string& name, const torch::Tensor& sum) {
      for (size_t l = 0; l < system_.losses().size(); ++l)
        if (system_.losses()[l].name == name) total = total + sum * counts.scale(l);
    };
    std::vector<Values> inputs;
    for (const auto& sample : samples) inputs.push_back(real(sample));
    for (size_t n = 0; n < system_.modules().size(); ++n) {
      const auto& module = system_.modules()[n];
      if (module.kind != Module::encoder) continue;
      for (size_t i = 0; i < samples.size(); ++i) {
        std::map<std::string, Tensors> made;
        for (const auto& port : module.produces) made[port.name];
        auto count = samples[i].count(module.consumes[0].name);
        for (size_t k = 0; k < count; ++k) {
          std::vector<Values> item{real(item_data(system_, module, samples[i], int(k)))};
          auto values = module.encode(*modules_.at(module.name + "."), item).at(0);
          for (const auto& name : values.names())
            for (const auto& tensor : values.group(name)) made[name].push_back(tensor);
        }
        for (auto& [name, group] : made) inputs[i].set(name, group);
      }
    }
    Flow flow;
    std::vector<Values> out(samples.size());
    for (const auto* layer : system_.backbone().all())
      layer->run(*modules_.at(system_.backbone().name + "." + layer->name + "."), inputs, flow, out);
    for (const auto& [name, sum] : flow.losses()) add_loss(name, sum);
    for (const auto& module : system_.modules()) {
      if (module.kind != Module::generator) continue;
      for (size_t i = 0; i < samples.size(); ++i)
        for (size_t k = 0; k < samples[i].count(module.consumes[1].name); ++k) {
          std::vector<Values> item{real(item_data(system_, module, samples[i], int(k)))};
          item[0].set("states", out[i]["states"]);
          add_loss(module.name, module.generate(*modules_.at(module.name + "."), item));
        }
    }
    return total;
  }

  std::map<std::string, torch::Tensor> gradients() const {
    std::map<std::string, torch::Tensor> all;
    for (const auto& [name, parameter] : parameters_) {
      if (!parameter.requires_grad()) continue;
      auto gradient = parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter);
      auto& sum = all[tied_.contains(name) ? tied_.at(name) : name];
      sum = sum.defined() ? sum + gradient : gradient;
    }
    return all;
  }

 private:
  void add(const PartModule& part) {
    modules_[part.prefix] = part.module;
    for (const auto& item : part.module->named_parameters())
      parameters_[part.prefix + item.key()] = item.value();
  }
  Values real(const Values& values) const {
    Values converted;
    for (const auto& name : values.names()) {
      Tensors group;
      for (const auto& tensor : values.group(name))
        group.push_back(tensor.is_floating_point() ? tensor.to(dtype_) : tensor);
      converted.set(name, group);
    }
    return converted;
  }

  const System& system_;
  torch::ScalarType dtype_;
  std::map<std::string, std::shared_ptr<torch::nn::Module>> modules_;
  std::map<std::string, torch::Tensor> parameters_;
  std::map<std::string, std::string> tied_;
};

}  // namespace

PlainResult run_plainly(const System& system, std::vector<Values> samples, const TrainOptions& options) {
  PlainModel model(system, options);
  Batch batch(system, std::move(samples), options.microbatches * options.dp);
  PlainResult result;
  for (int m = 0; m < int(batch.microbatches()); ++m) {
    auto loss = model.loss(batch.microbatch(m), batch);
    result.loss += loss.item<double>();
    loss.backward();
  }
  result.gradients = model.gradients();
  return result;
}

Result run_in_threads(const System& system, const Batches& batches, const TrainOptions& options) {
  Result result;
  run_threads(int(options.ranks()), [&](Transport& world) {
    at::set_num_threads(1);
    Trainer trainer(system, batches, options, world);
    auto figures = trainer.compute_gradients(0);
    auto gradients = trainer.gather_gradients();
    if (world.rank() == 0) result = {figures, std::move(gradients)};
  });
  return result;
}

Distance distance(const std::map<std::string, torch::Tensor>& a,
                  const std::map<std::string, torch::Tensor>& b) {
  Distance far{0, "nothing"};
  for (const auto* lists : {&a, &b})
    for (const auto& [name, tensor] : *lists)
      if (!a.contains(name) || !b.contains(name)) return {INFINITY, name + " (only one has it)"};
  for (const auto& [name, expected] : b) {
    double scale = std::max(expected.abs().max().item<double>(), 1e-6);
    double off = (a.at(name) - expected).abs().max().item<double>() / scale;
    if (!(off <= far.most)) far = {off, name};
  }
  return far;
}

}  // namespace bigmac::train
