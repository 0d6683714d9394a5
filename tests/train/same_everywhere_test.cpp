// What must not depend on where a part of a system stands, or on what ran before it.

#include <torch/nn/init.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "bigmac/train/session.h"
#include "tests/support/roles.h"
#include "tests/train/small_system.h"

namespace bigmac::train {
namespace {

System dropping() {
  return small_system(
      {.on_first = [](torch::Tensor& hidden) { hidden = torch::dropout(hidden, 0.5, true); }});
}

std::vector<Values> eight_samples() {
  return small_samples(std::vector<SampleShape>(8, {5, 3, {2}}));
}

NamedTensors gradients_of(const TrainOptions& options, int64_t step = 0) {
  NamedTensors gradients;
  auto system = dropping();
  run_threads(int(options.ranks()), [&](Transport& world) {
    Trainer trainer(system, always(eight_samples()), options, world);
    torch::rand({world.rank() + 3});
    trainer.compute_gradients(step);
    auto all = trainer.gather_gradients();
    if (world.rank() == 0) gradients = all;
  });
  return gradients;
}

TEST(Dropout, IsTheSameInEveryRunCutAndRecomputationAndAnotherInEveryStep) {
  auto options = layout(1, 1, 1, 4);
  auto first = gradients_of(options);
  EXPECT_EQ(distance(gradients_of(options), first).most, 0);
  EXPECT_GT(distance(gradients_of(options, 1), first).most, 1e-3);
  options.recompute = {"llm"};
  EXPECT_EQ(distance(gradients_of(options), first).most, 0);
  options.vpp = 2;
  options.base = Base::interleaved;
  EXPECT_LT(distance(gradients_of(options), first).most, kTolerance);
  options.seed = 2;
  EXPECT_GT(distance(gradients_of(options), first).most, 1e-3);
}

TEST(Dropout, OfARecomputedModuleIsRefusedWhereRanksShareAGenerator) {
  auto options = layout(2, 1, 1, 4);
  EXPECT_EQ(thrown_by([&] { gradients_of(options); }), "no error");
  options.recompute = {"llm"};
  EXPECT_EQ(
      thrown_by([&] { gradients_of(options); }),
      "rank 0: [system] recompute: random numbers were drawn while 'llm' ran (dropout?), and ranks that are "
      "threads share them, so that its recomputation would draw others; take ranks that are processes");
}

TEST(Dropout, GoesOnAfterAResumeAsWithoutOne) {
  TemporaryFolder folder;
  auto system = dropping();
  auto options = layout(1, 1, 1, 4);
  options.steps = 4;
  auto losses_of = [&](int64_t steps, const std::string& checkpoints) {
    std::vector<double> losses;
    auto some = options;
    some.steps = steps;
    some.checkpoints = checkpoints;
    some.resume = !checkpoints.empty();
    some.optimizer.warmup_steps = 0;
    some.optimizer.final_learning_rate = some.optimizer.learning_rate;
    train(system, always(eight_samples()), some,
          {.step = [&](const StepFigures& figures) { losses.push_back(figures.loss); }});
    return losses;
  };
  auto whole = losses_of(4, "");
  losses_of(2, folder.path());
  EXPECT_EQ(losses_of(4, folder.path()), std::vector<double>(whole.begin() + 2, whole.end()));
}

TEST(Initialise, MayDrawAndGivesEveryRankTheSameValues) {
  auto system = small_system({.tied = true});
  system.initialise([](torch::nn::Module& module, uint64_t, std::string_view) {
    for (auto& parameter : module.parameters())
      if (parameter.dim() > 1) torch::nn::init::xavier_uniform_(parameter);
  });
  Collector collector;
  run_ranks(system, eight_samples(), layout(2, 1, 2, 2), [&](Trainer& trainer) { collector.add(trainer); });
  for (const auto& [name, copies] : collector.copies()) {
    EXPECT_GE(copies.size(), 2u) << name;
    for (const auto& copy : copies) EXPECT_TRUE(same_bits(copy, copies[0])) << name;
  }
}

TEST(Initialise, IsRefusedWhereRanksComeToOtherValues) {
  auto system = small_system();
  std::atomic<int> calls{0};
  system.initialise([&](torch::nn::Module& module, uint64_t, std::string_view prefix) {
    torch::NoGradGuard no_grad;
    if (prefix == "vision.") module.parameters()[0].fill_(++calls);
  });
  auto text = thrown_by([&] { run_ranks(system, eight_samples(), layout(2, 1, 1, 4), [](Trainer&) {}); });
  EXPECT_NE(text.find("[train] 'vision' starts with other values on rank 1 than on rank 0"),
            std::string::npos)
      << text;
}

// A table that a module holds fixed, and a count of its runs.
struct Counting : torch::nn::Module {
  explicit Counting(int64_t width)
      : weight(register_parameter("weight", torch::ones({width}))),
        fixed(register_parameter("fixed", torch::full({width}, 0.5), false)),
        runs(register_buffer("runs", torch::zeros({}, torch::kLong))) {}
  torch::Tensor weight, fixed, runs;
};

System counting() {
  System system;
  system.data({"tokens"});
  auto layer = [](Counting& module, Flow& x) {
    module.runs += 1;
    x.set("hidden", x["hidden"] * module.weight + module.fixed);
  };
  system.backbone("llm", {{"tokens"}})
      .embedding([] { return torch::nn::Embedding(10, 4); },
                 [](torch::nn::EmbeddingImpl& table, Items samples, Flow& x) {
                   x.set("hidden", table.forward(samples[0]["tokens"]));
                 })
      .layers(
          3, [](int64_t) { return std::make_shared<Counting>(4); }, layer)
      .head(
          [] { return std::make_shared<Counting>(4); },
          [](Counting&, Items, Flow& x, std::vector<Values>&) { x.loss("sum", x["hidden"].square().sum()); });
  system.loss("sum", [](const Values&) { return 1.0; });
  return system;
}

TEST(Buffers, AreSavedAndLoadedInAnyLayout) {
  TemporaryFolder folder;
  auto system = counting();
  auto samples = always({{{"tokens", {torch::arange(3)}}}, {{"tokens", {torch::arange(4)}}}});
  auto options = layout(1, 1, 1, 2);
  options.checkpoints = folder.path();
  options.resume = true;
  auto runs_after = [&](int64_t steps, int64_t pp, int64_t vpp) {
    options.steps = steps;
    options.pp = pp;
    options.vpp = vpp;
    std::map<std::string, int64_t> runs;
    std::mutex mutex;
    train(system, samples, options, {.end = [&](Trainer& trainer) {
            std::lock_guard lock(mutex);
            for (int chunk = 0; chunk < trainer.model().chunks(); ++chunk)
              for (const auto& [name, buffer] : trainer.model().buffers_of_chunk(chunk))
                runs[name] = buffer.item<int64_t>();
          }});
    return runs;
  };
  auto all = [](int64_t runs) {
    return std::map<std::string, int64_t>{{"llm.layers.0.runs", runs},
                                          {"llm.layers.1.runs", runs},
                                          {"llm.layers.2.runs", runs},
                                          {"llm.head.runs", 0}};
  };
  EXPECT_EQ(runs_after(2, 1, 1), all(4));
  EXPECT_EQ(runs_after(3, 2, 1), all(6));
  EXPECT_EQ(runs_after(5, 1, 2), all(10));
}

TEST(FixedParameters, OfAModuleAreNeverTrained) {
  auto system = counting();
  auto options = layout(2, 1, 1, 2);
  options.steps = 3;
  options.optimizer.weight_decay = 0.1;
  auto samples = always({{{"tokens", {torch::arange(3)}}}, {{"tokens", {torch::arange(4)}}}});
  Collector collector;
  train(system, samples, options, {.end = [&](Trainer& trainer) { collector.add(trainer); }});
  for (const auto& name : {"llm.layers.0.fixed", "llm.layers.2.fixed", "llm.head.fixed"})
    EXPECT_TRUE(torch::equal(collector.copies().at(name).at(0), torch::full({4}, 0.5, torch::kFloat64)))
        << name;
  EXPECT_FALSE(
      torch::equal(collector.copies().at("llm.layers.0.weight").at(0), torch::ones({4}, torch::kFloat64)));
}

// Two names of one tensor.
struct Twice : torch::nn::Module {
  Twice()
      : first(register_parameter("first", torch::full({4}, 0.5))),
        second(register_parameter("second", first)) {}
  torch::Tensor first, second;
};

TEST(SharedTensors, OfOneModuleAreOneParameterAndOfTwoAreRefused) {
  auto shared = std::make_shared<Twice>();
  auto with = [&](const std::function<std::shared_ptr<Twice>()>& make) {
    System system;
    system.data({"tokens"});
    system.backbone("llm", {{"tokens"}})
        .embedding([] { return torch::nn::Embedding(10, 4); },
                   [](torch::nn::EmbeddingImpl& table, Items samples, Flow& x) {
                     x.set("hidden", table.forward(samples[0]["tokens"]));
                   })
        .layers(
            2, [&](int64_t) { return make(); },
            [](Twice& module, Flow& x) { x.set("hidden", x["hidden"] * module.first * module.second); })
        .head([] { return torch::nn::Linear(4, 1); },
              [](torch::nn::LinearImpl& head, Items, Flow& x, std::vector<Values>&) {
                x.loss("sum", head.forward(x["hidden"]).sum());
              });
    system.loss("sum", [](const Values&) { return 1.0; });
    return thrown_by([&] {
      auto got = run_in_threads(system, always({{{"tokens", {torch::arange(3)}}}}), layout(1, 1, 1, 1));
      EXPECT_TRUE(got.gradients.contains("llm.layers.0.first"));
      EXPECT_FALSE(got.gradients.contains("llm.layers.0.second"));
    });
  };
  EXPECT_EQ(with([] { return std::make_shared<Twice>(); }), "no error");
  EXPECT_EQ(with([&] { return shared; }),
            "rank 0: [system] 'llm.layers.0.first' and 'llm.layers.1.first' are one tensor, which stages "
            "cannot share; "
            "declare it: tie(...)");
}

TEST(MeasuredSplit, LeavesASlowLayerAlone) {
  auto system = small_system(
      {.on_first = [](torch::Tensor&) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }});
  auto options = layout(2, 1, 2, 2);
  auto cut_of = [&] {
    std::vector<int64_t> first;
    train(system, always(eight_samples()), options, {.end = [&](Trainer& trainer) {
            if (trainer.rank() == 0) first = trainer.model().cut().first;
          }});
    return first;
  };
  EXPECT_EQ(cut_of(), (std::vector<int64_t>{0, 4, 8}));
  options.measured_split = true;
  TemporaryFolder folder;
  options.checkpoints = folder.path();
  options.checkpoint_every = 1;
  options.resume = true;
  EXPECT_EQ(cut_of(), (std::vector<int64_t>{0, 2, 8}));  // the embedding and the first layer; the others
  options.cut.split = {3, 3};
  EXPECT_EQ(thrown_by(cut_of),
            "[train] a measured split finds the stages' layers; leave split and layout out");
}

}  // namespace
}  // namespace bigmac::train
