#pragma once

#include <torch/nn/functional/loss.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/nn/utils/rnn.h>
#include <torch/optim/adamw.h>

#include <memory>
#include <vector>

#include "bigmac/data/text.h"
#include "bigmac/demo/config.h"
#include "bigmac/nn/initialise.h"
#include "bigmac/system/values.h"

namespace bigmac {

// How one would train the demo's model on one device without bigmac's interface: the same modules, called one
// behind the other, microbatch by microbatch. In float32 on the CPU.
class HandWrittenLoop {
 public:
  explicit HandWrittenLoop(const demo::Config& config)
      : config_(config),
        vision_(config.encoder),
        embedding_(config.backbone.vocabulary, config.backbone.hidden),
        head_(config.backbone.hidden, config.backbone.vocabulary),
        drawing_(config.generator) {
    add("vision.", *vision_);
    add("llm.embedding.", *embedding_);
    for (int64_t i = 0; i < config.backbone.layers; ++i) {
      layers_.emplace_back(config.backbone);
      add(concat("llm.layers.", i, "."), *layers_.back());
    }
    add("llm.head.", *head_);
    add("drawing.", *drawing_);
    Tensors matrices, others;
    for (const auto& parameter : parameters_) (parameter.dim() >= 2 ? matrices : others).push_back(parameter);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(matrices, options(config.options.optimizer.weight_decay));
    groups.emplace_back(others, options(0));
    adam_ = std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions());
  }

  double train_step(const std::vector<Values>& samples, int64_t step) {
    adam_->zero_grad();
    double labels = 0, targets = 0;
    for (const auto& sample : samples) {
      labels += sample["labels"].ne(data::kNoLabel).sum().item<double>();
      targets += double(sample.count("target"));
    }
    double values =
        targets * double(config_.batch.draws * 3 * config_.encoder.picture * config_.encoder.picture);
    Tensors losses;
    auto size = size_t(config_.batch.samples);
    for (size_t at = 0; at < samples.size(); at += size) {
      losses.push_back(microbatch({samples.data() + at, size}, labels, values));
      losses.back().backward();
      losses.back() = losses.back().detach();
    }
    const auto& o = config_.options.optimizer;
    torch::nn::utils::clip_grad_norm_(parameters_, o.clip_norm);
    for (auto& group : adam_->param_groups())
      static_cast<torch::optim::AdamWOptions&>(group.options())
          .lr(train::learning_rate(o, step, config_.options.steps));
    adam_->step();
    return torch::stack(losses).sum().item<double>();
  }

 private:
  void add(const std::string& prefix, torch::nn::Module& module) {
    nn::initialise(module, config_.options.seed, prefix);
    for (const auto& item : module.named_parameters())
      if (prefix + item.key() != "llm.head.weight") parameters_.push_back(item.value());  // it is tied
  }

  std::unique_ptr<torch::optim::AdamWOptions> options(double decay) const {
    const auto& o = config_.options.optimizer;
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions(o.learning_rate).betas({o.beta1, o.beta2}).eps(o.eps).weight_decay(decay));
  }

  torch::Tensor microbatch(std::span<const Values> samples, double labels_of_step, double values_of_step) {
    Tensors texts, labels, pictures, targets, noise, times;
    for (const auto& sample : samples) {
      texts.push_back(sample["tokens"]);
      labels.push_back(sample["labels"]);
      if (sample.has("pixels")) pictures.push_back(sample.item("pixels", 0));
    }
    auto tokens = nn::pad_tokens(texts, data::kPad).tokens;
    nn::SampleItems items(samples.size());
    if (!pictures.empty()) {
      auto seen = vision_->forward(torch::stack(pictures)).unbind();
      for (size_t i = 0, next = 0; i < samples.size(); ++i)
        if (samples[i].has("pixels")) items[i].push_back(seen[next++]);
    }
    auto x = nn::scatter_items(embedding_->forward(tokens), tokens, items, data::kPicture);
    for (auto& layer : layers_) x = layer->forward(x);
    auto states = head_->states(x);
    auto loss = torch::zeros({});
    auto flat = torch::nn::utils::rnn::pad_sequence(labels, true, double(data::kNoLabel)).flatten();
    auto counted = flat.ne(data::kNoLabel).nonzero().flatten();
    if (counted.numel() > 0) {
      auto logits = torch::matmul(states.flatten(0, 1).index_select(0, counted), embedding_->weight.t());
      loss = torch::nn::functional::cross_entropy(
                 logits, flat.index_select(0, counted),
                 torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum)) /
             labels_of_step;
    }
    Tensors drawn;
    std::vector<int64_t> lengths;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (!samples[i].has("target")) continue;
      lengths.push_back(texts[i].size(0) - 1);
      drawn.push_back(states[int64_t(i)].slice(0, 1, texts[i].size(0)));
      targets.push_back(samples[i].item("target", 0));
      noise.push_back(samples[i].item("noise", 0));
      times.push_back(samples[i]["times"]);
    }
    if (drawn.empty()) return loss;
    auto text = torch::nn::utils::rnn::pad_sequence(drawn, true);
    auto mask = torch::arange(text.size(1)) < torch::tensor(lengths).unsqueeze(1);
    auto draws = config_.batch.draws;
    return loss + nn::rectified_flow_loss(
                      *drawing_, torch::stack(targets).repeat_interleave(draws, 0), torch::cat(noise),
                      torch::cat(times), text.repeat_interleave(draws, 0), mask.repeat_interleave(draws, 0)) *
                      (config_.drawing_weight / values_of_step);
  }

  demo::Config config_;
  nn::VisionEncoder vision_;
  torch::nn::Embedding embedding_;
  std::vector<nn::DecoderLayer> layers_;
  nn::DecoderHead head_;
  nn::DiffusionTransformer drawing_;
  Tensors parameters_;
  std::unique_ptr<torch::optim::AdamW> adam_;
};

}  // namespace bigmac
