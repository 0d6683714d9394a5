#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "benchmarks/hand_written_loop.h"
#include "bigmac/demo/batches.h"
#include "bigmac/demo/model.h"
#include "bigmac/runtime/gloo_transport.h"
#include "bigmac/runtime/launch.h"
#include "bigmac/runtime/split_backward.h"
#include "bigmac/runtime/threads_transport.h"
#include "bigmac/schedule/make.h"

namespace bigmac {
namespace {

// Operators that do next to nothing: what is left is the executor's own time, and the transport's.
class EmptyModel : public Model {
 public:
  explicit EmptyModel(bool trained) : value_(torch::ones({1}).requires_grad_(trained)) {}

  std::vector<Bundle> encode(int, std::span<const ModelItem> items) override {
    return std::vector<Bundle>(items.size(), {output(value_)});
  }
  Output forward(int, int, const Inputs& inputs) override {
    bool first = inputs.values.empty();
    auto value = output(first ? inputs.items.at(0).at(0).at(0) : inputs.values[0]);
    return {{value}, value, {{}, {{value}}}};
  }
  torch::Tensor generate(int, std::span<const ModelItem>, const std::vector<Bundle>& inputs) override {
    return output(inputs[0][0]);
  }

 private:
  torch::Tensor output(const torch::Tensor& value) { return value.requires_grad() ? value.view({1}) : value; }

  torch::Tensor value_;
};

// us_per_row_operator: a step's wall time over the operators of one rank's row. us_per_operator: over all
// operators of the step, as ranks run at the same time where there are cores.
void executor_overhead(benchmark::State& state, bool autograd) {
  constexpr int kRanks = 4, kSteps = 10;
  Step step;
  step.ranks = kRanks;
  step.chunks = 2;
  step.microbatches = 64;
  step.base = Base::interleaved;
  step.arrangement = Arrangement::nested;
  step.modules = {one_item_each("image", Module::encoder, 64),
                  one_item_each("drawing", Module::generator, 64)};
  auto schedule = make_schedule(step);
  double seconds = 0;
  int64_t steps = 0;
  for (auto _ : state) {
    double took = 0;
    run_threads(kRanks, [&](Transport& transport) {
      at::set_num_threads(1);
      EmptyModel model(autograd);
      Executor executor(schedule, transport);
      executor.run(model);
      transport.barrier();
      double start = now();
      for (int i = 0; i < kSteps; ++i) executor.run(model);
      transport.barrier();
      if (transport.rank() == 0) took = now() - start;
    });
    state.SetIterationTime(took);
    seconds += took;
    steps += kSteps;
  }
  double per_step = seconds / double(steps) * 1e6;
  state.counters["us_per_row_operator"] = per_step / double(schedule.row(0).size());
  state.counters["us_per_operator"] = per_step / double(schedule.operators.size());
}
BENCHMARK_CAPTURE(executor_overhead, without autograd, false)
    ->Name("executor, empty operators, P=4 threads V=2 M=64")
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(executor_overhead, with autograd, true)
    ->Name("executor, operators of one autograd node")
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Lets malloc keep the pages it has: else what a split backward holds longer is paid for in page faults.
void keep_pages() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 1 << 28);
#endif
}

// A backward through decoder layers, whole and split into input and weight gradients, in turn. `of_whole` is
// the parts' time together over the whole's.
void split_backward(benchmark::State& state) {
  keep_pages();
  at::set_num_threads(1);
  nn::DecoderConfig config;
  config.hidden = state.range(0);
  config.layers = state.range(1);
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = config.hidden / 4;
  config.ffn = 3 * config.hidden;
  auto decoder = nn::Decoder::whole(config);
  auto start = torch::randn({4, 64, config.hidden});
  auto gradient = torch::randn_like(start);
  auto run = [&](torch::Tensor x) {
    for (int64_t layer = 0; layer < config.layers; ++layer) x = decoder->run(layer, x);
    return x;
  };
  auto leaf = [&] { return start.detach().requires_grad_(); };
  std::vector<double> whole, inputs, weights, ratios;
  for (auto _ : state) {
    auto x = leaf(), root = run(x);
    double begin = now();
    torch::autograd::backward({root}, {gradient});
    whole.push_back(now() - begin);
    x = leaf();
    Tensors roots{run(x)};
    begin = now();
    SplitBackward split(roots, {gradient}, {x});
    roots.clear();
    inputs.push_back(now() - begin);
    begin = now();
    split.weights.run();
    weights.push_back(now() - begin);
    ratios.push_back((inputs.back() + weights.back()) / whole.back());
    state.SetIterationTime(inputs.back() + weights.back());
  }
  state.counters["B_ms"] = median(whole) * 1e3;
  state.counters["I_ms"] = median(inputs) * 1e3;
  state.counters["W_ms"] = median(weights) * 1e3;
  state.counters["of_whole"] = median(ratios);
}
BENCHMARK(split_backward)
    ->Name("split backward")
    ->ArgNames({"hidden", "layers"})
    ->Args({128, 4})
    ->Args({256, 4})
    ->Args({512, 2})
    ->Iterations(21)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// Set in ranks.
constexpr const char* kFile = "BIGMAC_BENCH_FILE";    // where rank 0 writes the steps a second
constexpr const char* kAlone = "BIGMAC_BENCH_ALONE";  // each rank trains a model of its own

demo::Config training_config(int64_t ranks) {
  demo::Config config;
  config.encoder = {.picture = 32, .patch = 4, .hidden = 96, .layers = 2, .heads = 4, .ffn = 256, .merge = 2};
  config.backbone.hidden = 192;
  config.backbone.layers = 8;
  config.backbone.heads = 4;
  config.backbone.kv_heads = 2;
  config.backbone.head_dim = 48;
  config.backbone.ffn = 512;
  config.generator = {.picture = 32, .patch = 4, .hidden = 96, .layers = 2, .heads = 4, .ffn = 256};
  config.options.pp = ranks;
  config.batch.samples = 4;
  config.batch.caption_share = 0;
  config.batch.draw_share = 0;
  config.complete();
  return config;
}

// Names of 8 to 47 bytes.
data::Dataset noise(int64_t side) {
  std::vector<data::Pair> pairs;
  for (int i = 0; i < 256; ++i)
    pairs.push_back(
        {std::to_string(100 + i) + " of " + std::string(size_t(1 + i % 40), 'x'), std::to_string(i), false});
  return {std::move(pairs), torch::randint(0, 256, {256, 3, side, side}).to(torch::kUInt8)};
}

double steps_per_second(Transport& transport) {
  constexpr int kSteps = 5;
  at::set_num_threads(1);
  auto config = training_config(transport.size());
  auto dataset = noise(config.encoder.picture);
  auto system = demo::make_system(config);
  train::Trainer trainer(system, demo::make_batches(config, dataset), config.options, transport);
  trainer.train_step(0);
  transport.barrier();
  double start = now();
  for (int step = 1; step <= kSteps; ++step) trainer.train_step(step);
  transport.barrier();
  return kSteps / (now() - start);
}

// The sizes of configs/emoji.yaml.
demo::Config emoji_config() {
  demo::Config config;
  config.encoder = {.picture = 24, .patch = 4, .hidden = 96, .layers = 2, .heads = 4, .ffn = 256, .merge = 2};
  config.generator = {.picture = 24, .patch = 4, .hidden = 128, .layers = 3, .heads = 4, .ffn = 384};
  config.options.microbatches = 16;
  config.batch.draws = 4;
  config.batch.caption_share = 0.3;
  config.complete();
  return config;
}

// A step of the demo's model on one rank, through Trainer and by hand, in turn. `overhead` is the median of
// the pairs' ratios.
void interface_overhead(benchmark::State& state) {
  keep_pages();
  auto config = emoji_config();
  auto dataset = noise(config.encoder.picture);
  auto system = demo::make_system(config);
  auto batches = demo::make_batches(config, dataset);
  std::vector<double> by_trainer, by_hand, ratios;
  run_threads(1, [&](Transport& transport) {
    at::set_num_threads(1);
    train::Trainer trainer(system, batches, config.options, transport);
    HandWrittenLoop loop(config);
    double furthest = 0;
    int64_t step = 0;
    auto timed = [&](auto run) {
      double start = now();
      double loss = run(step);
      return std::pair(now() - start, loss);
    };
    auto through_trainer = [&](int64_t s) { return trainer.train_step(s).loss; };
    auto through_loop = [&](int64_t s) { return loop.train_step(batches(s), s); };
    for (auto _ : state) {
      bool trainer_first = step % 2 == 0;
      std::pair<double, double> a, b;
      if (trainer_first) a = timed(through_trainer);
      b = timed(through_loop);
      if (!trainer_first) a = timed(through_trainer);
      furthest = std::max(furthest, std::abs(a.second / b.second - 1));
      state.SetIterationTime(a.first);
      if (step++ == 0) continue;  // allocates
      by_trainer.push_back(a.first);
      by_hand.push_back(b.first);
      ratios.push_back(a.first / b.first);
    }
    state.counters["loss_differs_by"] = furthest;
  });
  state.counters["trainer_ms"] = median(by_trainer) * 1e3;
  state.counters["by_hand_ms"] = median(by_hand) * 1e3;
  state.counters["overhead"] = median(ratios);
}
BENCHMARK(interface_overhead)
    ->Name("overhead of the interface, the demo's step on one rank")
    ->Iterations(16)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// A step of the demo's model with its events written, and without, in turn, on threads. `overhead` is the
// median of the pairs' ratios.
void profile_overhead(benchmark::State& state, bool memory) {
  keep_pages();
  auto config = emoji_config();
  config.options.pp = state.range(0);
  auto profiled = config.options;
  profiled.profile = {.folder = (std::filesystem::temp_directory_path() / "bigmac-profile").string(),
                      .memory = memory};
  auto dataset = noise(config.encoder.picture);
  auto system = demo::make_system(config);
  auto batches = demo::make_batches(config, dataset);
  std::vector<double> with, without, ratios;
  using Counts = MemoryLedger::Counts;
  auto counts = config.options.pp == 1 ? Counts::total : Counts::by_module;  // as train() does
  auto ledger = memory ? std::make_shared<MemoryLedger>(counts) : nullptr;
  for (auto _ : state) {
    run_threads(int(config.options.pp), [&](Transport& transport) {
      at::set_num_threads(1);
      train::Trainer plain(system, batches, config.options, transport);
      train::Trainer writing(system, batches, profiled, transport, ledger);
      auto timed = [&](train::Trainer& trainer, int64_t step) {
        double start = now();
        trainer.train_step(step);
        transport.barrier();
        return now() - start;
      };
      for (int64_t step = 0; step < 21; ++step) {
        auto& first = step % 2 ? plain : writing;
        auto& second = step % 2 ? writing : plain;
        double a = timed(first, step), b = timed(second, step);
        if (step == 0 || transport.rank() != 0) continue;
        with.push_back(step % 2 ? b : a);
        without.push_back(step % 2 ? a : b);
        ratios.push_back(with.back() / without.back());
      }
    });
    state.SetIterationTime(median(with) * 20);
  }
  std::filesystem::remove_all(profiled.profile.folder);
  state.counters["with_ms"] = median(with) * 1e3;
  state.counters["without_ms"] = median(without) * 1e3;
  state.counters["overhead"] = median(ratios);
}
BENCHMARK_CAPTURE(profile_overhead, times, false)
    ->Name("overhead of the profile, times alone")
    ->Arg(1)
    ->Arg(4)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(profile_overhead, times and memory, true)
    ->Name("overhead of the profile")
    ->Arg(1)
    ->Arg(4)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

double steps_per_second_of_processes(int ranks, bool alone = false) {
  auto file = std::filesystem::temp_directory_path() / concat("bigmac-bench-", getpid());
  setenv(kFile, file.c_str(), 1);
  if (alone) setenv(kAlone, "1", 1);
  launch_processes({"/proc/self/exe"}, {.ranks = ranks});
  unsetenv(kFile);
  unsetenv(kAlone);
  double rate = 0;
  std::ifstream(file) >> rate;
  std::filesystem::remove(file);
  return rate;
}

// Each process computes with one thread, so two of them use two cores. `ceiling` is what two processes that
// have nothing to do with each other reach on this machine: below 2 where its two cores share anything.
void training(benchmark::State& state) {
  std::vector<double> one, two, alone;
  for (auto _ : state) {
    one.push_back(steps_per_second_of_processes(1));
    two.push_back(steps_per_second_of_processes(2));
    alone.push_back(2 * steps_per_second_of_processes(2, true));
  }
  state.counters["steps_per_s_of_1"] = median(one);
  state.counters["steps_per_s_of_2"] = median(two);
  state.counters["speedup"] = median(two) / median(one);
  state.counters["ceiling"] = median(alone) / median(one);
}
BENCHMARK(training)
    ->Name("training, 2 processes against 1")
    ->Iterations(5)
    ->UseRealTime()
    ->Unit(benchmark::kSecond);

int run_as_rank(const char* file) {
  try {
    auto transport = connect_gloo(*read_environment());
    transport->barrier();
    double rate =
        std::getenv(kAlone) ? steps_per_second(*make_threads_group(1)[0]) : steps_per_second(*transport);
    if (transport->rank() == 0) std::ofstream(file) << rate;
    transport->barrier();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

}  // namespace
}  // namespace bigmac

int main(int argc, char** argv) {
  if (const char* file = std::getenv(bigmac::kFile)) return bigmac::run_as_rank(file);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
