#include "bigmac/train/trainer.h"

#include <cmath>
#include <cstring>
#include <numbers>

#include "tests/support/roles.h"
#include "tests/train/small_system.h"

namespace bigmac::train {
namespace {

constexpr int64_t kSteps = 5;

struct Training {
  std::vector<double> losses;
  NamedTensors parameters;
  int64_t resumed = 0;
};

// Steps first..last-1, from what `options.checkpoints` hold if they hold something; saved behind the last.
Training train(const System& system, const Batches& batches, const TrainOptions& options,
               int64_t last = kSteps) {
  Training run;
  run_threads(int(options.ranks()), [&](Transport& world) {
    Trainer trainer(system, batches, options, world);
    int64_t first = options.checkpoints.empty() ? 0 : trainer.resume();
    std::vector<double> losses;
    for (int64_t step = first; step < last; ++step) losses.push_back(trainer.train_step(step).loss);
    auto parameters = trainer.gather_parameters();
    trainer.save(last);
    trainer.finish_saving();
    if (world.rank() == 0) run = {losses, std::move(parameters), first};
  });
  return run;
}

// On a single rank, whose errors come as they are.
void with_trainer(const System& system, const Batches& batches, const TrainOptions& options,
                  const std::function<void(Trainer&)>& body) {
  auto world = make_threads_group(1);
  Trainer trainer(system, batches, options, *world[0]);
  body(trainer);
}

std::string complaint(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

TrainOptions five_steps(TrainOptions options) {
  options.steps = kSteps;
  options.optimizer.learning_rate = 3e-3;
  options.optimizer.warmup_steps = 1;
  options.optimizer.weight_decay = 0.01;
  return options;
}

Batches batches_of(const std::string& kind) {
  return [kind](int64_t step) { return make_samples(kind, {.samples = 9}, step); };
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i] / expected[i], 1, tolerance) << "step " << i << " of those";
}

TrainOptions with_states_sharded(TrainOptions options, const System& system, Sharding sharding) {
  for (const auto& name : system.names()) options.shard[name] = sharding;
  options.shard[system.backbone().name] = Sharding::states;
  return options;
}

class Systems : public testing::TestWithParam<std::string> {};

TEST_P(Systems, TrainAlikeInEveryLayoutAndWithStatesSharded) {
  auto system = make_system(GetParam());
  auto batches = batches_of(GetParam());
  auto one = train(system, batches, five_steps(layout(1, 1, 1, 4)));
  ASSERT_EQ(one.losses.size(), size_t(kSteps));
  for (size_t i = 1; i < one.losses.size(); ++i) EXPECT_NE(one.losses[i], one.losses[0]);
  for (const auto& options : {layout(2, 2, 1, 4), layout(2, 1, 2, 2)}) {
    SCOPED_TRACE(concat("P=", options.pp, " V=", options.vpp, " DP=", options.dp));
    auto run = train(system, batches, five_steps(options));
    expect_near(run.losses, one.losses, 1e-9);
    auto sharded = train(system, batches, with_states_sharded(five_steps(options), system, Sharding::states));
    expect_near(sharded.losses, run.losses, 1e-12);
    auto far = distance(sharded.parameters, run.parameters);
    EXPECT_LT(far.most, 1e-12) << far.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Trainer, Systems, testing::ValuesIn(system_kinds()), [](const auto& kind) {
  auto text = kind.param;
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
});

// Layouts that differ in P, V, DP and in what is sharded; each goes on from what each has saved.
TEST(Resume, GoesOnWithAnyOtherLayout) {
  const std::string kind = "all at once";
  auto system = make_system(kind);
  auto batches = batches_of(kind);
  std::vector<TrainOptions> layouts{layout(2, 1, 1, 4), layout(1, 1, 1, 4), layout(2, 2, 1, 4),
                                    layout(4, 1, 1, 4), layout(2, 1, 2, 2)};
  for (auto& options : layouts) options = five_steps(options);
  layouts.push_back(with_states_sharded(layouts.back(), system, Sharding::states));
  layouts.push_back(with_states_sharded(layouts.back(), system, Sharding::full));
  std::vector<Training> undisturbed;
  for (const auto& options : layouts) undisturbed.push_back(train(system, batches, options));
  std::vector<std::pair<size_t, size_t>> pairs{{4, 0}, {4, 4}, {6, 1}, {6, 6}};
  for (size_t to = 0; to < layouts.size(); ++to) pairs.emplace_back(0, to);
  for (auto [from, to] : pairs) {
    SCOPED_TRACE(concat("from layout ", from, " to ", to));
    TemporaryFolder folder;
    auto begin = layouts[from], end = layouts[to];
    begin.checkpoints = end.checkpoints = folder.path();
    auto first = train(system, batches, begin, 3);
    EXPECT_EQ(first.resumed, 0);
    auto second = train(system, batches, end);
    EXPECT_EQ(second.resumed, 3);
    std::vector<double> rest(undisturbed[to].losses.begin() + 3, undisturbed[to].losses.end());
    expect_near(second.losses, rest, 1e-10);
    auto far = distance(second.parameters, undisturbed[to].parameters);
    EXPECT_LT(far.most, 1e-9) << far.name;
    if (from != to) continue;
    EXPECT_EQ(second.losses, rest);
    for (const auto& [name, value] : second.parameters)
      EXPECT_TRUE(torch::equal(value, undisturbed[to].parameters.at(name))) << name;
  }
}

TEST(Resume, StartsAtZeroWhereNothingWasSaved) {
  TemporaryFolder folder;
  auto options = layout(1, 1, 1, 2);
  options.checkpoints = folder.path() + "/not/yet";
  with_trainer(small_system(), always(small_samples({{}, {}})), options,
               [](Trainer& trainer) { EXPECT_EQ(trainer.resume(), 0); });
}

// What is frozen is saved and loaded too, and may be trained from then on.
TEST(Resume, TakesFrozenParametersWithIt) {
  TemporaryFolder folder;
  auto system = small_system();
  auto samples = always(small_samples(std::vector<SampleShape>(4, {5, 3, {2}})));
  auto options = five_steps(layout(2, 1, 1, 4));
  options.checkpoints = folder.path();
  auto first = train(system, samples, options, 2);
  options.trained.freeze = {"vision.*"};
  auto second = train(system, samples, options, 3);
  EXPECT_EQ(second.resumed, 2);
  EXPECT_TRUE(
      torch::equal(second.parameters.at("vision.tower.weight"), first.parameters.at("vision.tower.weight")));
  EXPECT_FALSE(torch::equal(second.parameters.at("llm.head.weight"), first.parameters.at("llm.head.weight")));
  options.trained.freeze = {};
  auto third = train(system, samples, options, 4);
  EXPECT_EQ(third.resumed, 3);
  EXPECT_FALSE(
      torch::equal(third.parameters.at("vision.tower.weight"), first.parameters.at("vision.tower.weight")));
}

// Whichever parameters come to be trained: the others go on with their moments.
TEST(Resume, KeepsTheMomentsOfWhatWasTrainedAndStartsOthersAtZero) {
  auto system = small_system();
  auto samples = always(small_samples(std::vector<SampleShape>(4, {5, 3, {2}})));
  for (const std::string part : {"projector", "tower"}) {
    TemporaryFolder folder;
    auto options = five_steps(layout(1, 1, 1, 4));
    options.checkpoints = folder.path();
    options.trained.freeze = {"vision." + part + ".*"};
    train(system, samples, options, 2);
    auto moments = [&](const std::string& name) {
      NamedTensors one{{"optimizer/vision." + name + ".weight.exp_avg", {}}};
      one.begin()->second =
          torch::empty(name == "tower" ? at::IntArrayRef{8, 6} : at::IntArrayRef{12, 8}, torch::kFloat64);
      Checkpoint::newest(folder.path())->load_into(one);
      return one.begin()->second;
    };
    std::string other = part == "tower" ? "projector" : "tower";
    auto before = moments(other);
    EXPECT_GT(before.abs().max().item<double>(), 0);
    options.trained.freeze = {};
    train(system, samples, options, 2);  // no step more: saved as it was loaded
    EXPECT_TRUE(torch::equal(moments(other), before));
    EXPECT_EQ(moments(part).abs().max().item<double>(), 0);
  }
}

// What resuming with `system` and `options` from a checkpoint of `saved` complains of.
std::string resume_complaint(const System& saved, const System& system, uint64_t seed = 1) {
  TemporaryFolder folder;
  auto options = layout(1, 1, 1, 2);
  options.checkpoints = folder.path();
  with_trainer(saved, always({}), options, [](Trainer& trainer) {
    trainer.save(3);
    trainer.finish_saving();
  });
  options.seed = seed;
  auto text = complaint(
      [&] { with_trainer(system, always({}), options, [](Trainer& trainer) { trainer.resume(); }); });
  auto at = text.find(folder.path());
  return at == std::string::npos ? text : text.replace(at, folder.path().size(), "FOLDER");
}

TEST(Resume, RefusesAnotherSeed) {
  EXPECT_EQ(
      resume_complaint(small_system(), small_system(), 2),
      "[train] 'FOLDER/step-00000003' was trained with seed 1, this run has 2: it would go on with other "
      "data");
}

TEST(Resume, RefusesAnotherModelsCheckpoint) {
  EXPECT_EQ(resume_complaint(small_system({.layers = 5}), small_system({.layers = 6})),
            "FOLDER/step-00000003 has no tensor 'llm.layers.5.bias' (did you mean 'llm.layers.0.bias'?)");
  EXPECT_EQ(resume_complaint(small_system({.layers = 6}), small_system({.layers = 5})),
            "[train] 'FOLDER/step-00000003' holds 18 parameters and buffers, the system has 16: it is of "
            "another model");
  EXPECT_EQ(
      resume_complaint(small_system({.width = 12}), small_system({.width = 16})),
      "FOLDER/step-00000003: tensor 'llm.embedding.weight' is F64 [20, 12], the one to load into is F64 [20, "
      "16]");
  EXPECT_EQ(resume_complaint(small_system({.tied = true}), small_system()),
            "FOLDER/step-00000003 has no tensor 'llm.head.weight'");
  EXPECT_EQ(resume_complaint(small_system(), small_system()), "no error");
}

TEST(TrainerOptions, RefusePatternsThatMatchNothing) {
  auto system = small_system();
  auto with = [&](Trained trained) {
    auto options = layout(1, 1, 1, 2);
    options.trained = std::move(trained);
    return complaint([&] { with_trainer(system, always({}), options, [](Trainer&) {}); });
  };
  EXPECT_EQ(with({{"vison.*"}, {}}),
            "[train] 'vison.*' matches no parameter; names look like 'vision.tower.weight'");
  EXPECT_EQ(with({{"*"}, {"llm.layers.6.*"}}),
            "[train] 'llm.layers.6.*' matches no parameter; names look like 'vision.tower.weight'");
  EXPECT_EQ(with({{"*"}, {"llm.layers.5.*"}}), "no error");
  // One that another rank's parameters match is one that matches.
  auto options = layout(2, 1, 1, 2);
  options.trained = {{"*"}, {"llm.layers.5.*"}};
  EXPECT_NO_THROW(run_threads(2, [&](Transport& world) { Trainer(system, always({}), options, world); }));
}

TEST(TrainerOptions, RefuseMomentsThatCannotBe) {
  auto with = [&](double beta1, double beta2, double eps) {
    auto options = layout(1, 1, 1, 2);
    options.optimizer.beta1 = beta1;
    options.optimizer.beta2 = beta2;
    options.optimizer.eps = eps;
    return complaint([&] { with_trainer(small_system(), always({}), options, [](Trainer&) {}); });
  };
  EXPECT_EQ(with(0, 0.95, 1e-8), "no error");
  EXPECT_EQ(with(2, 0.95, 1e-8), "[train] optimizer.beta1 is 2, expected 0 or more and below 1");
  EXPECT_EQ(with(0.9, 1, 1e-8), "[train] optimizer.beta2 is 1, expected 0 or more and below 1");
  EXPECT_EQ(with(0.9, 0.95, 0), "[train] optimizer.eps is 0, expected more than 0");
}

TEST(Trainer, RefusesALossThatNothingGives) {
  auto system = small_system();
  system.loss("extra", [](const Values&) { return 1.0; });
  EXPECT_EQ(
      complaint([&] {
        with_trainer(system, always(small_samples({{}, {}})), layout(1, 1, 1, 2),
                     [](Trainer& trainer) { trainer.compute_gradients(0); });
      }),
      "[train] step 0: nothing gave the loss 'extra', though its samples count for it; give its sum, or 0: "
      "x.loss(\"extra\", sum)");
}

TEST(Trainer, TakesParametersByNameAndNamesOneThatIsNotThere) {
  auto taken = [&](NamedTensors given) {
    return complaint([&] {
      with_trainer(small_system(), always({}), layout(1, 1, 1, 2), [&](Trainer& trainer) {
        trainer.set_parameters(given);
        auto all = trainer.gather_parameters();
        for (const auto& [name, tensor] : given) EXPECT_TRUE(torch::equal(all.at(name), tensor)) << name;
      });
    });
  };
  auto head = torch::ones({20, 12}, torch::kFloat64);
  EXPECT_EQ(taken({{"llm.head.weight", head}}), "no error");
  EXPECT_TRUE(
      taken({{"llm.haed.weight", head}, {"llm.head.weight", head}})
          .starts_with(
              "[train] unknown parameter 'llm.haed.weight' (did you mean 'llm.head.weight'?); known: "));
  EXPECT_EQ(taken({{"llm.head.weight", head.t()}}),
            "[train] 'llm.head.weight' is given as [12, 20] Double, the system has it as [20, 12] Double");
}

TEST(TrainerOptions, RefuseAWorldOfAnotherSize) {
  for (auto [pp, dp] : {std::pair<int64_t, int64_t>{2, 1}, {2, 2}, {1, 3}})
    EXPECT_EQ(complaint([&, pp = pp, dp = dp] {
                with_trainer(small_system(), always({}), layout(pp, 1, dp, 2), [](Trainer&) {});
              }),
              concat("[train] ", pp, " pipeline ranks and ", dp, " replicas take ", pp * dp,
                     " ranks, there are 1"));
}

// Steps of 1e-4 of a weight are lost in bfloat16, which has 8 bits; the main weights take them.
TEST(Trainer, KeepsFloat32MainWeightsBesideBFloat16) {
  auto system = small_system();
  auto samples = small_samples(std::vector<SampleShape>(4, {6, 5, {2}}));
  auto options = layout(2, 1, 1, 4);
  options.dtype = "bfloat16";
  options.steps = 1000;
  options.optimizer.learning_rate = 1e-5;
  std::mutex mutex;
  NamedTensors start, main;
  Copies leaves;
  run_threads(2, [&](Transport& world) {
    Trainer trainer(system, always(samples), options, world);
    auto before = trainer.gather_parameters();
    for (int64_t step = 0; step < 3; ++step) trainer.train_step(step);
    auto after = trainer.gather_parameters();
    std::lock_guard lock(mutex);
    for (const auto& parameter : trainer.model().parameters())
      leaves[parameter.name].push_back(parameter.leaves[0].detach().clone());
    if (world.rank() == 0) start = std::move(before), main = std::move(after);
  });
  for (const auto& [name, value] : main) {
    EXPECT_EQ(value.scalar_type(), torch::kFloat32) << name;
    auto moved = (value - start.at(name)).abs().max().item<double>();
    EXPECT_GT(moved, 1e-5) << name;
    EXPECT_LT(moved, 4e-5) << name;
    for (const auto& leaf : leaves.at(name)) {
      EXPECT_EQ(leaf.scalar_type(), torch::kBFloat16) << name;
      EXPECT_TRUE(torch::equal(leaf, value.to(torch::kBFloat16))) << name;
    }
  }
}

TEST(Trainer, LowersTheLossInEveryDtype) {
  auto system = small_system();
  auto samples = always(small_samples(std::vector<SampleShape>(4, {6, 5, {2}})));
  std::vector<double> last;
  for (const char* dtype : {"float64", "float32", "bfloat16"}) {
    auto options = layout(2, 1, 2, 2);
    options.dtype = dtype;
    options.steps = 30;
    options.optimizer.learning_rate = 1e-2;
    auto losses = train(system, samples, options, 30).losses;
    EXPECT_LT(losses.back(), 0.5 * losses.front()) << dtype;
    last.push_back(losses.back());
  }
  EXPECT_NEAR(last[1] / last[0], 1, 1e-3);
  EXPECT_NEAR(last[2] / last[0], 1, 0.2);
}

TEST(LearningRate, WarmsUpAndFallsAsACosine) {
  OptimizerConfig config{.learning_rate = 2, .warmup_steps = 4, .final_learning_rate = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(config, 0, 25), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 3, 25), 2);
  EXPECT_DOUBLE_EQ(learning_rate(config, 4, 25), 2);
  EXPECT_DOUBLE_EQ(learning_rate(config, 14, 25), 1.25);
  EXPECT_DOUBLE_EQ(learning_rate(config, 24, 25), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 25), 0.5);
  for (int64_t step = 4; step < 24; ++step)
    EXPECT_GT(learning_rate(config, step, 25), learning_rate(config, step + 1, 25));
  EXPECT_DOUBLE_EQ(learning_rate({.learning_rate = 2}, 0, 1), 2);
}

// The rate of a step is taken: Adam's first step moves every weight whose gradient is not tiny by it.
TEST(LearningRate, IsWhatAStepTakes) {
  auto options = layout(1, 1, 1, 2);
  options.steps = 8;
  options.optimizer.learning_rate = 1e-3;
  options.optimizer.warmup_steps = 4;
  with_trainer(
      small_system(), always(small_samples({{6, 5, {2}}, {6, 5, {2}}})), options, [&](Trainer& trainer) {
        auto before = trainer.gather_parameters();
        EXPECT_DOUBLE_EQ(trainer.train_step(0).learning_rate, 0.25e-3);
        auto after = trainer.gather_parameters();
        auto moved = (after.at("llm.head.weight") - before.at("llm.head.weight")).abs().max().item<double>();
        EXPECT_NEAR(moved, 0.25e-3, 1e-7);
        for (int64_t step = 1; step < 8; ++step)
          EXPECT_DOUBLE_EQ(trainer.train_step(step).learning_rate, learning_rate(options.optimizer, step, 8));
      });
}

// The norm over all ranks is that of the whole gradient, and what is beyond it is scaled down.
TEST(Trainer, ClipsTheGradientOfAllRanksTogether) {
  auto system = small_system({.tied = true});
  auto samples = small_samples(std::vector<SampleShape>(4, {6, 5, {2}}));
  double squares = 0;
  for (const auto& [name, gradient] : run_plainly(system, samples, layout(1, 1, 1, 4)).gradients)
    squares += gradient.square().sum().item<double>();
  for (auto sharding : {Sharding::replicated, Sharding::states})
    for (const auto& shape : {layout(1, 1, 1, 4), layout(4, 1, 1, 4), layout(2, 1, 2, 2)}) {
      auto options = with_states_sharded(shape, system, sharding);
      options.shard["llm"] = sharding;
      options.optimizer.clip_norm = std::sqrt(squares) / 10;
      NamedTensors clipped;
      StepFigures figures;
      run_threads(int(options.ranks()), [&](Transport& world) {
        Trainer trainer(system, always(samples), options, world);
        auto own = trainer.train_step(0);
        auto gradients = trainer.gather_gradients();
        if (world.rank() == 0) figures = own, clipped = std::move(gradients);
      });
      EXPECT_NEAR(figures.gradient_norm / std::sqrt(squares), 1, 1e-12);
      double after = 0;
      for (const auto& [name, gradient] : clipped) after += gradient.square().sum().item<double>();
      EXPECT_NEAR(std::sqrt(after) / options.optimizer.clip_norm, 1, 1e-4);
    }
}

}  // namespace
}  // namespace bigmac::train
