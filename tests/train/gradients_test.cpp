#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bigmac/runtime/safetensors.h"
#include "bigmac/runtime/threads_transport.h"
#include "tests/support/roles.h"
#include "tests/train/support.h"

namespace bigmac::train {
namespace {

constexpr int64_t kMicrobatches = 16;

struct Cut {
  int64_t pp, vpp;
};
void PrintTo(const Cut& cut, std::ostream* out) {
  *out << "P=" << cut.pp << " V=" << cut.vpp;
}
constexpr Cut kCuts[] = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}};
constexpr Arrangement kArrangements[] = {Arrangement::nested, Arrangement::three_phase};

struct Run {
  std::vector<double> losses;
  std::map<std::string, torch::Tensor> gradients;   // of the first step
  std::map<std::string, torch::Tensor> parameters;  // after the last
};

Run run_rank(const Config& config, int64_t steps, Transport& transport) {
  auto dataset = noise_dataset(60, 16);
  Trainer trainer(config, dataset, transport);
  Run run;
  trainer.compute_gradients(0);
  run.gradients = trainer.gather_gradients();
  for (int64_t step = 0; step < steps; ++step) run.losses.push_back(trainer.train_step(step).loss());
  run.parameters = trainer.gather_parameters();
  return run;
}

Run run_in_threads(const Config& config, int64_t steps) {
  Run run;
  run_threads(int(config.pp), [&](Transport& transport) {
    at::set_num_threads(1);
    auto own = run_rank(config, steps, transport);
    if (transport.rank() == 0) run = std::move(own);
  });
  return run;
}

Run run_plain(const Config& config, int64_t steps) {
  auto dataset = noise_dataset(60, 16);
  PlainLoop loop(config);
  Run run;
  loop.compute_gradients(data::make_batch(dataset, config.batch, 0));
  run.gradients = loop.gradients();
  for (int64_t step = 0; step < steps; ++step)
    run.losses.push_back(loop.train_step(data::make_batch(dataset, config.batch, step), step));
  run.parameters = loop.parameters();
  return run;
}

void expect_equal(const Run& got, const Run& expected, double tolerance) {
  auto difference = largest_difference(got.gradients, expected.gradients);
  EXPECT_LT(difference.most, tolerance) << "gradient of " << difference.name;
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (size_t step = 0; step < got.losses.size(); ++step)
    EXPECT_NEAR(got.losses[step] / expected.losses[step], 1, tolerance * (1 + 100.0 * double(step)))
        << "step " << step;
}

const bool added = roles::add("train", [](Transport& transport, const std::string& folder) {
  auto settings = load_safetensors(folder + "/settings").metadata;
  auto config = parse_config(settings.at("config"), "config");
  auto run = run_rank(config, std::stoll(settings.at("steps")), transport);
  if (transport.rank() != 0) return;
  run.gradients["losses"] = torch::tensor(run.losses, torch::kFloat64);
  save_safetensors(folder + "/run", run.gradients);
});

Run run_in_processes(const Config& config, int64_t steps) {
  roles::TemporaryFolder folder;
  save_safetensors(folder.path() + "/settings", {},
                   {{"config", to_yaml(config)}, {"steps", std::to_string(steps)}});
  roles::run("train", int(config.pp), folder.path());
  Run run;
  run.gradients = load_safetensors(folder.path() + "/run").tensors;
  auto losses = run.gradients.extract("losses").mapped();
  run.losses.assign(losses.data_ptr<double>(), losses.data_ptr<double>() + losses.numel());
  return run;
}

TEST(Batch, MixesMicrobatchesWithAndWithoutPicturesAndTargets) {
  auto config = small_config(1, 1, kMicrobatches, "float64");
  auto batch = data::make_batch(noise_dataset(60, 16), config.batch, 0);
  int with_pictures = 0, with_targets = 0;
  for (const auto& m : batch.microbatches) {
    with_pictures += m.has_pictures();
    with_targets += m.has_targets();
  }
  EXPECT_GT(with_pictures, 0);
  EXPECT_LT(with_pictures, kMicrobatches);
  EXPECT_GT(with_targets, 0);
  EXPECT_LT(with_targets, kMicrobatches);
}

class Gradients : public testing::TestWithParam<Cut> {};

TEST_P(Gradients, OfThreadsEqualThePlainLoopsInDoubleAndItsLossesOverTwentySteps) {
  for (auto arrangement : kArrangements) {
    auto config = small_config(GetParam().pp, GetParam().vpp, kMicrobatches, "float64");
    config.schedule = arrangement;
    SCOPED_TRACE(name(arrangement));
    expect_equal(run_in_threads(config, 20), run_plain(config, 20), 1e-10);
  }
}

TEST_P(Gradients, OfThreadsEqualThePlainLoopsInSingle) {
  auto config = small_config(GetParam().pp, GetParam().vpp, kMicrobatches, "float32");
  expect_equal(run_in_threads(config, 1), run_plain(config, 1), 1e-5);
}

TEST_P(Gradients, OfProcessesEqualThePlainLoopsInDoubleAndItsLossesOverTwentySteps) {
  auto config = small_config(GetParam().pp, GetParam().vpp, kMicrobatches, "float64");
  expect_equal(run_in_processes(config, 20), run_plain(config, 20), 1e-10);
}

TEST_P(Gradients, OfProcessesEqualThePlainLoopsInSingle) {
  auto config = small_config(GetParam().pp, GetParam().vpp, kMicrobatches, "float32");
  expect_equal(run_in_processes(config, 1), run_plain(config, 1), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Cuts, Gradients, testing::ValuesIn(kCuts),
                         [](const auto& cut) { return concat("P", cut.param.pp, "V", cut.param.vpp); });

struct BaseCut {
  Base base;
  int64_t pp, vpp, microbatches;
};
void PrintTo(const BaseCut& cut, std::ostream* out) {
  *out << name(cut.base) << " P=" << cut.pp << " V=" << cut.vpp << " M=" << cut.microbatches;
}

class BaseGradients : public testing::TestWithParam<BaseCut> {};

TEST_P(BaseGradients, EqualThePlainLoopsInDouble) {
  for (auto arrangement : kArrangements)
    for (auto order : {Order::as_is, Order::balanced}) {
      auto config = small_config(GetParam().pp, GetParam().vpp, GetParam().microbatches, "float64");
      config.base = GetParam().base;
      config.schedule = arrangement;
      config.order = order;
      SCOPED_TRACE(name(arrangement));
      expect_equal(run_in_threads(config, 1), run_plain(config, 1), 1e-10);
    }
}

INSTANTIATE_TEST_SUITE_P(Of, BaseGradients,
                         testing::Values(BaseCut{Base::gpipe, 3, 2, 7}, BaseCut{Base::one_f_one_b, 4, 1, 3},
                                         BaseCut{Base::interleaved, 4, 2, 13}, BaseCut{Base::zb_h1, 1, 1, 3},
                                         BaseCut{Base::zb_h1, 4, 1, 9}, BaseCut{Base::zb_v, 2, 2, 2},
                                         BaseCut{Base::zb_v, 4, 2, 11}, BaseCut{Base::dualpipe_v, 2, 2, 5},
                                         BaseCut{Base::dualpipe_v, 4, 2, 11}));

TEST(Gradients, OfSeveralDrawsOfATargetEqualThePlainLoops) {
  for (auto base : {Base::interleaved, Base::zb_v}) {
    auto config = small_config(2, 2, 7, "float64");
    config.base = base;
    config.batch.draws = 3;
    config.batch.samples = 5;
    config.generator_unit = 1;
    expect_equal(run_in_threads(config, 1), run_plain(config, 1), 1e-10);
  }
}

TEST(Gradients, OfArrangementsWithoutUnitsEqualThePlainLoops) {
  for (auto arrangement : {Arrangement::nested_fill, Arrangement::optimus, Arrangement::megatron}) {
    auto config = small_config(3, 1, 8, "float64");
    config.schedule = arrangement;
    expect_equal(run_in_threads(config, 1), run_plain(config, 1), 1e-10);
  }
}

TEST(Gradients, OfUntiedEmbeddingsEqualThePlainLoops) {
  for (auto base : {Base::interleaved, Base::zb_v}) {
    auto config = small_config(4, 2, kMicrobatches, "float64");
    config.base = base;
    config.backbone.tied_embeddings = false;
    expect_equal(run_in_threads(config, 1), run_plain(config, 1), 1e-10);
  }
}

TEST(Gradients, OfAStepWithoutPicturesAreZeroForTheEncoder) {
  auto config = small_config(2, 2, kMicrobatches, "float64");
  config.batch.caption_share = 0;
  config.batch.draw_share = 1;
  auto run = run_in_threads(config, 0);
  double largest = 0;
  int count = 0;
  for (const auto& [name, gradient] : run.gradients)
    if (name.starts_with("encoder.")) {
      ++count;
      largest = std::max(largest, gradient.abs().max().item<double>());
    }
  EXPECT_GT(count, 5);
  EXPECT_EQ(largest, 0);
}

TEST(Gradients, OfMoreStagesThanLayersEqualThePlainLoops) {
  auto config = small_config(4, 3, kMicrobatches, "float64");  // some stages hold none
  expect_equal(run_in_threads(config, 1), run_plain(config, 1), 1e-10);
}

TEST(Layers, AreHeldExactlyOnceInOrder) {
  for (int64_t layers = 1; layers <= 61; ++layers)
    for (int64_t stages = 1; stages <= 16; ++stages) {
      int64_t next = 0;
      for (int64_t stage = 0; stage < stages; ++stage)
        for (int64_t layer : layers_of_stage(layers, stage, stages)) EXPECT_EQ(layer, next++);
      EXPECT_EQ(next, layers);
    }
}

}  // namespace
}  // namespace bigmac::train
