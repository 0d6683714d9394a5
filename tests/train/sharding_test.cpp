#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "bigmac/runtime/threads_transport.h"
#include "tests/support/roles.h"
#include "tests/train/systems.h"

namespace bigmac::train {
namespace {

constexpr Gather kGathers[] = {Gather::collective, Gather::one_sided};

// All encoders and generators fully sharded.
TrainOptions fully_sharded(const System& system, Gather gather) {
  TrainOptions options;
  options.microbatches = 4;
  options.dtype = "float64";
  options.gather = gather;
  for (const auto& module : system.modules()) options.shard[module.name] = Sharding::full;
  return options;
}

void expect_exact(const System& system, const Batches& samples, const TrainOptions& options) {
  auto plain = run_plainly(system, samples(0), options);
  auto got = run_in_threads(system, samples, options);
  auto far = distance(got.gradients, plain.gradients);
  EXPECT_LT(far.most, 1e-10) << far.name;
  EXPECT_NEAR(got.figures.loss, plain.loss, 1e-12 * std::abs(plain.loss));
}

// The parameters after some steps in threads, on the whole.
NamedTensors trained(const System& system, const Batches& samples, const TrainOptions& options) {
  NamedTensors parameters;
  run_threads(int(options.ranks()), [&](Transport& world) {
    at::set_num_threads(1);
    Trainer trainer(system, samples, options, world);
    for (int64_t step = 0; step < options.steps; ++step) trainer.train_step(step);
    auto gathered = trainer.gather_parameters();
    if (world.rank() == 0) parameters = std::move(gathered);
  });
  return parameters;
}

struct Layout {
  int64_t pp, vpp, dp;
};

TEST(Sharding, GradientsOfEverySystemEqualThePlainLoop) {
  for (const auto& kind : system_kinds()) {
    auto system = make_system(kind);
    auto samples = [&](int64_t step) { return make_samples(kind, {}, step); };
    for (auto gather : kGathers)
      for (auto [pp, vpp, dp] : {Layout{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {4, 1, 1}, {2, 1, 2}}) {
        SCOPED_TRACE(concat(kind, ' ', name(gather), " P=", pp, " V=", vpp, " DP=", dp));
        auto options = fully_sharded(system, gather);
        options.pp = pp;
        options.vpp = vpp;
        options.dp = dp;
        options.microbatches = 4 / dp;
        expect_exact(system, samples, options);
      }
  }
}

TEST(Sharding, GradientsEqualThePlainLoopInEveryTable) {
  auto system = make_system("all at once");
  for (auto [arrangement, base] :
       std::initializer_list<std::pair<Arrangement, std::optional<Base>>>{{Arrangement::nested_fill, {}},
                                                                          {Arrangement::optimus, {}},
                                                                          {Arrangement::megatron, {}},
                                                                          {Arrangement::three_phase, {}},
                                                                          {Arrangement::nested, Base::zb_h1},
                                                                          {Arrangement::nested, Base::gpipe}})
    for (auto gather : kGathers)
      for (bool uneven : {false, true}) {
        bool has_units = arrangement == Arrangement::three_phase || arrangement == Arrangement::nested;
        if (gather == Gather::collective && !has_units) continue;
        SCOPED_TRACE(concat(name(arrangement), ' ', name(gather), uneven ? " uneven" : ""));
        auto options = fully_sharded(system, gather);
        options.pp = 3;
        options.microbatches = 7;
        options.schedule = arrangement;
        options.base = base;
        options.recompute = {"vision"};
        expect_exact(
            system, [&](int64_t step) { return make_samples("all at once", {.uneven = uneven}, step); },
            options);
      }
}

TEST(Sharding, AStepOfTextAloneLeavesZeroGradients) {
  auto system = make_system("captioning");
  for (auto gather : kGathers)
    for (int64_t dp : {1, 2}) {
      SCOPED_TRACE(concat(name(gather), " DP=", dp));
      auto options = fully_sharded(system, gather);
      options.pp = 2;
      options.dp = dp;
      options.microbatches = 2;
      auto samples = [](int64_t step) { return make_samples("captioning", {.text_only = 100}, step); };
      expect_exact(system, samples, options);
      auto got = run_in_threads(system, samples, options);
      EXPECT_EQ(got.gradients.at("vision.in.weight").abs().max().item<double>(), 0);
    }
}

TEST(Sharding, FrozenValuesAreShardedToo) {
  auto system = make_system("all at once");
  for (auto gather : kGathers)
    for (const auto& [freeze, train] :
         std::initializer_list<std::pair<std::vector<std::string>, std::vector<std::string>>>{
             {{"vision.*"}, {}},
             {{"vision.*", "audio.*", "drawing.*"}, {}},
             {{"vision.in.*"}, {}},
             {{"*"}, {"vision.projector.*"}}}) {
      SCOPED_TRACE(concat(name(gather), ' ', freeze.back(), train.empty() ? "" : " all but " + train[0]));
      auto options = fully_sharded(system, gather);
      options.pp = 3;
      options.trained = {freeze, train};
      expect_exact(
          system, [](int64_t step) { return make_samples("all at once", {}, step); }, options);
    }
}

TEST(Sharding, ThreeStepsOfTrainingEndAtTheSameParametersAsReplicated) {
  auto system = make_system("all at once");
  auto samples = [](int64_t step) { return make_samples("all at once", {}, step); };
  for (auto gather : kGathers)
    for (int64_t dp : {1, 2}) {
      SCOPED_TRACE(concat(name(gather), " DP=", dp));
      auto options = fully_sharded(system, gather);
      options.pp = 2;
      options.dp = dp;
      options.microbatches = 2;
      options.steps = 3;
      options.trained.freeze = {"audio.*", "vision.in.*"};
      options.optimizer.clip_norm = 0.1;
      options.optimizer.weight_decay = 0.1;
      auto full = trained(system, samples, options);
      options.shard.clear();
      auto replicated = trained(system, samples, options);
      auto far = distance(full, replicated);
      EXPECT_LT(far.most, 1e-12) << far.name;
    }
}

TEST(Sharding, HalfPrecisionKeepsItsMainWeightsInShards) {
  auto system = make_system("captioning");
  auto samples = [](int64_t step) { return make_samples("captioning", {}, step); };
  for (auto gather : kGathers) {
    SCOPED_TRACE(name(gather));
    auto options = fully_sharded(system, gather);
    options.pp = 2;
    options.dtype = "bfloat16";
    auto full = run_in_threads(system, samples, options).gradients;
    options.steps = 3;
    options.optimizer.learning_rate = 1e-6;  // lost, if it were added to bfloat16
    auto three = trained(system, samples, options);
    EXPECT_EQ(three.at("vision.in.weight").scalar_type(), torch::kFloat32);
    options.shard.clear();
    auto far = distance(full, run_in_threads(system, samples, options).gradients);
    EXPECT_LT(far.most, 1e-5) << far.name;
    far = distance(three, trained(system, samples, options));
    EXPECT_LT(far.most, 1e-5) << far.name;
    auto moved = three.at("vision.in.weight") - three.at("vision.in.weight").to(torch::kBFloat16);
    EXPECT_GT(moved.abs().max().item<double>(), 0);
  }
}

TEST(Sharding, BetweenOperatorsNoMemoryIsHeldForAModulesValues) {
  auto system = make_system("all at once");
  for (auto gather : kGathers) {
    auto options = fully_sharded(system, gather);
    options.pp = 2;
    options.trained.freeze = {"vision.in.*"};
    run_threads(2, [&](Transport& world) {
      Trainer trainer(
          system, [](int64_t step) { return make_samples("all at once", {}, step); }, options, world);
      auto expect_free = [&] {
        for (int module = 0; module < 4; ++module)
          for (const auto& parameter : trainer.model().parameters_of_module(module)) {
            EXPECT_EQ(parameter.leaves[0].storage().nbytes(), 0u) << parameter.name;
            EXPECT_FALSE(parameter.leaves[0].grad().defined()) << parameter.name;
          }
      };
      expect_free();
      trainer.train_step(0);
      expect_free();
    });
  }
}

TEST(Sharding, ACheckpointGoesOnInAnotherLayout) {
  auto system = make_system("all at once");
  auto samples = [](int64_t step) { return make_samples("all at once", {}, step); };
  auto run = [&](const TrainOptions& options, int64_t until) {
    NamedTensors parameters;
    run_threads(int(options.ranks()), [&](Transport& world) {
      at::set_num_threads(1);
      Trainer trainer(system, samples, options, world);
      for (int64_t step = trainer.resume(); step < until; ++step) trainer.train_step(step);
      if (until < options.steps) trainer.save(until);
      trainer.finish_saving();
      auto gathered = trainer.gather_parameters();
      if (world.rank() == 0) parameters = std::move(gathered);
    });
    return parameters;
  };
  for (auto gather : kGathers) {
    SCOPED_TRACE(name(gather));
    auto options = fully_sharded(system, gather);
    options.steps = 4;
    options.trained.freeze = {"vision.in.*"};
    options.pp = 2;
    options.dp = 2;
    options.microbatches = 2;
    auto undisturbed = trained(system, samples, options);
    TemporaryFolder folder;
    options.checkpoints = folder.path() + "/full";
    run(options, 2);
    auto other = fully_sharded(system, gather == Gather::collective ? Gather::one_sided : Gather::collective);
    other.steps = 4;
    other.trained = options.trained;
    other.checkpoints = options.checkpoints;
    other.pp = 3;
    auto far = distance(run(other, 4), undisturbed);
    EXPECT_LT(far.most, 1e-9) << far.name;
    for (auto& [module, sharding] : other.shard) sharding = Sharding::replicated;
    far = distance(run(other, 4), undisturbed);
    EXPECT_LT(far.most, 1e-9) << far.name;
  }
}

// Over processes: every rank runs; rank 0 compares.
void run_as_processes(Transport& world, Gather gather) {
  auto system = make_system("all at once");
  auto samples = [](int64_t step) { return make_samples("all at once", {}, step); };
  auto options = fully_sharded(system, gather);
  options.pp = 2;
  options.dp = 2;
  options.microbatches = 3;
  Trainer trainer(system, samples, options, world);
  trainer.compute_gradients(0);
  auto gradients = trainer.gather_gradients();
  if (world.rank() == 0) {
    auto far = distance(gradients, run_plainly(system, samples(0), options).gradients);
    if (!(far.most < 1e-10)) throw Failure(concat(far.name, " is off by ", far.most));
  }
  for (int64_t step = 0; step < 2; ++step) trainer.train_step(step);
  world.barrier();
}

TEST(Sharding, ProcessesGetTheSameGradients) {
  roles::run("sharding.collective", 4);
  roles::run("sharding.one-sided", 4);
}

const bool collective_role = roles::add("sharding.collective", [](Transport& world, const std::string&) {
  run_as_processes(world, Gather::collective);
});
const bool one_sided_role = roles::add("sharding.one-sided", [](Transport& world, const std::string&) {
  run_as_processes(world, Gather::one_sided);
});

}  // namespace
}  // namespace bigmac::train
