#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/cost/decoder_model.h"
#include "bigmac/cost/diffusion_model.h"
#include "bigmac/cost/vision_model.h"
#include "bigmac/plan/candidates.h"
#include "bigmac/plan/estimator.h"

// Small workloads, and what tests ask of them.
namespace bigmac {

inline constexpr double kMiB = 1024.0 * 1024;

inline const std::vector<Arrangement> kWithModules = {Arrangement::nested,      Arrangement::nested_fill,
                                                      Arrangement::three_phase, Arrangement::optimus,
                                                      Arrangement::megatron,    Arrangement::disttrain};
inline const std::vector<Base> kAllBases = {Base::gpipe, Base::one_f_one_b, Base::interleaved,
                                            Base::zb_h1, Base::zb_v,        Base::dualpipe_v};

inline std::string error_of(const auto& call) {
  try {
    call();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

inline void expect_told(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(text.find(part), text.npos) << "lacks \"" << part << "\" in: " << text;
}

// Bytes that a rank holds all through a step under names that begin so.
inline double constant_of(const Job& job, size_t rank, const std::string& begin) {
  double bytes = 0;
  for (const auto& holder : job.bytes.constant[rank])
    if (holder.what.starts_with(begin)) bytes += holder.bytes;
  return bytes;
}

// `layers` decoder layers, with an embedding before and a head behind them.
inline cost::Model small_decoder(int64_t layers, int64_t experts = 0, bool tied = false) {
  cost::DecoderShape shape{.layers = layers,
                           .hidden = 512,
                           .heads = 8,
                           .kv_heads = 4,
                           .head_dim = 64,
                           .vocabulary = 16000,
                           .ffn = 1536,
                           .tied = tied,
                           .experts = experts,
                           .top_k = experts > 0 ? 2 : 0,
                           .expert_ffn = experts > 0 ? 512 : 0};
  if (experts > 0) shape.sparse.assign(size_t(layers), true);
  return cost::decoder_model(shape);
}

inline WorkloadModule small_encoder(std::string name, int64_t layers = 4) {
  WorkloadModule module;
  module.name = std::move(name);
  module.kind = Module::encoder;
  module.model = cost::vision_model(
      {.layers = layers, .hidden = 256, .heads = 4, .ffn = 1024, .patch = 14, .merge = 2, .out = 512});
  module.items = {.mean = 3, .fixed = true, .tokens = 256, .sigma = 0.6, .least = 16, .most = 4096};
  return module;
}

inline WorkloadModule small_generator(std::string name, int64_t blocks = 3) {
  WorkloadModule module;
  module.name = std::move(name);
  module.kind = Module::generator;
  module.model = cost::diffusion_model({.double_blocks = blocks,
                                        .single_blocks = 1,
                                        .heads = 4,
                                        .head_dim = 64,
                                        .ffn = 1024,
                                        .text_in = 512,
                                        .latent_in = 64,
                                        .latent_out = 64});
  module.items = {.mean = 1, .fixed = true, .tokens = 512, .sigma = 0, .least = 16, .most = 4096};
  module.text = 64;
  return module;
}

// 8 GPUs in two nodes, 8 decoder layers, no encoders and generators.
inline Workload small_workload(std::vector<WorkloadModule> modules = {}, int64_t layers = 8) {
  Workload workload;
  workload.name = "small";
  workload.backbone.name = "backbone";
  workload.backbone.model = small_decoder(layers);
  workload.modules = std::move(modules);
  workload.tokens = 1024;
  workload.gpus = 8;
  workload.hardware = cost::hardware_from_name("A100");
  workload.hardware.gpus_per_node = 4;
  workload.memory = 40 * 1024 * kMiB;
  workload.reserved = 64 * kMiB;
  workload.samples_per_gpu = {4};
  return workload;
}

// A legal configuration, where it is one: DP from the GPUs, every module without recompute.
inline Configuration configuration_of(const Workload& workload, int64_t pipeline, int64_t chunks = 1,
                                      Base base = Base::one_f_one_b) {
  Configuration c;
  c.parallel.pipeline = pipeline;
  c.parallel.data = workload.gpus / pipeline;
  c.chunks = chunks;
  c.base = base;
  c.arrangement = workload.modules.empty() ? Arrangement::llm_only : Arrangement::nested;
  c.module_recompute.assign(workload.modules.size(), cost::Recompute::none);
  return c;
}

inline Configuration disttrain_of(const Workload& workload, int64_t encoder, int64_t pipeline, int64_t data,
                                  int64_t generator = 0) {
  Configuration c = configuration_of(workload, pipeline);
  c.parallel.data = data;
  c.arrangement = Arrangement::disttrain;
  c.encoder_gpus = encoder;
  c.generator_gpus = generator;
  return c;
}

// Workloads of all kinds: one to sixteen GPUs, dense or with experts, zero to two encoders, with and without
// a generator, frozen and not, uneven items, samples without any, slow links, memory that binds and that does
// not.
class Workloads {
 public:
  explicit Workloads(uint64_t seed) : random_(seed) {}

  Workload draw() {
    Workload workload = small_workload();
    workload.gpus = pick<int64_t>({1, 2, 4, 8, 8, 16});
    workload.hardware.gpus_per_node = pick<int64_t>({2, 4, 8});
    while (workload.gpus % workload.hardware.gpus_per_node != 0) workload.hardware.gpus_per_node /= 2;
    double slower = pick({1.0, 1.0, 10.0, 300.0});
    for (auto* link : {&workload.hardware.inside, &workload.hardware.between}) {
      link->bandwidth /= slower;
      link->latency *= slower;
    }
    workload.exchange = pick({Exchange::overlapped, Exchange::in_order, Exchange::batched});
    workload.overlap = pick({0.0, 0.5, 1.0});
    workload.shard_optimizer = chance(0.5);
    workload.seed = random_();
    workload.tokens = pick({256.0, 1024.0, 2048.0});
    workload.backbone.model =
        small_decoder(pick<int64_t>({2, 5, 6, 8, 11}), chance(0.4) ? 4 : 0, chance(0.3));
    workload.backbone.expert_imbalance = pick({1.0, 1.3});
    add_modules(workload);
    workload.memory = workload.reserved + kMiB * std::exp(real(std::log(100.0), std::log(6000.0)));
    return workload;
  }

  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random_)];
  }
  double real(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  bool chance(double part) { return real(0, 1) < part; }

 private:
  void add_modules(Workload& workload) {
    for (int64_t n = pick<int64_t>({0, 1, 1, 1, 2}); n > 0; --n)
      workload.modules.push_back(small_encoder(concat("image", n), pick<int64_t>({2, 4, 12})));
    if (chance(0.4)) workload.modules.push_back(small_generator("drawing", pick<int64_t>({1, 4})));
    for (auto& module : workload.modules) {
      module.frozen = chance(0.25);
      module.items.sigma = pick({0.0, 0.5, 1.2});
      module.items.fixed = chance(0.5);
      module.items.mean = pick({1.0, 2.0, 5.0});
      module.items.empty = pick({0.0, 0.0, 0.3, 0.9});
      module.shard = pick<int64_t>({1, 1, 2, 4});
      while (workload.gpus % module.shard != 0) module.shard /= 2;
      if (chance(0.5))
        module.recompute.assign(1, pick<cost::Recompute>({cost::Recompute::none, cost::Recompute::full}));
    }
    bool trained = false;
    for (const auto& module : workload.modules) trained |= !module.frozen;
    workload.backbone.frozen = trained && chance(0.2);
  }

  std::mt19937_64 random_;
};

}  // namespace bigmac
