#include "tests/demo/support.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "bigmac/data/text.h"
#include "bigmac/nn/initialise.h"

namespace bigmac::demo {

Config small_config(int64_t pp, int64_t vpp, int64_t microbatches, const std::string& dtype) {
  Config config;
  config.encoder = {.picture = 16,
                    .channels = 3,
                    .patch = 4,
                    .hidden = 16,
                    .layers = 1,
                    .heads = 2,
                    .ffn = 24,
                    .merge = 2,
                    .out = 24};
  config.backbone.hidden = 24;
  config.backbone.layers = 9;
  config.backbone.heads = 2;
  config.backbone.kv_heads = 1;
  config.backbone.head_dim = 12;
  config.backbone.ffn = 32;
  config.generator = {
      .picture = 16, .channels = 3, .patch = 4, .hidden = 16, .layers = 1, .heads = 2, .ffn = 24, .text = 24};
  config.options.pp = pp;
  config.options.vpp = vpp;
  config.options.microbatches = microbatches;
  config.batch.samples = 2;
  config.options.steps = 20;
  config.options.optimizer.warmup_steps = 4;
  config.options.seed = 7;
  config.options.dtype = dtype;
  config.complete();
  return config;
}

data::Dataset noise_dataset(int64_t pairs, int64_t side) {
  std::vector<data::Pair> list;
  for (int64_t i = 0; i < pairs; ++i)
    list.push_back(
        {"picture" + std::string(size_t(i % 7), 'x') + std::to_string(i), std::to_string(i), i % 10 == 9});
  auto generator = at::detail::createCPUGenerator(3);
  auto pictures = torch::randint(0, 256, {pairs, 3, side, side}, generator, torch::dtype(torch::kUInt8));
  return data::Dataset(std::move(list), pictures);
}

PlainLoop::PlainLoop(const Config& config)
    : config_(config),
      dtype_(train::dtype_from_name(config.options.dtype)),
      vision_(config.encoder),
      embedding_(config.backbone.vocabulary, config.backbone.hidden),
      head_(config.backbone.hidden, config.backbone.vocabulary),
      drawing_(config.generator) {
  add("vision.", *vision_);
  if (config.audio) {
    audio_ = nn::AudioEncoder(*config.audio);
    add("audio.", *audio_);
  }
  add("llm.embedding.", *embedding_);
  for (int64_t i = 0; i < config.backbone.layers; ++i) {
    layers_.emplace_back(config.backbone);
    add(concat("llm.layers.", i, "."), *layers_.back());
  }
  add("llm.head.", *head_);
  if (config.backbone.tied_embeddings) parameters_.erase("llm.head.weight");
  add("drawing.", *drawing_);
  std::vector<torch::Tensor> matrices, others;
  for (auto& [name, parameter] : parameters_) (parameter.dim() >= 2 ? matrices : others).push_back(parameter);
  const auto& o = config.options.optimizer;
  auto options = [&](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions(0).betas({o.beta1, o.beta2}).weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(matrices, options(o.weight_decay));
  groups.emplace_back(others, options(0));
  optimizer_ = std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions());
}

void PlainLoop::add(const std::string& prefix, torch::nn::Module& module) {
  module.to(dtype_);
  nn::initialise(module, config_.options.seed, prefix);
  for (const auto& item : module.named_parameters()) parameters_[prefix + item.key()] = item.value();
}

// Rows of the table, and of what the encoders make where the tokens say so, position by position.
torch::Tensor PlainLoop::embed(const std::vector<Values>& samples, const torch::Tensor& tokens) {
  std::vector<torch::Tensor> rows;
  for (size_t i = 0; i < samples.size(); ++i) {
    torch::Tensor picture, sound;
    if (samples[i].has("pixels")) picture = vision_->forward(real(samples[i]["pixels"]).unsqueeze(0))[0];
    if (samples[i].has("clip")) sound = audio_->forward({real(samples[i]["clip"])})[0];
    std::vector<torch::Tensor> row;
    int64_t seen = 0, heard = 0;
    for (int64_t t = 0; t < tokens.size(1); ++t) {
      int64_t token = tokens[int64_t(i)][t].item<int64_t>();
      row.push_back(token == data::kPicture ? picture[seen++]
                    : token == data::kSound ? sound[heard++]
                                            : embedding_->weight[token]);
    }
    rows.push_back(torch::stack(row));
  }
  return torch::stack(rows);
}

torch::Tensor PlainLoop::drawing_error(const Values& sample, const torch::Tensor& text) {
  auto total = torch::zeros({}, torch::dtype(dtype_));
  auto picture = real(sample["target"]);
  for (int64_t draw = 0; draw < config_.batch.draws; ++draw) {
    auto noise = real(sample["noise"])[draw], time = real(sample["times"])[draw];
    auto noisy = ((1 - time) * picture + time * noise).unsqueeze(0);
    auto velocity = drawing_->forward(noisy, time.unsqueeze(0), text.unsqueeze(0), {})[0];
    total = total + (velocity - (noise - picture)).square().sum();
  }
  return total;
}

torch::Tensor PlainLoop::loss(const std::vector<Values>& microbatch, const Counts& counts) {
  int64_t longest = 0;
  for (const auto& sample : microbatch) longest = std::max(longest, sample["tokens"].size(0));
  auto tokens = torch::full({int64_t(microbatch.size()), longest}, int64_t(data::kPad), torch::kInt64);
  auto mask = torch::zeros(tokens.sizes(), torch::kBool);
  for (size_t i = 0; i < microbatch.size(); ++i) {
    auto length = microbatch[i]["tokens"].size(0);
    tokens[int64_t(i)].slice(0, 0, length).copy_(microbatch[i]["tokens"]);
    mask[int64_t(i)].slice(0, 0, length).fill_(true);
  }
  auto total = torch::zeros({}, torch::dtype(dtype_));
  auto count = [&](const std::string& name, const torch::Tensor& weighted) {
    total = total + weighted;
    losses_[name] += weighted.item<double>();
  };
  auto x = embed(microbatch, tokens);
  double of_tokens = mask.sum().item<double>() / counts.tokens / double(layers_.size());
  for (auto& layer : layers_) {
    auto out = layer->run(x, {}, mask);
    x = out.x;
    if (!config_.backbone.moe) continue;
    count("balance", out.losses.balance * of_tokens * config_.balance_weight);
    count("router z", out.losses.z * of_tokens * config_.router_z_weight);
  }
  auto states = head_->states(x);
  auto matrix = config_.backbone.tied_embeddings ? embedding_->weight : head_->weight();
  for (size_t i = 0; i < microbatch.size(); ++i) {
    const auto& labels = microbatch[i]["labels"];
    auto own = states[int64_t(i)].slice(0, 0, labels.size(0));
    auto logs = torch::log_softmax(torch::matmul(own, matrix.t()), -1);
    for (int64_t t = 0; t < labels.size(0); ++t)
      if (auto label = labels[t].item<int64_t>(); label != data::kNoLabel)
        count("text", -logs[t][label] / counts.labels);
    if (microbatch[i].has("target"))
      count("drawing",
            drawing_error(microbatch[i], own.slice(0, 1)) * (config_.drawing_weight / counts.values));
  }
  return total;
}

double PlainLoop::compute_gradients(const std::vector<Values>& samples) {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad() = torch::zeros_like(parameter);
  losses_.clear();
  Counts counts;
  for (const auto& sample : samples) {
    counts.tokens += double(sample["tokens"].size(0));
    counts.labels += sample["labels"].ne(data::kNoLabel).sum().item<double>();
    if (sample.has("target")) counts.values += double(sample["target"].numel() * config_.batch.draws);
  }
  double sum = 0;
  auto size = size_t(config_.batch.samples);
  for (size_t at = 0; at < samples.size(); at += size) {
    auto microbatch = loss({samples.begin() + long(at), samples.begin() + long(at + size)}, counts);
    if (microbatch.requires_grad()) microbatch.backward();
    sum += microbatch.item<double>();
  }
  return sum;
}

double PlainLoop::train_step(const std::vector<Values>& samples, int64_t step) {
  double sum = compute_gradients(samples), squares = 0;
  for (auto& [name, parameter] : parameters_) squares += parameter.grad().square().sum().item<double>();
  const auto& options = config_.options;
  double norm = std::sqrt(squares), most = options.optimizer.clip_norm;
  if (norm > most)
    for (auto& [name, parameter] : parameters_) parameter.grad().mul_(most / (norm + 1e-6));
  for (auto& group : optimizer_->param_groups())
    static_cast<torch::optim::AdamWOptions&>(group.options())
        .lr(train::learning_rate(options.optimizer, step, options.steps));
  optimizer_->step();
  return sum;
}

std::map<std::string, torch::Tensor> PlainLoop::gradients() const {
  std::map<std::string, torch::Tensor> all;
  for (const auto& [name, parameter] : parameters_) all[name] = parameter.grad().clone();
  return all;
}

Difference largest_difference(const std::map<std::string, torch::Tensor>& got,
                              const std::map<std::string, torch::Tensor>& expected) {
  Difference difference;
  auto consider = [&](double distance, const std::string& name) {
    if (distance > difference.most || std::isnan(distance)) difference = {distance, name};
  };
  for (const auto& [name, value] : expected) {
    auto found = got.find(name);
    if (found == got.end()) {
      consider(INFINITY, name + " (missing)");
      continue;
    }
    double norm = value.norm().item<double>();
    double distance = (found->second - value).norm().item<double>();
    consider(norm > 0 ? distance / norm : (distance > 0 ? INFINITY : 0), name);
  }
  for (const auto& [name, value] : got)
    if (!expected.contains(name)) consider(INFINITY, name + " (strange)");
  return difference;
}

}  // namespace bigmac::demo
