#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "bigmac/runtime/safetensors.h"
#include "bigmac/runtime/threads_transport.h"
#include "tests/demo/support.h"
#include "tests/support/roles.h"

namespace bigmac::demo {
namespace {

struct Run {
  std::vector<double> losses;
  std::map<std::string, double> by_name;           // of the first step
  std::map<std::string, torch::Tensor> gradients;  // likewise
};

Run run_rank(const Config& config, const data::Dataset& dataset, int64_t steps, Transport& transport) {
  auto system = make_system(config);
  train::Trainer trainer(system, make_batches(config, dataset), config.options, transport);
  Run run;
  for (const auto& [name, loss] : trainer.compute_gradients(0).losses) run.by_name[name] = loss;
  run.gradients = trainer.gather_gradients();
  for (int64_t step = 0; step < steps; ++step) run.losses.push_back(trainer.train_step(step).loss);
  return run;
}

Run run_in_threads(const Config& config, int64_t steps = 0) {
  auto dataset = noise_dataset(60, 16);
  Run run;
  run_threads(int(config.options.ranks()), [&](Transport& transport) {
    at::set_num_threads(1);
    auto own = run_rank(config, dataset, steps, transport);
    if (transport.rank() == 0) run = std::move(own);
  });
  return run;
}

Run run_plain(const Config& config, int64_t steps = 0) {
  auto dataset = noise_dataset(60, 16);
  auto batches = make_batches(config, dataset);
  PlainLoop loop(config);
  Run run;
  loop.compute_gradients(batches(0));
  run.gradients = loop.gradients();
  run.by_name = loop.losses();
  for (int64_t step = 0; step < steps; ++step) run.losses.push_back(loop.train_step(batches(step), step));
  return run;
}

void expect_equal(const Run& got, const Run& expected) {
  constexpr double kTolerance = 1e-10;
  auto difference = largest_difference(got.gradients, expected.gradients);
  EXPECT_LT(difference.most, kTolerance) << "gradient of " << difference.name;
  for (const auto& [name, loss] : expected.by_name) {
    ASSERT_TRUE(got.by_name.contains(name)) << name;
    EXPECT_NEAR(got.by_name.at(name) / loss, 1, kTolerance) << name;
  }
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (size_t step = 0; step < got.losses.size(); ++step)
    EXPECT_NEAR(got.losses[step] / expected.losses[step], 1, kTolerance * (1 + 100.0 * double(step)))
        << "step " << step;
}

const bool added = roles::add("demo", [](Transport& transport, const std::string& folder) {
  auto config = parse_config(load_safetensors(folder + "/settings").metadata.at("config"), "config");
  auto run = run_rank(config, noise_dataset(60, 16), 0, transport);
  if (transport.rank() == 0) save_safetensors(folder + "/run", run.gradients);
});

struct Cut3 {
  int64_t pp, vpp, dp;
};
void PrintTo(const Cut3& cut, std::ostream* out) {
  *out << "P=" << cut.pp << " V=" << cut.vpp << " DP=" << cut.dp;
}

class Gradients : public testing::TestWithParam<Cut3> {};

TEST_P(Gradients, EqualThePlainLoopsAndTheLossesOverTenStepsToo) {
  auto config = small_config(GetParam().pp, GetParam().vpp, 8 / GetParam().dp);
  config.options.dp = GetParam().dp;
  expect_equal(run_in_threads(config, 10), run_plain(config, 10));
}

INSTANTIATE_TEST_SUITE_P(Cuts, Gradients,
                         testing::Values(Cut3{1, 1, 1}, Cut3{2, 2, 1}, Cut3{4, 2, 1}, Cut3{2, 1, 2}),
                         [](const auto& cut) {
                           return concat("P", cut.param.pp, "V", cut.param.vpp, "DP", cut.param.dp);
                         });

TEST(Gradients, OfProcessesEqualThePlainLoops) {
  auto config = small_config(2, 2, 8);
  TemporaryFolder folder;
  save_safetensors(folder.path() + "/settings", {}, {{"config", to_yaml(config)}});
  roles::run("demo", 2, folder.path());
  auto difference =
      largest_difference(load_safetensors(folder.path() + "/run").tensors, run_plain(config).gradients);
  EXPECT_LT(difference.most, 1e-10) << "gradient of " << difference.name;
}

TEST(Gradients, OfSeveralDrawsAndSamplesAndUntiedEmbeddingsEqualThePlainLoops) {
  for (auto base : {Base::interleaved, Base::zb_v}) {
    auto config = small_config(2, 2, 7);
    config.options.base = base;
    config.options.generator_unit = 1;
    config.batch.draws = 3;
    config.batch.samples = 5;
    config.backbone.tied_embeddings = false;
    config.complete();
    expect_equal(run_in_threads(config), run_plain(config));
  }
}

TEST(Gradients, OfOtherArrangementsAndABalancedOrderEqualThePlainLoops) {
  for (auto arrangement :
       {Arrangement::three_phase, Arrangement::nested_fill, Arrangement::optimus, Arrangement::megatron}) {
    auto config = small_config(3, 1, 8);
    config.options.schedule = arrangement;
    config.options.order = train::Order::balanced;
    SCOPED_TRACE(name(arrangement));
    expect_equal(run_in_threads(config), run_plain(config));
  }
}

TEST(Gradients, OfExpertsAndTheirLossesEqualThePlainLoops) {
  for (int64_t dp : {1, 2}) {
    auto config = small_config(2, 1, 4 / dp);
    config.options.dp = dp;
    config.backbone.layers = 4;
    config.backbone.moe = nn::MoeConfig{.experts = 4, .experts_per_token = 2, .ffn = 16};
    config.balance_weight = 0.1;
    config.router_z_weight = 0.01;
    config.complete();
    auto run = run_in_threads(config);
    expect_equal(run, run_plain(config));
    EXPECT_GT(run.by_name.at("balance"), 0.1);  // weight * k where the load is even, more where it is not
    EXPECT_GT(run.by_name.at("router z"), 0);
  }
}

TEST(Gradients, OfHeardNamesEqualThePlainLoops) {
  if (!std::filesystem::exists("/usr/bin/espeak-ng")) GTEST_SKIP() << "needs the package espeak-ng";
  TemporaryFolder folder;
  for (auto [pp, vpp] : {std::pair{1, 1}, {2, 1}, {4, 2}}) {
    auto config = small_config(pp, vpp, 6);
    config.audio = nn::AudioConfig{.mels = 20, .hidden = 8, .layers = 1, .heads = 2, .ffn = 16, .merge = 4};
    config.spoken_cache = folder.path();
    config.batch.hear_share = 0.3;
    config.batch.samples = 3;
    config.complete();
    auto run = run_in_threads(config);
    expect_equal(run, run_plain(config));
    EXPECT_GT(run.gradients.at("audio.conv1.weight").norm().item<double>(), 0);
  }
}

TEST(Gradients, OfAStepWithoutPicturesAreZeroForTheirEncoder) {
  auto config = small_config(2, 2, 8);
  config.batch.caption_share = 0;
  config.batch.draw_share = 1;
  auto run = run_in_threads(config);
  EXPECT_EQ(run.by_name.at("text"), 0);
  int count = 0;
  for (const auto& [name, gradient] : run.gradients)
    if (name.starts_with("vision.")) {
      ++count;
      EXPECT_EQ(gradient.abs().max().item<double>(), 0) << name;
    }
  EXPECT_GT(count, 5);
}

}  // namespace
}  // namespace bigmac::demo
