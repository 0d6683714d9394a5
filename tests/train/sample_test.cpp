#include "bigmac/train/sample.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>

#include "bigmac/runtime/safetensors.h"
#include "bigmac/runtime/threads_transport.h"
#include "tests/support/roles.h"
#include "tests/train/support.h"

namespace bigmac::train {
namespace {

std::string error_of(const std::string& weights) {
  try {
    load_model(weights);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

std::map<std::string, torch::Tensor> parameters_of(const Config& config) {
  std::map<std::string, torch::Tensor> parameters;
  run_threads(int(config.pp), [&](Transport& transport) {
    auto dataset = noise_dataset(40, 16);
    Trainer trainer(config, dataset, transport);
    trainer.train_step(0);
    auto gathered = trainer.gather_parameters();
    if (transport.rank() == 0) parameters = std::move(gathered);
  });
  return parameters;
}

TEST(Weights, OfAPipelineAreThoseOfTheModelOnOneRank) {
  roles::TemporaryFolder folder;
  auto config = small_config(4, 2, 16, "float64");
  auto parameters = parameters_of(config);
  save_model(folder.path() + "/weights", config, parameters);
  auto trained = load_model(folder.path() + "/weights");
  EXPECT_EQ(trained.config.pp, 1);
  auto loaded = trained.model->parameters();
  EXPECT_EQ(loaded.size(), parameters.size());
  for (const auto& [name, parameter] : loaded)
    EXPECT_TRUE(torch::equal(parameter, parameters.at(name))) << name;
}

TEST(Weights, ThatAreCutOffOrNotOursAreRefusedWithTheReason) {
  roles::TemporaryFolder folder;
  auto config = small_config(1, 1, 8, "float32");
  auto path = folder.path() + "/weights";
  auto parameters = parameters_of(config);
  save_model(path, config, parameters);
  auto size = std::filesystem::file_size(path);
  for (uintmax_t kept : {uintmax_t{0}, uintmax_t{7}, uintmax_t{100}, size / 2, size - 1}) {
    auto cut = folder.path() + "/cut";
    std::filesystem::copy_file(path, cut, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(cut, kept);
    EXPECT_NE(error_of(cut).find("cut"), std::string::npos) << kept;
  }
  save_safetensors(path, parameters);
  EXPECT_NE(error_of(path).find("has no configuration"), std::string::npos);
  parameters.erase("backbone.norm.weight");
  save_model(path, config, parameters);
  EXPECT_NE(error_of(path).find("lacks the parameter 'backbone.norm.weight'"), std::string::npos);
  parameters["backbone.norm.weight"] = torch::ones({3});
  save_model(path, config, parameters);
  EXPECT_NE(error_of(path).find("parameter 'backbone.norm.weight' is [3], the model needs [24]"),
            std::string::npos);
}

TEST(Captions, AreDeterministicAndOnePerPicture) {
  auto config = small_config(1, 1, 8, "float32");
  auto dataset = noise_dataset(40, 16);
  Multimodal model(config, 0);
  auto captions = write_captions(model, dataset, {0, 5, 9}, 12);
  ASSERT_EQ(captions.size(), 3u);
  EXPECT_EQ(captions, write_captions(model, dataset, {0, 5, 9}, 12));
  // Each picture's caption does not depend on what it is read with.
  EXPECT_EQ(captions[1], write_captions(model, dataset, {5}, 12)[0]);
  EXPECT_TRUE(write_captions(model, dataset, {}, 12).empty());
}

TEST(Drawing, GivesAPictureOfTheDatasetsSizePerNameAndFollowsTheSeed) {
  auto config = small_config(1, 1, 8, "float32");
  auto dataset = noise_dataset(40, 16);
  Multimodal model(config, 0);
  auto pictures = draw_pictures(model, dataset, {1, 2}, 3, 5);
  EXPECT_EQ(pictures.sizes(), (std::vector<int64_t>{2, 3, 16, 16}));
  EXPECT_LE(pictures.abs().max().item<float>(), 1);
  EXPECT_TRUE(torch::equal(pictures, draw_pictures(model, dataset, {1, 2}, 3, 5)));
  EXPECT_FALSE(torch::equal(pictures, draw_pictures(model, dataset, {1, 2}, 3, 6)));
}

TEST(WordF1, IsTheHarmonicMeanOfTheSharesOfCommonWords) {
  EXPECT_EQ(word_f1("red heart", "red heart"), 1);
  EXPECT_EQ(word_f1("red heart", "blue square"), 0);
  EXPECT_DOUBLE_EQ(word_f1("waving hand: light skin tone", "waving hand: dark skin tone"), 2.0 * 4 / 10);
  EXPECT_DOUBLE_EQ(word_f1("a a b", "a b b"), 2.0 * 2 / 6);
}

TEST(Comparison, OfCaptionsTellsOwnFromOthers) {
  std::vector<std::string> names{"red heart", "blue square", "green apple"};
  auto right = compare_captions(names, names);
  EXPECT_DOUBLE_EQ(right.own, 1);
  EXPECT_EQ(right.chance, 0);
  EXPECT_DOUBLE_EQ(right.won, 1);
  auto same = compare_captions({"x", "x", "x"}, names);
  EXPECT_DOUBLE_EQ(same.won, 0.5);
  EXPECT_THROW(compare_captions({"x"}, {"y"}), InvalidInput);
}

TEST(Comparison, OfPicturesIsTheMeanSquaredDistance) {
  auto real = torch::rand({3, 3, 4, 4}, torch::dtype(torch::kFloat32));
  auto same = compare_pictures(real, real);
  EXPECT_NEAR(same.own, 0, 1e-6);
  EXPECT_DOUBLE_EQ(same.won, 1);
  double expected = 0;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j)
      if (i != j) expected += (real[i] - real[j]).square().mean().item<double>() / 6;
  EXPECT_NEAR(same.chance, expected, 1e-5);
}

TEST(LearningRate, RisesToItsMostAndFallsToItsLast) {
  OptimizerConfig config{.learning_rate = 1, .warmup_steps = 10, .final_learning_rate = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(config, 0, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 9, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 10, 100), 1);
  EXPECT_NEAR(learning_rate(config, 99, 100), 0.1, 1e-12);
  for (int64_t step = 11; step < 100; ++step)
    EXPECT_LT(learning_rate(config, step, 100), learning_rate(config, step - 1, 100));
}

}  // namespace
}  // namespace bigmac::train
