#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <future>
#include <iostream>
#include <random>
#include <thread>

#include "bigmac/runtime/threads_transport.h"
#include "tests/support/roles.h"
#include "tests/train/systems.h"

namespace bigmac::train {
namespace {

constexpr Gather kGathers[] = {Gather::collective, Gather::one_sided};
constexpr int64_t kWidth = 8;

using Pause = std::function<void()>;

// A system whose operators all call `pause` on their way, forwards and backwards.
System restless_system(Pause pause) {
  auto around = [pause](torch::Tensor x) {
    pause();
    if (x.requires_grad()) x.register_hook([pause](torch::Tensor) { pause(); });
    return x;
  };
  System system;
  system.data({{"tokens", {any}, torch::kLong}, {"patch", {4}}, {"target", {3}}});
  system.encoder(
      "vision", {{{"patch", {4}}}, {{"picture", {kWidth}}}}, [] { return torch::nn::Linear(4, kWidth); },
      [around](torch::nn::LinearImpl& linear, Items items) {
        std::vector<Values> made;
        for (const auto& item : items)
          made.push_back({{"picture", {around(torch::tanh(linear.forward(item["patch"])))}}});
        return made;
      });
  system.generator(
      "painter", {{{"states", {kWidth}}, {"target", {3}}}}, [] { return torch::nn::Linear(kWidth, 3); },
      [around](torch::nn::LinearImpl& linear, Items items) {
        auto sum = torch::zeros({}, items[0]["target"].options());
        for (const auto& item : items)
          sum = sum + (around(linear.forward(item["states"])) - item["target"]).square().sum();
        return sum;
      });
  system.backbone("llm", {{{"tokens", {any}, torch::kLong}, {"picture", {kWidth}}}, {{"states", {kWidth}}}})
      .embedding([] { return torch::nn::Embedding(11, kWidth); },
                 [around](torch::nn::EmbeddingImpl& table, Items samples, Flow& x) {
                   Tensors rows;
                   for (const auto& sample : samples) {
                     rows.push_back(table.forward(sample["tokens"]).sum(0));
                     for (const auto& picture : sample.group("picture")) rows.back() = rows.back() + picture;
                   }
                   x.set("hidden", around(torch::stack(rows)));
                 })
      .layers(
          8, [](int64_t) { return torch::nn::Linear(kWidth, kWidth); },
          [around](torch::nn::LinearImpl& linear, Flow& x) {
            x.set("hidden", around(torch::tanh(linear.forward(x["hidden"]))));
          })
      .head([] { return torch::nn::Linear(kWidth, 1); },
            [](torch::nn::LinearImpl& linear, Items samples, Flow& x, std::vector<Values>& out) {
              for (size_t i = 0; i < samples.size(); ++i) out[i].set("states", x["hidden"][int64_t(i)]);
              x.loss("text", linear.forward(x["hidden"]).square().sum());
            });
  auto one = [](const Values&) { return 1.0; };
  system.loss("text", one).loss("painter", one);
  return system;
}

std::vector<Values> restless_samples(uint64_t seed, int64_t count) {
  auto generator = at::detail::createCPUGenerator(seed);
  auto real = [&](int64_t size) { return torch::randn({size}, generator, torch::dtype(torch::kFloat64)); };
  auto whole = [&](int64_t below, int64_t size) {
    return torch::randint(below, {size}, generator, torch::dtype(torch::kLong));
  };
  std::vector<Values> samples;
  for (int64_t i = 0; i < count; ++i) {
    Tensors patches, targets;
    for (int64_t k = whole(3, 1).item<int64_t>(); k > 0; --k) patches.push_back(real(4));
    for (int64_t k = whole(3, 1).item<int64_t>(); k > 0; --k) targets.push_back(real(3));
    samples.push_back({{"tokens", {whole(11, 3)}}, {"patch", patches}, {"target", targets}});
  }
  return samples;
}

TrainOptions restless_options(Gather gather) {
  TrainOptions options;
  options.dtype = "float64";
  options.gather = gather;
  options.shard = {{"vision", Sharding::full}, {"painter", Sharding::full}};
  return options;
}

// Half of the times not at all, else up to 2 ms; each rank's thread for itself.
thread_local std::mt19937_64 pauses;
void pause_at_random() {
  auto draw = std::uniform_int_distribution<int>(-2000, 2000)(pauses);
  if (draw > 0) std::this_thread::sleep_for(std::chrono::microseconds(draw));
}

// Ends the program where `work` hangs: threads that wait for each other cannot be joined.
void expect_ends(const std::string& what, const std::function<void()>& work) {
  auto done = std::async(std::launch::async, work);
  if (done.wait_for(std::chrono::seconds(60)) == std::future_status::timeout) {
    std::cerr << what << " hangs\n";
    std::abort();
  }
  done.get();
}

TEST(ShardingRun, RandomDelaysHangNowhereAndChangeNothing) {
  auto system = restless_system(pause_at_random);
  for (auto gather : kGathers)
    for (int64_t pp : {2, 3, 4})
      for (int64_t vpp : {1, 2})
        for (uint64_t seed = 0; seed < 20; ++seed) {
          auto what = concat(name(gather), " P=", pp, " V=", vpp, " seed ", seed);
          SCOPED_TRACE(what);
          auto options = restless_options(gather);
          options.pp = pp;
          options.vpp = vpp;
          options.dp = pp == 2 ? 1 + int64_t(seed % 2) : 1;
          options.microbatches = pp * (1 + int64_t(seed % 3)) + int64_t(vpp == 1 ? seed % 2 : 0);
          if (seed % 3 == 2) options.schedule = Arrangement::three_phase;
          if (seed % 4 == 1) options.shard["painter"] = Sharding::replicated;
          auto samples = [&](int64_t) { return restless_samples(seed, options.microbatches * options.dp); };
          NamedTensors gradients;
          expect_ends(what, [&] {
            run_threads(int(options.ranks()), [&](Transport& world) {
              at::set_num_threads(1);
              pauses.seed(seed * 10 + uint64_t(world.rank()));
              Trainer trainer(system, samples, options, world);
              trainer.compute_gradients(0);
              auto gathered = trainer.gather_gradients();
              if (world.rank() == 0) gradients = std::move(gathered);
            });
          });
          if (seed % 5 != 0) continue;
          static const auto still = restless_system([] {});
          auto far = distance(gradients, run_plainly(still, samples(0), options).gradients);
          EXPECT_LT(far.most, 1e-10) << far.name;
        }
}

const bool delays_role = roles::add("sharding.delays", [](Transport& world, const std::string&) {
  auto system = restless_system(pause_at_random);
  for (auto gather : kGathers)
    for (int64_t vpp : {1, 2})
      for (uint64_t seed = 0; seed < 3; ++seed) {
        pauses.seed(seed * 10 + uint64_t(world.rank()));
        auto options = restless_options(gather);
        options.pp = world.size();
        options.vpp = vpp;
        options.microbatches = 2 * options.pp;
        Trainer trainer(
            system, [&](int64_t) { return restless_samples(seed, options.microbatches); }, options, world);
        trainer.train_step(0);
        world.barrier();
      }
});

TEST(ShardingRun, RandomDelaysHangNoProcesses) {
  expect_ends("processes", [] { roles::run("sharding.delays", 4); });
}

// An encoder of kLayers * kBig^2 parameters, a backbone of next to none.
constexpr int64_t kLayers = 20, kBig = 1024;

class BigImpl : public torch::nn::Module {
 public:
  BigImpl() {
    for (int64_t i = 0; i < kLayers; ++i)
      layers.push_back(register_module(concat("layer", i),
                                       torch::nn::Linear(torch::nn::LinearOptions(kBig, kBig).bias(false))));
  }
  std::vector<torch::nn::Linear> layers;
};

// `measure` is called in the midst of its forward (0) and at the end of its backward (1).
System big_system(std::function<void(int)> measure) {
  System system;
  system.data({{"tokens", {any}, torch::kLong}, {"patch", {kBig}}});
  system.encoder(
      "vision", {{{"patch", {kBig}}}, {{"picture", {kWidth}}}}, [] { return std::make_shared<BigImpl>(); },
      [measure](BigImpl& big, Items items) {
        std::vector<Values> made;
        for (const auto& item : items) {
          auto x = big.layers[0](item["patch"]);
          x.register_hook([measure](torch::Tensor) { measure(1); });
          for (int64_t i = 1; i < kLayers; ++i) x = torch::tanh(big.layers[size_t(i)](x));
          measure(0);
          made.push_back({{"picture", {x.slice(0, 0, kWidth)}}});
        }
        return made;
      });
  system.backbone("llm", {{{"tokens", {any}, torch::kLong}, {"picture", {kWidth}}}})
      .embedding([] { return torch::nn::Embedding(11, kWidth); },
                 [](torch::nn::EmbeddingImpl& table, Items samples, Flow& x) {
                   auto sum = table.forward(samples[0]["tokens"]).sum(0);
                   for (const auto& picture : samples[0].group("picture")) sum = sum + picture;
                   x.set("hidden", sum);
                 })
      .layers(
          4, [](int64_t) { return torch::nn::Linear(kWidth, kWidth); },
          [](torch::nn::LinearImpl& linear, Flow& x) { x.set("hidden", linear.forward(x["hidden"])); })
      .head([] { return torch::nn::Linear(kWidth, 1); },
            [](torch::nn::LinearImpl& linear, Items, Flow& x, std::vector<Values>&) {
              x.loss("text", linear.forward(x["hidden"]).square().sum());
            });
  system.loss("text", [](const Values&) { return 1.0; });
  return system;
}

struct HeldBytes {
  int64_t between = 0, forward = 0, backward = 0;
};

// The most of any rank in the second step, when optimizer states are there.
HeldBytes held(Sharding sharding, Gather gather) {
  static thread_local Trainer* here = nullptr;
  static thread_local HeldBytes own;
  auto system = big_system([](int at) {
    if (here)
      (at == 0 ? own.forward : own.backward) =
          std::max(at == 0 ? own.forward : own.backward, here->held_bytes());
  });
  TrainOptions options;
  options.pp = 4;
  options.microbatches = 4;
  options.gather = gather;
  options.shard["vision"] = sharding;
  auto samples = [](int64_t) {
    std::vector<Values> list;
    for (int64_t i = 0; i < 4; ++i)
      list.push_back(
          {{"tokens", {torch::arange(3)}}, {"patch", {torch::full({kBig}, 0.01 * double(i + 1))}}});
    return list;
  };
  std::mutex mutex;
  HeldBytes most;
  run_threads(4, [&](Transport& world) {
    at::set_num_threads(1);
    Trainer trainer(system, samples, options, world);
    trainer.train_step(0);
    here = &trainer;
    trainer.train_step(1);
    here = nullptr;
    std::lock_guard lock(mutex);
    most.between = std::max(most.between, trainer.held_bytes());
    most.forward = std::max(most.forward, own.forward);
    most.backward = std::max(most.backward, own.backward);
  });
  return most;
}

TEST(ShardingRun, ABigEncodersBytesARankShrinkToShardsAndWhatIsGathered) {
  constexpr double kParameters = kLayers * kBig * kBig, kRanks = 4;
  constexpr double kSlack = 1e5;  // of bytes, for the small backbone
  auto replicated = held(Sharding::replicated, Gather::collective);
  auto print = [](const std::string& what, const HeldBytes& bytes) {
    std::printf("%-18s MiB a rank: %6.1f between operators, %6.1f in a forward, %6.1f in a backward\n",
                what.c_str(), double(bytes.between) / (1 << 20), double(bytes.forward) / (1 << 20),
                double(bytes.backward) / (1 << 20));
  };
  print("replicated", replicated);
  EXPECT_NEAR(double(replicated.between), 16 * kParameters, kSlack);  // values, gradients, two states
  EXPECT_NEAR(double(replicated.backward), 16 * kParameters, kSlack);
  for (auto gather : kGathers) {
    auto full = held(Sharding::full, gather);
    print("full, " + name(gather), full);
    double shards = 16 * kParameters / kRanks;
    EXPECT_NEAR(double(full.between), shards, kSlack);
    EXPECT_NEAR(double(full.forward), shards + 4 * kParameters, kSlack);
    EXPECT_NEAR(double(full.backward), shards + 8 * kParameters, kSlack);
  }
}

}  // namespace
}  // namespace bigmac::train
