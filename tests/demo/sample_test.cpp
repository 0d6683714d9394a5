#include "bigmac/demo/sample.h"

#include <gtest/gtest.h>
#include <filesystem>
#include <fstream>

#include "bigmac/runtime/safetensors.h"
#include "bigmac/runtime/threads_transport.h"
#include "tests/demo/support.h"
#include "tests/support/roles.h"

namespace bigmac::demo {
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
  auto dataset = noise_dataset(40, 16);
  auto system = make_system(config);
  auto batches = make_batches(config, dataset);
  run_threads(int(config.options.ranks()), [&](Transport& transport) {
    train::Trainer trainer(system, batches, config.options, transport);
    trainer.train_step(0);
    auto gathered = trainer.gather_parameters();
    if (transport.rank() == 0) parameters = std::move(gathered);
  });
  return parameters;
}

TEST(Weights, OfAPipelineAreThoseOfTheModelOnOneRank) {
  TemporaryFolder folder;
  auto config = small_config(4, 2, 16);
  auto parameters = parameters_of(config);
  save_model(folder.path() + "/weights", config, parameters);
  auto whole = load_model(folder.path() + "/weights");
  EXPECT_EQ(whole.config.options.pp, 1);
  auto loaded = whole.model->parameters();
  EXPECT_EQ(loaded.size(), parameters.size());
  for (const auto& parameter : loaded)
    for (const auto& leaf : parameter.leaves)
      EXPECT_TRUE(torch::equal(leaf, parameters.at(parameter.name))) << parameter.name;
}

TEST(Weights, ThatAreCutOffOrNotOursAreRefusedWithTheReason) {
  TemporaryFolder folder;
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
  parameters.erase("llm.head.norm.weight");
  save_model(path, config, parameters);
  EXPECT_NE(error_of(path).find("lacks the parameter 'llm.head.norm.weight'"), std::string::npos);
  parameters["llm.head.norm.weight"] = torch::ones({3});
  save_model(path, config, parameters);
  EXPECT_NE(error_of(path).find("parameter 'llm.head.norm.weight' is [3], the model needs [24]"),
            std::string::npos);
}

TEST(Captions, AreDeterministicAndOnePerPicture) {
  auto config = small_config(1, 1, 8, "float32");
  auto dataset = noise_dataset(40, 16);
  auto model = make_model(config);
  auto captions = write_captions(model, dataset, {0, 5, 9}, 12);
  ASSERT_EQ(captions.size(), 3u);
  EXPECT_EQ(captions, write_captions(model, dataset, {0, 5, 9}, 12));
  // Each picture's caption does not depend on what it is read with.
  EXPECT_EQ(captions[1], write_captions(model, dataset, {5}, 12)[0]);
  EXPECT_TRUE(write_captions(model, dataset, {}, 12).empty());
}

TEST(Captions, OfHeardNamesAreOnePerClipWhateverTheirLengths) {
  if (!std::filesystem::exists("/usr/bin/espeak-ng")) GTEST_SKIP() << "needs the package espeak-ng";
  TemporaryFolder folder;
  auto config = small_config(1, 1, 8, "float64");
  config.audio = nn::AudioConfig{.mels = 20, .hidden = 8, .layers = 1, .heads = 2, .ffn = 16, .merge = 4};
  config.spoken_cache = folder.path();
  config.complete();
  auto dataset = noise_dataset(40, 16);
  Clips clips(config, dataset);
  auto model = make_model(config);
  std::vector<int64_t> indices{0, 6, 9};
  EXPECT_NE(clips.frames(0), clips.frames(6));
  for (int64_t index : indices) EXPECT_EQ(clips.load(index).size(1), clips.frames(index));
  auto written = write_heard(model, clips, indices, 12);
  ASSERT_EQ(written.size(), 3u);
  for (size_t i = 0; i < indices.size(); ++i)
    EXPECT_EQ(written[i], write_heard(model, clips, {indices[i]}, 12)[0]);
}

TEST(Drawing, GivesAPictureOfTheDatasetsSizePerNameAndFollowsTheSeed) {
  auto config = small_config(1, 1, 8, "float32");
  auto dataset = noise_dataset(40, 16);
  auto model = make_model(config);
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

}  // namespace
}  // namespace bigmac::demo
