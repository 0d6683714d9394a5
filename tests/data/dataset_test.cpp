#include "bigmac/data/dataset.h"

#include <torch/torch.h>

#include <set>

#include "bigmac/data/batch.h"
#include "bigmac/data/text.h"
#include "tests/data/support.h"

namespace bigmac::data {
namespace {

const Dataset& installed() {
  static const Dataset dataset = load_dataset();
  return dataset;
}

TEST(Dataset, MostEmojiLoadAndEveryNameIsUnique) {
  SKIP_WITHOUT_EMOJI();
  const auto& dataset = installed();
  EXPECT_GE(dataset.size(), 3500);
  EXPECT_EQ(dataset.pictures().sizes(), (std::vector<int64_t>{dataset.size(), 3, 32, 32}));
  EXPECT_EQ(dataset.pictures().scalar_type(), torch::kUInt8);
  std::set<std::string> names;
  for (const auto& pair : dataset.pairs()) names.insert(pair.name);
  EXPECT_EQ(static_cast<int64_t>(names.size()), dataset.size());
}

TEST(Dataset, EachPictureBelongsToItsName) {
  SKIP_WITHOUT_EMOJI();
  const auto& dataset = installed();
  EmojiFont font;
  for (const auto& [name, sequence] : {std::pair<std::string, std::u32string>{"red heart", U"\u2764"},
                                       {"flag: France", U"\U0001F1EB\U0001F1F7"},
                                       {"man cook", U"\U0001F468\u200D\U0001F373"}}) {
    auto picture = to_picture(dataset.pictures()[dataset.index_of(name)]);
    EXPECT_EQ(picture.bytes, font.render(sequence, 32)->bytes) << name;
  }
}

TEST(Dataset, TheHeldOutShareIsNearTheOneAskedFor) {
  SKIP_WITHOUT_EMOJI();
  const auto& dataset = installed();
  double share = static_cast<double>(dataset.held_out().size()) / static_cast<double>(dataset.size());
  EXPECT_GT(share, 0.035);
  EXPECT_LT(share, 0.065);
  EXPECT_EQ(dataset.training().size() + dataset.held_out().size(), static_cast<size_t>(dataset.size()));
  for (int64_t index : dataset.held_out()) EXPECT_TRUE(dataset.pairs()[static_cast<size_t>(index)].held_out);
}

TEST(Dataset, TheSplitDependsOnTheCodePointsAndGrowsWithTheShare) {
  SKIP_WITHOUT_EMOJI();
  std::set<std::string> held_out;
  for (const auto& pair : installed().pairs())
    if (pair.held_out) held_out.insert(pair.name);

  // The same entries in the opposite order, without every third.
  auto list = read_emoji_list();
  std::string reversed;
  for (size_t i = list.size(); i-- > 0;) {
    if (i % 3 == 0) continue;
    std::string codepoints = list[i].file_stem;
    for (char& letter : codepoints) letter = letter == '-' ? ' ' : letter;
    reversed += codepoints + " ; fully-qualified # x E1.0 " + list[i].name + "\n";
  }
  Folder folder;
  DatasetConfig config{.emoji_list = folder.write("list.txt", reversed), .picture = 4};
  auto shuffled = load_dataset(config);
  for (const auto& pair : shuffled.pairs())
    EXPECT_EQ(pair.held_out, held_out.contains(pair.name)) << pair.name;

  config.held_out = 0.2;
  auto wider = load_dataset(config);
  for (const auto& pair : wider.pairs())
    EXPECT_TRUE(pair.held_out || !held_out.contains(pair.name)) << pair.name;
  double share = static_cast<double>(wider.held_out().size()) / static_cast<double>(wider.size());
  EXPECT_GT(share, 0.17);
  EXPECT_LT(share, 0.23);
  config.held_out = 0;
  EXPECT_TRUE(load_dataset(config).held_out().empty());
}

TEST(Dataset, NoHeldOutPairIsASampleOfAnEpoch) {
  SKIP_WITHOUT_EMOJI();
  const auto& dataset = installed();
  BatchConfig config{.samples = 16};
  int64_t steps = dataset.size() / (config.microbatches * config.samples) + 1, seen = 0;
  for (int64_t step = 0; step < steps; ++step)
    for (const auto& sample : make_samples(dataset, config, step)) {
      auto name = decode(
          {sample.tokens.data_ptr<int64_t>(), sample.tokens.data_ptr<int64_t>() + sample.tokens.numel()});
      EXPECT_FALSE(dataset.pairs()[static_cast<size_t>(dataset.index_of(name))].held_out) << name;
      ++seen;
    }
  EXPECT_GE(seen, static_cast<int64_t>(dataset.training().size()));
}

TEST(Dataset, FloatPicturesCoverMinusOneToOneAndConvertBack) {
  auto pictures = torch::arange(256, torch::kInt64).to(torch::kUInt8).repeat({3}).view({1, 3, 16, 16});
  Dataset dataset({{"gradient", "1f600", false}}, pictures);
  auto picture = dataset.picture(0);
  EXPECT_EQ(picture.scalar_type(), torch::kFloat32);
  EXPECT_EQ(picture.min().item<float>(), -1);
  EXPECT_EQ(picture.max().item<float>(), 1);
  EXPECT_EQ(to_picture(picture).bytes, to_picture(pictures[0]).bytes);
  EXPECT_EQ(to_picture(torch::full({3, 1, 1}, 7.0)).bytes, (std::vector<uint8_t>{255, 255, 255}));
  EXPECT_EQ(dataset.pictures()[0][0][0][1].item<int>(), 1) << "picture() changed the stored bytes";
}

TEST(Dataset, WrongInputIsRefusedByName) {
  EXPECT_CONTAINS(message_of([] { load_dataset({.held_out = 1}); }), "held-out share is 1");
  EXPECT_THROW(load_dataset({.held_out = -0.1}), InvalidInput);
  EXPECT_CONTAINS(message_of([] { load_dataset({.emoji_list = "/nowhere/list.txt"}); }), "/nowhere/list.txt");
  EXPECT_THROW(Dataset({}, torch::zeros({1, 3, 4, 4}, torch::kUInt8)), InvalidInput);
  EXPECT_THROW(Dataset({{"a", "b", false}}, torch::zeros({1, 3, 4, 4})), InvalidInput);
  EXPECT_THROW(Dataset({{"a", "b", false}}, torch::Tensor()), InvalidInput);
  EXPECT_THROW(to_picture(torch::zeros({1, 4, 4})), InvalidInput);

  Dataset dataset({{"red heart", "2764", false}}, torch::zeros({1, 3, 4, 4}, torch::kUInt8));
  EXPECT_CONTAINS(message_of([&] { dataset.picture(1); }), "picture 1 is outside the dataset 0..0");
  EXPECT_CONTAINS(message_of([&] { dataset.index_of("red haert"); }), "did you mean 'red heart'?");
}

TEST(Dataset, MissingFontsAndUnfitListsAreRefusedByName) {
  SKIP_WITHOUT_EMOJI();
  EXPECT_CONTAINS(message_of([] { load_dataset({.font = "/nowhere/Emoji.ttf"}); }), "/nowhere/Emoji.ttf");
  EXPECT_CONTAINS(message_of([] { load_dataset({.picture = 0}); }), "side is 0 pixels");
  Folder folder;
  auto list = folder.write("list.txt", "4E2D ; fully-qualified # x E1.0 not an emoji\n");
  auto message = message_of([&] { load_dataset({.emoji_list = list}); });
  EXPECT_CONTAINS(message, list);
  EXPECT_CONTAINS(message, "none of them is left to train on");
}

}  // namespace
}  // namespace bigmac::data
