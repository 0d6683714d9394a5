#include "bigmac/data/batch.h"

#include <torch/torch.h>

#include <map>
#include <set>

#include "bigmac/data/text.h"
#include "tests/data/support.h"

namespace bigmac::data {
namespace {

// Pair i is called after i, with names of different lengths; every tenth is held out.
Dataset numbered(int64_t count = 110, int64_t side = 4) {
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < count; ++i)
    pairs.push_back(
        {concat("piñata ", std::string(static_cast<size_t>(i % 7), 'x'), i), concat(i), i % 10 == 3});
  auto pictures = torch::arange(count, torch::kInt64).to(torch::kUInt8).view({count, 1, 1, 1});
  return Dataset(std::move(pairs), pictures.repeat({1, 3, side, side}));
}

std::vector<int64_t> row_of(const torch::Tensor& tensor, int64_t row) {
  auto values = tensor[row].contiguous();
  return {values.data_ptr<int64_t>(), values.data_ptr<int64_t>() + values.numel()};
}

std::vector<torch::Tensor> tensors_of(const Microbatch& m) {
  return {m.tokens,      m.labels,      m.pictures, m.picture_rows, m.targets,
          m.target_rows, m.target_mask, m.noise,    m.times};
}

bool same(const Batch& a, const Batch& b) {
  if (a.microbatches.size() != b.microbatches.size()) return false;
  for (size_t m = 0; m < a.microbatches.size(); ++m) {
    auto left = tensors_of(a.microbatches[m]), right = tensors_of(b.microbatches[m]);
    for (size_t i = 0; i < left.size(); ++i) {
      if (left[i].defined() != right[i].defined()) return false;
      if (left[i].defined() && !torch::equal(left[i], right[i])) return false;
    }
  }
  return a.valid_tokens == b.valid_tokens && a.target_values == b.target_values;
}

std::vector<std::string> captions_of(const Batch& batch) {
  std::vector<std::string> captions;
  for (const auto& microbatch : batch.microbatches)
    for (int64_t row = 0; row < microbatch.tokens.size(0); ++row)
      captions.push_back(decode(row_of(microbatch.tokens, row)));
  return captions;
}

TEST(Batch, CountsPicturesAndTargetsWhateverTheDraws) {
  auto dataset = numbered();
  BatchConfig config;
  config.draws = 3;
  for (const auto& m : make_batch(dataset, config, 2).microbatches) {
    EXPECT_EQ(m.picture_count() + m.target_count(), config.samples);
    EXPECT_EQ(m.picture_count(), m.has_pictures() ? m.pictures.size(0) : 0);
    EXPECT_EQ(m.target_count() * 3, m.has_targets() ? m.targets.size(0) : 0);
  }
}

TEST(Batch, TheSameStepGivesTheSameBatchInAnyOrderOfCalls) {
  auto dataset = numbered();
  BatchConfig config;
  std::map<int64_t, Batch> forward;
  for (int64_t step = 0; step < 12; ++step) forward[step] = make_batch(dataset, config, step);
  torch::manual_seed(99);
  for (int64_t step = 11; step >= 0; --step)
    EXPECT_TRUE(same(make_batch(dataset, config, step), forward[step]));
}

TEST(Batch, MakingABatchLeavesTorchsOwnGeneratorAlone) {
  auto dataset = numbered();
  torch::manual_seed(5);
  auto expected = torch::rand({4});
  torch::manual_seed(5);
  make_batch(dataset, {}, 3);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

TEST(Batch, StepsAndSeedsGiveDifferentBatches) {
  auto dataset = numbered();
  auto first = make_batch(dataset, {}, 0);
  EXPECT_NE(captions_of(first), captions_of(make_batch(dataset, {}, 1)));
  EXPECT_NE(captions_of(first), captions_of(make_batch(dataset, {.seed = 2}, 0)));
  BatchConfig drawing{.caption_share = 0, .draw_share = 1}, other = drawing;
  other.seed = 2;
  auto noise = [&](const BatchConfig& config, int64_t step, size_t m) {
    return make_batch(dataset, config, step).microbatches[m].noise;
  };
  EXPECT_FALSE(torch::equal(noise(drawing, 0, 0), noise(drawing, 1, 0)));
  EXPECT_FALSE(torch::equal(noise(drawing, 0, 0), noise(drawing, 0, 1)));
  EXPECT_FALSE(torch::equal(noise(drawing, 0, 0), noise(other, 0, 0)));
}

TEST(Batch, SomeMicrobatchesLackPicturesSomeLackTargetsAndSomeHaveBoth) {
  auto dataset = numbered();
  int captioning = 0, drawing = 0, both = 0;
  for (int64_t step = 0; step < 50; ++step)
    for (const auto& m : make_batch(dataset, {}, step).microbatches) {
      ASSERT_TRUE(m.has_pictures() || m.has_targets());
      EXPECT_EQ(m.picture_rows.size(0) + m.target_rows.size(0), 4);
      (!m.has_targets() ? captioning : !m.has_pictures() ? drawing : both) += 1;
    }
  EXPECT_NEAR(captioning / 400.0, 0.35, 0.08);
  EXPECT_NEAR(drawing / 400.0, 0.35, 0.08);
  EXPECT_NEAR(both / 400.0, 0.30, 0.08);
}

TEST(Batch, SharesOfOneGiveOneTaskOnly) {
  auto dataset = numbered();
  for (const auto& m : make_batch(dataset, {.caption_share = 1, .draw_share = 0}, 0).microbatches)
    EXPECT_FALSE(m.has_targets());
  for (const auto& m : make_batch(dataset, {.caption_share = 0, .draw_share = 1}, 0).microbatches)
    EXPECT_FALSE(m.has_pictures());
  for (const auto& m :
       make_batch(dataset, {.samples = 2, .caption_share = 0, .draw_share = 0}, 0).microbatches) {
    EXPECT_TRUE(m.has_pictures());
    EXPECT_TRUE(m.has_targets());
  }
}

TEST(Batch, AnEpochTakesEachTrainingPairOnceAndNoHeldOutPair) {
  auto dataset = numbered();  // 99 to train on; an epoch ends inside a batch
  std::set<std::string> training;
  for (int64_t index : dataset.training()) training.insert(dataset.pairs()[static_cast<size_t>(index)].name);
  ASSERT_EQ(training.size(), 99u);
  std::vector<std::string> seen;
  for (int64_t step = 0; seen.size() < 3 * 99; ++step)
    for (auto& caption : captions_of(make_batch(dataset, {}, step))) seen.push_back(caption);
  std::vector<std::vector<std::string>> epochs;
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    auto begin = seen.begin() + static_cast<std::ptrdiff_t>(99 * epoch);
    epochs.emplace_back(begin, begin + 99);
    EXPECT_EQ(std::set<std::string>(begin, begin + 99), training);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(Batch, ABatchLargerThanTheDatasetRunsThroughSeveralEpochs) {
  auto captions = captions_of(make_batch(numbered(6), {}, 2));  // 32 samples of 5 pairs
  std::map<std::string, int> counts;
  for (const auto& caption : captions) ++counts[caption];
  EXPECT_EQ(counts.size(), 5u);
  for (const auto& [caption, count] : counts) EXPECT_NEAR(count, 6.4, 1.5) << caption;
}

TEST(Batch, ACaptioningSampleIsItsPictureThenItsCaptionThenTheEnd) {
  auto dataset = numbered();
  auto m = make_batch(dataset, {.picture_tokens = 3, .caption_share = 1, .draw_share = 0}, 4).microbatches[0];
  ASSERT_EQ(m.pictures.sizes(), (std::vector<int64_t>{4, 3, 4, 4}));
  EXPECT_EQ(m.pictures.scalar_type(), torch::kFloat32);
  int64_t longest = 0;
  for (int64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(m.picture_rows[row].item<int64_t>(), row);
    auto tokens = row_of(m.tokens, row), labels = row_of(m.labels, row);
    int64_t index = dataset.index_of(decode(tokens));
    EXPECT_TRUE(torch::equal(m.pictures[row], dataset.picture(index)));

    std::vector<int64_t> expected(3, kPicture);
    for (int64_t byte : encode(dataset.pairs()[static_cast<size_t>(index)].name)) expected.push_back(byte);
    expected.push_back(kEnd);
    longest = std::max(longest, static_cast<int64_t>(expected.size()));
    size_t length = expected.size();
    expected.resize(tokens.size(), kPad);
    EXPECT_EQ(tokens, expected);
    for (size_t i = 0; i < tokens.size(); ++i)
      EXPECT_EQ(labels[i], i >= 2 && i + 1 < length ? tokens[i + 1] : -100) << i;
  }
  EXPECT_EQ(m.tokens.size(1), longest);
  EXPECT_EQ(m.target_rows.sizes(), (std::vector<int64_t>{0}));
  EXPECT_EQ(m.target_mask.sizes(), (std::vector<int64_t>{0, longest}));
  EXPECT_EQ(m.noise.size(0), 0);
  EXPECT_EQ(m.times.size(0), 0);
}

TEST(Batch, ADrawingSampleHasItsPictureAsTargetAndNoTextLoss) {
  auto dataset = numbered();
  auto m = make_batch(dataset, {.caption_share = 0, .draw_share = 1}, 4).microbatches[0];
  EXPECT_TRUE(m.labels.eq(-100).all().item<bool>());
  ASSERT_EQ(m.targets.sizes(), (std::vector<int64_t>{4, 3, 4, 4}));
  EXPECT_EQ(m.noise.sizes(), m.targets.sizes());
  EXPECT_EQ(m.times.sizes(), (std::vector<int64_t>{4}));
  EXPECT_EQ(m.target_mask.scalar_type(), torch::kBool);
  for (int64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(m.target_rows[row].item<int64_t>(), row);
    auto tokens = row_of(m.tokens, row);
    EXPECT_EQ(tokens[0], kDraw);
    int64_t index = dataset.index_of(decode(tokens));
    EXPECT_TRUE(torch::equal(m.targets[row], dataset.picture(index)));
    for (int64_t i = 0; i < m.tokens.size(1); ++i)
      EXPECT_EQ(m.target_mask[row][i].item<bool>(), i > 0 && tokens[static_cast<size_t>(i)] != kPad);
  }
}

TEST(Batch, AMixedMicrobatchAssignsEachSampleToItsRow) {
  auto dataset = numbered();
  std::set<int64_t> first_rows;
  for (int64_t step = 0; step < 8; ++step)
    for (const auto& m : make_batch(dataset, {.caption_share = 0, .draw_share = 0}, step).microbatches) {
      std::set<int64_t> rows;
      for (int64_t i = 0; i < m.picture_rows.size(0); ++i) {
        int64_t row = m.picture_rows[i].item<int64_t>();
        rows.insert(row);
        EXPECT_EQ(m.tokens[row][0].item<int64_t>(), kPicture);
        EXPECT_TRUE(
            torch::equal(m.pictures[i], dataset.picture(dataset.index_of(decode(row_of(m.tokens, row))))));
      }
      for (int64_t i = 0; i < m.target_rows.size(0); ++i) {
        int64_t row = m.target_rows[i].item<int64_t>();
        rows.insert(row);
        EXPECT_EQ(m.tokens[row][0].item<int64_t>(), kDraw);
        EXPECT_TRUE(
            torch::equal(m.targets[i], dataset.picture(dataset.index_of(decode(row_of(m.tokens, row))))));
        EXPECT_TRUE(m.labels[row].eq(-100).all().item<bool>());
      }
      EXPECT_EQ(rows, (std::set<int64_t>{0, 1, 2, 3}));
      first_rows.insert(m.picture_rows[0].item<int64_t>());
    }
  EXPECT_EQ(first_rows, (std::set<int64_t>{0, 1})) << "the first sample always has the same task";
}

TEST(Batch, CountsEqualARecount) {
  auto dataset = numbered();
  for (int64_t step = 0; step < 10; ++step) {
    auto batch = make_batch(dataset, {}, step);
    int64_t valid = 0, values = 0;
    for (const auto& m : batch.microbatches) {
      for (int64_t row = 0; row < m.labels.size(0); ++row)
        for (int64_t label : row_of(m.labels, row)) valid += label != -100;
      values += m.target_rows.size(0) * 3 * 4 * 4;
    }
    EXPECT_EQ(batch.valid_tokens, valid);
    EXPECT_EQ(batch.target_values, values);
  }
}

TEST(Batch, LengthsDifferBetweenMicrobatches) {
  std::set<int64_t> lengths;
  for (const auto& m : make_batch(numbered(), {}, 0).microbatches) lengths.insert(m.tokens.size(1));
  EXPECT_GT(lengths.size(), 1u);
}

TEST(Batch, NoiseIsGaussianAndTimesAreUniform) {
  auto dataset = numbered(110, 16);
  std::vector<torch::Tensor> noise, times;
  for (int64_t step = 0; step < 20; ++step)
    for (const auto& m : make_batch(dataset, {.caption_share = 0, .draw_share = 1}, step).microbatches) {
      noise.push_back(m.noise.flatten());
      times.push_back(m.times);
    }
  auto values = torch::cat(noise), moments = torch::cat(times);
  EXPECT_NEAR(values.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(values.std().item<double>(), 1, 0.01);
  EXPECT_NEAR(moments.mean().item<double>(), 0.5, 0.05);
  EXPECT_NEAR(moments.std().item<double>(), std::sqrt(1 / 12.0), 0.03);
  EXPECT_GT(moments.min().item<float>(), 0);
  EXPECT_LT(moments.max().item<float>(), 1);
}

TEST(Batch, ACaptionPromptIsTheTrainingSampleWithoutItsCaption) {
  auto dataset = numbered();
  auto prompt = make_caption_prompt(dataset, 13, 5);
  EXPECT_EQ(row_of(prompt.tokens, 0), std::vector<int64_t>(5, kPicture));
  EXPECT_EQ(row_of(prompt.labels, 0), std::vector<int64_t>(5, -100));
  ASSERT_TRUE(prompt.has_pictures());
  EXPECT_FALSE(prompt.has_targets());
  EXPECT_TRUE(torch::equal(prompt.pictures[0], dataset.picture(13)));
  EXPECT_EQ(prompt.picture_rows.item<int64_t>(), 0);
}

TEST(Batch, ADrawPromptIsTheTrainingSampleWithoutItsTarget) {
  auto prompt = make_draw_prompt("cat");
  EXPECT_EQ(row_of(prompt.tokens, 0), (std::vector<int64_t>{kDraw, 'c', 'a', 't', kEnd}));
  EXPECT_EQ(row_of(prompt.target_mask.to(torch::kInt64), 0), (std::vector<int64_t>{0, 1, 1, 1, 1}));
  EXPECT_EQ(prompt.target_rows.item<int64_t>(), 0);
  EXPECT_FALSE(prompt.has_pictures());
  EXPECT_FALSE(prompt.has_targets());
}

TEST(Batch, WrongConfigurationsAreRefusedByName) {
  auto dataset = numbered();
  auto refused = [&](const BatchConfig& config, int64_t step = 0) {
    return message_of([&] { make_batch(dataset, config, step); });
  };
  EXPECT_CONTAINS(refused({.microbatches = 0}), "microbatches is 0; it must be at least 1");
  EXPECT_CONTAINS(refused({.samples = -1}), "samples in a microbatch is -1");
  EXPECT_CONTAINS(refused({.picture_tokens = 0}), "picture tokens is 0");
  EXPECT_CONTAINS(refused({.caption_share = 0.7, .draw_share = 0.4}), "0.7 and 0.4");
  EXPECT_CONTAINS(refused({.caption_share = -0.1}), "-0.1");
  EXPECT_CONTAINS(refused({}, -1), "step is -1");
  Dataset held_out({{"a", "b", true}}, torch::zeros({1, 3, 4, 4}, torch::kUInt8));
  EXPECT_CONTAINS(message_of([&] { make_batch(held_out, {}, 0); }), "no training pairs");
  EXPECT_THROW(make_caption_prompt(dataset, 0, 0), InvalidInput);
  EXPECT_THROW(make_caption_prompt(dataset, 110, 4), InvalidInput);
}

}  // namespace
}  // namespace bigmac::data
