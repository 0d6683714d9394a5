// Steps with a fully sharded encoder: values gathered by all ranks together, and one-sided by the rank that
// needs them, under even and uneven load. Operators sleep in place of computing, which takes no core, in
// proportion to the sizes of items and sequences; parameters are really gathered, gradients really reduced.
//
//   bench_sharding [threads|processes] [STEPS]

#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <random>
#include <thread>

#include "bigmac/runtime/environment.h"
#include "bigmac/runtime/gloo_transport.h"
#include "bigmac/runtime/launch.h"
#include "bigmac/runtime/threads_transport.h"
#include "bigmac/train/trainer.h"

namespace bigmac::train {
namespace {

constexpr int64_t kRanks = 4, kMicrobatches = 16, kWidth = 8;
constexpr int64_t kStageElements = 2'500'000, kEncoderElements = 1'000'000;
constexpr double kStage = 0.010, kEncoder = 0.004;  // seconds of a mean microbatch's forward

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Sleeps in its forward, and twice as long in its backward.
struct Sleep : torch::autograd::Function<Sleep> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               double seconds) {
    context->saved_data["seconds"] = seconds;
    sleep_for(seconds);
    return x.clone();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    sleep_for(2 * context->saved_data["seconds"].toDouble());
    return {gradients[0], torch::Tensor()};
  }
};

// As many parameters as it says, of which one row is computed with.
class Ballast : public torch::nn::Module {
 public:
  explicit Ballast(int64_t elements)
      : row(register_parameter("row", torch::ones({kWidth}))),
        rest(register_parameter("rest", torch::ones({elements / kWidth, kWidth}))) {}
  torch::Tensor row, rest;
};

System sleepers() {
  auto make = [](int64_t elements) { return std::make_shared<Ballast>(elements); };
  System system;
  system.data({{"length", {1}}, {"size", {1}}});
  system.encoder(
      "vision",
      {{{"size", {1}}},
       {{"picture", {kWidth}}},
       [](const Values& item) { return item["size"].item<double>(); }},
      [make] { return make(kEncoderElements); },
      [](Ballast& encoder, Items items) {
        double size = 0;
        for (const auto& item : items) size += item["size"].item<double>();
        auto x = Sleep::apply(encoder.row * encoder.rest[0], kEncoder * size);
        return std::vector<Values>(items.size(), {{"picture", {x}}});
      });
  auto sleep = [](Ballast& layer, const torch::Tensor& x, const torch::Tensor& length) {
    return Sleep::apply(x * layer.row, kStage * length.item<double>());
  };
  auto backbone = system.backbone("llm", {{{"length", {1}}, {"picture", {kWidth}}}, {}});
  backbone.embedding([make] { return make(kWidth); },
                     [](Ballast& table, Items samples, Flow& x) {
                       auto sum = table.row * 1;
                       for (const auto& picture : samples[0].group("picture")) sum = sum + picture;
                       x.set("hidden", sum);
                       x.set("length", samples[0]["length"]);
                     });
  backbone.layers(
      kRanks, [make](int64_t) { return make(kStageElements); },
      [sleep](Ballast& layer, Flow& x) { x.set("hidden", sleep(layer, x["hidden"], x["length"])); });
  backbone.head([make] { return make(kWidth); },
                [](Ballast& head, Items, Flow& x, std::vector<Values>&) {
                  x.loss("text", (head.row * x["hidden"]).square().sum());
                });
  return system.loss("text", [](const Values&) { return 1.0; });
}

struct Load {
  const char* title;
  int64_t items;  // a microbatch
  double items_sigma, lengths_sigma;
};

// Sizes of mean 1 a microbatch, log-normal.
std::vector<Values> samples_of(const Load& load, int64_t step) {
  std::mt19937_64 random(uint64_t(step) + 1);
  auto draw = [&](double sigma, double mean) {
    return torch::full(
        {1}, std::lognormal_distribution<double>(std::log(mean) - sigma * sigma / 2, sigma)(random));
  };
  std::vector<Values> samples;
  for (int64_t m = 0; m < kMicrobatches; ++m) {
    Tensors sizes;
    for (int64_t i = 0; i < load.items; ++i)
      sizes.push_back(draw(load.items_sigma, 1.0 / double(load.items)));
    samples.push_back({{"length", {draw(load.lengths_sigma, 1)}}, {"size", sizes}});
  }
  return samples;
}

struct Mode {
  const char* title;
  Sharding sharding;
  Gather gather;
  Arrangement arrangement;
};
constexpr Mode kModes[] = {
    {"replicated", Sharding::replicated, Gather::collective, Arrangement::nested},
    {"collective", Sharding::full, Gather::collective, Arrangement::nested},
    {"one-sided", Sharding::full, Gather::one_sided, Arrangement::nested},
    {"one-sided, filled", Sharding::full, Gather::one_sided, Arrangement::nested_fill},
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + int64_t(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void run_load(const System& system, const Load& load, int64_t steps, Transport& world) {
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (const auto& mode : kModes) {
    TrainOptions options;
    options.pp = kRanks;
    options.microbatches = kMicrobatches;
    options.schedule = mode.arrangement;
    options.shard["vision"] = mode.sharding;
    options.gather = mode.gather;
    options.trained.freeze = {"llm.*.rest"};
    trainers.push_back(std::make_unique<Trainer>(
        system, [&](int64_t step) { return samples_of(load, step); }, options, world));
  }
  // All take the same steps in turn; each is compared with the collective one of the same step.
  std::vector<std::vector<double>> seconds(trainers.size()), ratios(trainers.size());
  for (int64_t step = 0; step <= steps; ++step) {
    std::vector<double> of_step;
    for (auto& trainer : trainers) of_step.push_back(trainer->compute_gradients(step).seconds);
    if (step == 0) continue;
    for (size_t i = 0; i < trainers.size(); ++i) {
      seconds[i].push_back(of_step[i]);
      ratios[i].push_back(of_step[i] / of_step[1]);
    }
  }
  if (world.rank() == 0)
    for (size_t i = 0; i < trainers.size(); ++i)
      std::printf("%-38s %-18s %8.1f %12.3f %10.2f\n", i == 0 ? load.title : "", kModes[i].title,
                  1000 * median(seconds[i]), median(ratios[i]),
                  double(trainers[i]->held_bytes()) / (1 << 20));
  std::fflush(stdout);
  world.barrier();
}

void run(Transport& world, int64_t steps) {
  at::set_num_threads(1);
  constexpr Load kLoads[] = {
      {"alike", 4, 0, 0},
      {"4 items a microbatch, sigma 1", 4, 1, 0},
      {"1 item a microbatch, sigma 1", 1, 1, 0},
      {"4 items, sigma 1, lengths, sigma 0.5", 4, 1, 0.5},
  };
  if (world.rank() == 0)
    std::printf(
        "Medians of %ld steps, P=%ld M=%ld, encoder of %ld parameters in float32\n%-38s %-18s %8s %12s "
        "%10s\n",
        long(steps), long(kRanks), long(kMicrobatches), long(kEncoderElements), "load", "values", "ms",
        "/ collective", "MiB held");
  auto system = sleepers();
  for (const auto& load : kLoads) run_load(system, load, steps, world);
}

}  // namespace
}  // namespace bigmac::train

int main(int argc, char** argv) {
  using namespace bigmac;
  std::string ranks = argc > 1 ? argv[1] : "threads";
  int64_t steps = argc > 2 ? std::atoll(argv[2]) : 5;
  try {
    if (auto environment = read_environment(); environment && environment->size > 1) {
      auto transport = connect_gloo(*environment);
      train::run(*transport, steps);
    } else if (ranks == "processes") {
      launch_processes(own_command(), {.ranks = int(train::kRanks)});
    } else {
      run_threads(int(train::kRanks), [&](Transport& world) { train::run(world, steps); });
    }
  } catch (const std::exception& error) {
    std::cerr << "bench_sharding: " << error.what() << "\n";
    return 1;
  }
}
