#pragma once

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "bigmac/runtime/threads_transport.h"
#include "tests/train/systems.h"

namespace bigmac::train {

inline constexpr int64_t kSmallVocabulary = 20;

// A picture's patches through a tower and a projector.
struct SmallVision : torch::nn::Module {
  explicit SmallVision(int64_t width)
      : tower(register_module("tower", torch::nn::Linear(6, 8))),
        projector(register_module("projector", torch::nn::Linear(8, width))) {}
  torch::nn::Linear tower, projector;
};

struct SmallOptions {
  int64_t layers = 6;
  int64_t width = 12;
  bool vision = true;
  bool tied = false;
  std::function<double(const Values&)> count = [](const Values& sample) {
    return sample["labels"].ne(-100).sum().item<double>();
  };
  // Of the first layer's input.
  std::function<void(torch::Tensor&)> on_first = [](torch::Tensor&) {};
};

// Text and pictures in, text out, position by position: nothing depends on what shares a microbatch. What
// flows: hidden [S, L, width], beside it without gradients mask [S, L] bool, positions [L] and length []
// int64.
inline System small_system(const SmallOptions& options = {}) {
  int64_t width = options.width;
  System system;
  system.data({{"tokens", {any}, torch::kLong}, {"labels", {any}, torch::kLong}});
  Ports consumes{"tokens", "labels"};
  if (options.vision) {
    consumes.emplace_back("picture");
    system.data({{"patches", {any, 6}}})
        .encoder(
            "vision",
            {{"patches"},
             {{"picture", {width}}},
             [](const Values& item) { return double(item["patches"].size(0)); }},
            [width] { return std::make_shared<SmallVision>(width); },
            [](SmallVision& vision, Items items) {
              std::vector<Values> made;
              for (const auto& item : items)
                made.push_back(
                    {{"picture", {vision.projector(torch::tanh(vision.tower(item["patches"]))).sum(0)}}});
              return made;
            });
  }
  auto make_layer = [width](int64_t) { return torch::nn::Linear(width, width); };
  auto layer = [](auto look) {
    return [look](torch::nn::LinearImpl& linear, Flow& x) {
      auto hidden = x["hidden"];
      look(hidden);
      EXPECT_EQ(x["length"].item<int64_t>(), hidden.size(1));
      auto turned = linear.forward(hidden) + 0.01 * x["positions"].to(hidden.scalar_type()).unsqueeze(1);
      x.set("hidden", hidden + torch::tanh(turned) * x["mask"].unsqueeze(2));
    };
  };
  auto backbone = system.backbone("llm", {consumes});
  backbone
      .embedding([width] { return torch::nn::Embedding(kSmallVocabulary, width); },
                 [vision = options.vision](torch::nn::EmbeddingImpl& table, Items samples, Flow& x) {
                   int64_t most = 0;
                   for (const auto& sample : samples) most = std::max(most, sample["tokens"].size(0));
                   Tensors rows, masks;
                   for (const auto& sample : samples) {
                     const auto& tokens = sample["tokens"];
                     auto padded = torch::constant_pad_nd(tokens, {0, most - tokens.size(0)}, 0);
                     rows.push_back(table.forward(padded));
                     masks.push_back(torch::arange(most).lt(tokens.size(0)));
                     if (!vision) continue;
                     for (const auto& picture : sample.group("picture")) rows.back() = rows.back() + picture;
                   }
                   x.set("hidden", torch::stack(rows));
                   x.set("mask", torch::stack(masks));
                   x.set("positions", torch::arange(most));
                   x.set("length", torch::full({}, most, torch::kLong));
                 })
      .layers(1, make_layer, layer(options.on_first))
      .layers(options.layers - 1, make_layer, layer([](torch::Tensor&) {}))
      .head(
          [width] {
            return torch::nn::Linear(torch::nn::LinearOptions(width, kSmallVocabulary).bias(false));
          },
          [](torch::nn::LinearImpl& head, Items samples, Flow& x, std::vector<Values>&) {
            auto sum = torch::zeros({}, x["hidden"].options());
            for (size_t i = 0; i < samples.size(); ++i) {
              const auto& labels = samples[i]["labels"];
              auto counted = labels.ne(-100).nonzero().flatten();
              auto logits = head.forward(x["hidden"][int64_t(i)].index_select(0, counted));
              if (counted.numel() > 0)
                sum = sum + torch::nn::functional::cross_entropy(
                                logits, labels.index_select(0, counted),
                                torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
            }
            x.loss("text", sum);
          });
  if (options.tied) backbone.tie("head.weight", "embedding.weight");
  system.loss("text", options.count);
  return system;
}

struct SampleShape {
  int64_t tokens = 5;
  int64_t labels = 3;              // the last so many positions are counted
  std::vector<int64_t> patches{};  // of each picture
};

// Random numbers of a seed; the same for the same shape and place, whatever the others are.
inline std::vector<Values> small_samples(const std::vector<SampleShape>& shapes, bool vision = true,
                                         uint64_t seed = 1) {
  std::vector<Values> samples;
  for (size_t i = 0; i < shapes.size(); ++i) {
    auto generator = at::detail::createCPUGenerator(seed * 1000 + i);
    auto whole = [&](int64_t size) {
      return torch::randint(kSmallVocabulary, {size}, generator, torch::dtype(torch::kLong));
    };
    const auto& [tokens, labels, patches] = shapes[i];
    Values sample;
    sample.set("tokens", whole(tokens));
    auto targets = whole(tokens);
    targets.slice(0, 0, tokens - labels).fill_(-100);
    sample.set("labels", targets);
    Tensors pictures;
    for (int64_t size : patches)
      pictures.push_back(torch::randn({size, 6}, generator, torch::dtype(torch::kFloat64)));
    if (vision) sample.set("patches", pictures);
    samples.push_back(std::move(sample));
  }
  return samples;
}

inline TrainOptions layout(int64_t pp, int64_t vpp, int64_t dp, int64_t microbatches) {
  TrainOptions options;
  options.pp = pp;
  options.vpp = vpp;
  options.dp = dp;
  options.microbatches = microbatches;
  options.dtype = "float64";
  return options;
}

inline Batches always(std::vector<Values> samples) {
  return [samples = std::move(samples)](int64_t) { return samples; };
}

// What a call throws says; "no error" where it throws nothing.
inline std::string thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

// What every rank holds of each parameter, copied.
using Copies = std::map<std::string, Tensors>;
class Collector {
 public:
  void add(Trainer& trainer) {
    torch::NoGradGuard no_grad;
    std::lock_guard lock(mutex_);
    for (const auto& parameter : trainer.model().parameters())
      for (const auto& leaf : parameter.leaves) copies_[parameter.name].push_back(leaf.detach().clone());
  }
  const Copies& copies() const { return copies_; }

 private:
  std::mutex mutex_;
  Copies copies_;
};

inline constexpr double kTolerance = 1e-10;

// That a step's gradients and loss are those of the plain loop. With `borders` 1 the plain loop runs the
// whole batch at once, which no border of microbatches can have touched.
inline Result expect_plain(const System& system, const std::vector<Values>& samples,
                           const TrainOptions& options, int64_t borders = 0) {
  auto plain_options = options;
  if (borders > 0) plain_options.microbatches = borders, plain_options.dp = 1;
  auto plain = run_plainly(system, samples, plain_options);
  auto got = run_in_threads(system, always(samples), options);
  auto far = distance(got.gradients, plain.gradients);
  EXPECT_LT(far.most, kTolerance) << far.name;
  EXPECT_NEAR(got.figures.loss, plain.loss, kTolerance * std::max(1.0, std::abs(plain.loss)));
  for (const auto& [name, gradient] : got.gradients)
    EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << name;
  return got;
}

// One step's gradients on every rank, and what `look` makes of each rank behind it.
inline NamedTensors run_ranks(const System& system, const std::vector<Values>& samples,
                              const TrainOptions& options, const std::function<void(Trainer&)>& look) {
  NamedTensors gradients;
  std::mutex mutex;
  run_threads(int(options.ranks()), [&](Transport& world) {
    Trainer trainer(system, always(samples), options, world);
    trainer.compute_gradients(0);
    auto all = trainer.gather_gradients();
    std::lock_guard lock(mutex);
    if (world.rank() == 0) gradients = std::move(all);
    look(trainer);
  });
  return gradients;
}

// The schedule, which is the same on every rank of a pipeline.
inline Schedule schedule_of(const System& system, const std::vector<Values>& samples,
                            const TrainOptions& options) {
  Schedule schedule;
  run_ranks(system, samples, options, [&](Trainer& trainer) {
    if (trainer.rank() == 0) schedule = trainer.schedule();
  });
  return schedule;
}

inline int64_t count_operators(const Schedule& schedule, Module kind, Phase phase) {
  return std::count_if(schedule.operators.begin(), schedule.operators.end(),
                       [&](const Operator& op) { return op.module == kind && op.phase == phase; });
}

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  auto x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

}  // namespace bigmac::train
