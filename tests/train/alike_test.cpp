// Ranks that were started otherwise than one another, and what users' functions throw, are told by name.

#include "bigmac/nn/decoder.h"
#include "bigmac/nn/lists.h"
#include "bigmac/nn/qwen3_weights.h"
#include "bigmac/train/program.h"
#include "tests/support/roles.h"
#include "tests/train/small_system.h"

namespace bigmac::train {
namespace {

std::vector<Values> four_samples() {
  return small_samples(std::vector<SampleShape>(4, {5, 3, {2}}));
}

// What two ranks say of options of their own.
std::string with_options(const std::function<void(TrainOptions&)>& change) {
  auto system = small_system();
  return thrown_by([&] {
    run_threads(2, [&](Transport& world) {
      auto options = layout(1, 1, 2, 2);
      if (world.rank() == 1) change(options);
      Trainer trainer(system, always(four_samples()), options, world);
      trainer.compute_gradients(0);
    });
  });
}

TEST(Ranks, OfOneRunHaveTheSameOptions) {
  auto differs = [](const std::string& here, const std::string& there) {
    return concat("[train] rank 1 has '", here, "' where rank 0 has '", there,
                  "'; start all ranks with the same program, options and files");
  };
  using O = TrainOptions;
  auto expect = [&](const std::function<void(O&)>& change, const std::string& here,
                    const std::string& there) {
    auto text = with_options(change);
    EXPECT_EQ(text.substr(text.find('[')), differs(here, there));
  };
  expect([](O& o) { o.microbatches = 1; }, "microbatches: 1", "microbatches: 2");
  expect([](O& o) { o.pp = 2, o.dp = 1; }, "pp: 2", "pp: 1");
  expect([](O& o) { o.schedule = Arrangement::optimus; }, "schedule: optimus", "schedule: nested");
  expect([](O& o) { o.seed = 3; }, "seed: 3", "seed: 1");
  EXPECT_NE(with_options([](O& o) { o.trained.freeze = {"vision.*"}; }), "no error");
  EXPECT_NE(with_options([](O& o) { o.shard["llm"] = Sharding::states; }), "no error");
  EXPECT_NE(with_options([](O& o) { o.cut.split = {6}; }), "no error");
  EXPECT_EQ(with_options([](O& o) { o.threads_per_rank = 2; }), "no error");
}

TEST(Ranks, OfOneRunAreTheSameSystem) {
  auto text = thrown_by([&] {
    auto six = small_system(), five = small_system({.layers = 5});
    run_threads(2, [&](Transport& world) {
      Trainer(world.rank() == 0 ? six : five, always({}), layout(1, 1, 2, 2), world);
    });
  });
  EXPECT_NE(text.find("[train] rank 1 has 'llm.head costs 0' where rank 0 has 'llm.layers.5 costs 1'"),
            std::string::npos)
      << text;
}

TEST(Ranks, OfOneStepAreGivenTheSameSamples) {
  auto system = small_system();
  for (bool replicas : {false, true})
    for (int64_t labels : {2, 3}) {
      auto text = thrown_by([&] {
        run_threads(2, [&](Transport& world) {
          auto samples = four_samples();
          if (world.rank() == 1 && labels == 2) samples.push_back(samples[0]);
          if (world.rank() == 1 && labels == 3) samples[2].set("patches", Tensors{});
          auto options = replicas ? layout(1, 1, 2, 2) : layout(2, 1, 1, 2);
          Trainer(system, always(samples), options, world).compute_gradients(7);
        });
      });
      EXPECT_NE(
          text.find(
              "[train] step 7: rank 1 is given other samples than rank 0; batches(step) must give every "
              "rank the same, from the step alone"),
          std::string::npos)
          << text;
    }
}

TEST(Trainer, RefusesToTrainNothing) {
  auto options = layout(2, 1, 1, 2);
  options.trained.freeze = {"*"};
  auto text = thrown_by([&] { run_ranks(small_system(), four_samples(), options, [](Trainer&) {}); });
  EXPECT_NE(text.find("[train] nothing is trained: every parameter is frozen"), std::string::npos) << text;
}

TEST(UserFunctions, SayWhereTheyThrow) {
  auto with = [&](const std::function<void(torch::Tensor&)>& look) {
    return thrown_by([&] {
      run_ranks(small_system({.on_first = look}), four_samples(), layout(1, 1, 2, 2), [](Trainer&) {});
    });
  };
  std::string where = "llm.layers.0, step 0, microbatch ";
  auto expect = [&](const std::string& text, const std::string& what) {
    EXPECT_NE(text.find(where), std::string::npos) << text;
    EXPECT_NE(text.find(": " + what), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  };
  expect(with([](torch::Tensor&) { throw std::runtime_error("unhappy"); }), "unhappy");
  expect(with([](torch::Tensor& hidden) {
           hidden = torch::matmul(hidden, torch::ones({3, 3}, hidden.options()));
         }),
         "mat1 and mat2 shapes cannot be multiplied");
  expect(with([](torch::Tensor&) { throw 42; }), "it threw something that is no std::exception");
}

// A program's exit code, and what it printed.
std::pair<int, std::string> program(std::vector<std::string> words, const Reports& more = {}) {
  words.insert(words.begin(), "prog");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  int code =
      run_program(small_system(), always(four_samples()), int(argv.size()), argv.data(), {.steps = 2}, more);
  return {code, testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr()};
}

TEST(Program, NamesWhatIsWrongWithItsArguments) {
  auto expect = [](std::vector<std::string> words, const std::string& text) {
    auto [code, printed] = program(std::move(words));
    EXPECT_EQ(code, 2);
    EXPECT_EQ(printed, "bigmac: error: " + text + "\n");
  };
  expect({"--pp", "2", "--pp", "4"}, "--pp is given 2 times; give it once; see prog --help");
  expect({"--learning-rte", "1"},
         "unknown option '--learning-rte' (did you mean '--learning-rate'?); see prog --help");
  expect({"--learning-rate", "fast"}, "--learning-rate must be a number from 0, got 'fast'");
  expect({"--dtype"}, "--dtype needs a value; see prog --help");
  expect({"extra"}, "argument 'extra' is not expected; see prog --help");
  expect({"--checkpoint-every", "5"},
         "[train] checkpoints every some steps need a folder (checkpoints.folder)");
}

TEST(Program, DoesNotWriteOverAnotherRunsCheckpoints) {
  TemporaryFolder folder;
  EXPECT_EQ(program({"--checkpoints", folder.path()}).first, 0);
  auto [code, printed] = program({"--checkpoints", folder.path(), "--steps", "3"});
  EXPECT_EQ(code, 2);
  EXPECT_NE(printed.find("holds a checkpoint of step 2; resume from it, or take another folder"),
            std::string::npos)
      << printed;
  EXPECT_EQ(program({"--checkpoints", folder.path(), "--steps", "3", "--resume"}).first, 0);
  auto [again, text] = program({"--checkpoints", folder.path(), "--steps", "3", "--resume"});
  EXPECT_EQ(again, 0);
  EXPECT_NE(text.find("3 steps are behind it already: nothing is left to train"), std::string::npos) << text;
}

TEST(Program, PrintsHowTheLossWent) {
  auto [code, printed] = program({"--learning-rate", "0"});
  EXPECT_EQ(code, 0);
  auto number = printed.substr(printed.find("loss ") + 5, 6);
  EXPECT_EQ(printed, "2 steps  loss " + number + " -> " + number + "\n");  // nothing has changed
}

// A decoder of Qwen3's kind as a system.
System qwen3(const nn::DecoderConfig& config) {
  System system;
  system.data({"tokens", "labels"});
  system.backbone("llm", {{"tokens", "labels"}})
      .embedding([=] { return torch::nn::Embedding(config.vocabulary, config.hidden); },
                 [](torch::nn::EmbeddingImpl& table, Items samples, Flow& x) {
                   x.set("hidden", table.forward(torch::stack(each_of(samples, "tokens"))));
                 })
      .layers(
          config.layers, [=](int64_t) { return nn::DecoderLayer(config); },
          [](nn::DecoderLayerImpl& layer, Flow& x) { x.set("hidden", layer.forward(x["hidden"])); })
      .head([=] { return nn::DecoderHead(config.hidden, config.vocabulary); },
            [](nn::DecoderHeadImpl& head, Items samples, Flow& x, std::vector<Values>&) {
              x.loss("text", nn::text_loss(head, head.states(x["hidden"]), each_of(samples, "labels")));
            });
  system.loss("text", [](const Values& sample) { return double(sample["labels"].numel()); });
  return system;
}

TEST(Qwen3, WeightsAreLoadedIntoAPipelineAndSavedFromItByTheirNames) {
  nn::DecoderConfig config{
      .vocabulary = 40, .hidden = 16, .layers = 4, .head_dim = 8, .ffn = 24, .tied_embeddings = false};
  auto system = qwen3(config);
  auto tokens = torch::arange(6);
  auto samples = always(
      {{{"tokens", {tokens}}, {"labels", {tokens}}}, {{"tokens", {tokens + 9}}, {"labels", {tokens}}}});
  NamedTensors theirs;
  double loss = 0;
  auto source = layout(1, 1, 1, 2);
  source.seed = 5;
  run_threads(1, [&](Transport& world) {
    Trainer trainer(system, samples, source, world);
    loss = trainer.compute_gradients(0).loss;
    theirs = nn::to_qwen3(trainer.gather_parameters(), config);
  });
  EXPECT_TRUE(theirs.contains("model.layers.3.self_attn.q_proj.weight"));
  run_threads(4, [&](Transport& world) {
    Trainer trainer(system, samples, layout(2, 2, 2, 1), world);
    EXPECT_GT(std::abs(trainer.compute_gradients(0).loss - loss), 1e-4);
    trainer.set_parameters(nn::from_qwen3(theirs, config));
    EXPECT_NEAR(trainer.compute_gradients(0).loss, loss, 1e-12);
    auto saved = trainer.gather_parameters();
    if (world.rank() != 0) return;
    auto back = nn::to_qwen3(saved, config);
    EXPECT_EQ(back.size(), theirs.size());
    for (const auto& [name, tensor] : theirs) EXPECT_TRUE(torch::equal(back.at(name), tensor)) << name;
  });
}

}  // namespace
}  // namespace bigmac::train
