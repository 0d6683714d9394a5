#include "bigmac/formats/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

void expect_told(const std::string& text, const std::vector<std::string>& parts) {
  auto error = error_of([&] { parse_layout(text); });
  for (const auto& part : parts)
    EXPECT_NE(error.find(part), error.npos) << text << " lacks \"" << part << "\" in: " << error;
}

// A layout's letters and cuts with all repeats written out, for a text that is right.
std::string expand(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    std::string item(1, text[i++]);
    if (item == ",") continue;
    if (item == "(") {
      auto close = text.find(')', i);
      item = expand(text.substr(i, close - i));
      i = close + 1;
    }
    size_t times = 1, digits = 0;
    if (i < text.size() && text[i] == '*') times = std::stoul(text.substr(i + 1), &digits), i += 1 + digits;
    while (times-- > 0) out += item;
  }
  return out;
}

// The letters and cuts that the stages stand for.
std::string letters(const Layout& layout) {
  std::string out;
  for (const auto& stage : layout.stages) {
    if (&stage != &layout.stages.front()) out += '|';
    if (stage.embedding) out += 'E';
    out.append(size_t(stage.layers), 't').append(size_t(stage.mtp), 'm');
    if (stage.loss) out += 'L';
  }
  return out;
}

void expect_reads_back(const Layout& layout) {
  auto text = to_text(layout);
  EXPECT_EQ(parse_layout(text), layout) << text;
}

TEST(Layout, ReadsTheExamplesOfTheField) {
  auto deepseek = parse_layout("Et*3|(tt|)*29,m|L");
  ASSERT_EQ(deepseek.stages.size(), 32);
  EXPECT_EQ(deepseek.layers(), 61);
  EXPECT_EQ(deepseek.mtp(), 1);
  EXPECT_EQ(deepseek.stages[0], (LayoutStage{true, 3, 0, false}));
  EXPECT_EQ(deepseek.stages[29], (LayoutStage{false, 2, 0, false}));
  EXPECT_EQ(deepseek.stages[30], (LayoutStage{false, 0, 1, false}));
  EXPECT_EQ(deepseek.stages[31], (LayoutStage{false, 0, 0, true}));

  auto loss_behind_group = parse_layout("Et|(tt|)*30L");
  EXPECT_EQ(loss_behind_group.stages.size(), 32);
  EXPECT_EQ(loss_behind_group.layers(), 61);

  std::string qwen = "Et*5|";
  for (int i = 0; i < 14; ++i) qwen += "t*6|";
  auto even = parse_layout(qwen + "t*5,L");
  EXPECT_EQ(even.stages.size(), 16);
  EXPECT_EQ(even.layers(), 94);

  EXPECT_EQ(parse_layout("E||t|L").stages,
            (std::vector<LayoutStage>{{true, 0, 0, false}, {}, {false, 1, 0, false}, {false, 0, 0, true}}));
}

TEST(Layout, ReadsAModelInOneStage) {
  EXPECT_EQ(parse_layout("EL").stages, (std::vector<LayoutStage>{{true, 0, 0, true}}));
  EXPECT_EQ(parse_layout("Ettmm,L").stages, (std::vector<LayoutStage>{{true, 2, 2, true}}));
}

TEST(Layout, ExpandsGroupsThatHoldCutsAndRepeats) {
  for (std::string text : {"Et(t|tt|t)*3,L", "E(|t)*2,tL", "E(t*4|)*22,t*3,L", "E,(t|*2)*2,L", "E|*3L",
                           "E(|)*5,L", "E(t,,|,)*2,m*3L"})
    EXPECT_EQ(letters(parse_layout(text)), expand(text)) << text;
}

TEST(Layout, TakesCommasAsNothing) {
  EXPECT_EQ(parse_layout(",E,t*2,,|(t,t|,)*3,L,"), parse_layout("Et*2|(tt|)*3L"));
}

TEST(Layout, RefusesLayersThatDoNotAddUpAndNamesBothNumbers) {
  auto layout = parse_layout("Et|(tt|)*29|L");
  auto error = [&](int64_t layers, std::optional<int64_t> mtp = {}, std::optional<int64_t> ranks = {}) {
    return error_of([&] { check_layout(layout, layers, mtp, ranks); });
  };
  EXPECT_EQ(error(61), "[layout] holds 59 layers, the model has 61");
  EXPECT_EQ(error(59), "no error");
  EXPECT_EQ(error(59, 1), "[layout] holds 0 MTP layers, the model has 1");
  EXPECT_EQ(error(59, 0), "no error");
  EXPECT_EQ(error(59, 0, 16), "no error");
  EXPECT_EQ(error(59, {}, 32), "no error");
  EXPECT_EQ(error(59, {}, 5), "[layout] holds 32 stages, which must be a multiple of the 5 pipeline ranks");
  EXPECT_EQ(error(59, {}, 64), "[layout] holds 32 stages, which must be a multiple of the 64 pipeline ranks");
  EXPECT_EQ(error(59, {}, 0), "[layout] pipeline ranks must be at least 1, got 0");
}

TEST(Layout, RefusesAnEmbeddingThatIsNotFirstAndOnce) {
  expect_told("tE|L", {"[layout] position 1 ('t'): a layout must begin with the embedding E"});
  expect_told("|Et|L", {"position 1 ('|'): a layout must begin with the embedding E"});
  expect_told("tt|L", {"must begin with the embedding E"});
  expect_told("Et|E|L", {"position 4 ('E'): a layout must hold the embedding E once"});
  expect_told("E*2|L", {"must hold the embedding E once"});
  expect_told("(Et|)*2L", {"position 2 ('E'): a layout must hold the embedding E once"});
}

TEST(Layout, RefusesALossThatIsNotLastAndOnce) {
  expect_told("Et|t", {"position 5 (the end): a layout must end with the loss L"});
  expect_told("EL|t", {"position 3 ('|'): a layout must end with the loss L, but this follows it"});
  expect_told("Et|L|", {"position 5 ('|')", "must end with the loss L"});
  expect_told("Et|LL", {"position 5 ('L')", "must end with the loss L"});
  expect_told("Et|Lm", {"position 5 ('m')"});
}

TEST(Layout, RefusesLayersBehindMtpLayers) {
  expect_told("Etm|t|L", {"position 5 ('t'): layers t must stand before all MTP layers m"});
}

TEST(Layout, RefusesRepeatsThatAreNone) {
  expect_told("Et*0|L", {"position 4 ('0'): a repeat must be at least 1"});
  expect_told("E(t|)*000L", {"position 7 ('0'): a repeat must be at least 1"});
  expect_told("Et*|L", {"position 4 ('|'): '*' must be followed by how often, as in t*11"});
  expect_told("Et*", {"position 4 (the end): '*' must be followed by how often"});
  expect_told("Et*-1L", {"position 4 ('-'): '*' must be followed by how often"});
  expect_told("E(t)*(t)*2L", {"position 6 ('('): '*' must be followed by how often"});
  expect_told("Et*2*3L", {"position 5 ('*'): '*' must follow a letter, a cut or a group"});
  expect_told("E(t|)*2*3L", {"position 8 ('*'): '*' must follow a letter, a cut or a group"});
  expect_told("*3EtL", {"position 1 ('*')"});
  expect_told("Et,*3L", {"position 4 ('*')"});
  expect_told("E(*3t)*2L", {"position 3 ('*')"});
  expect_told("Et3L", {"position 3 ('3'): a number must follow '*'"});
  expect_told("Et*1,2L", {"position 6 ('2'): a number must follow '*'"});
}

TEST(Layout, RefusesRepeatsBeyondAnyModel) {
  EXPECT_EQ(parse_layout("Et*99998L").layers(), 99998);
  for (std::string text : {"Et*99999L", "Et*100001L", "Et*99999999999999999999999999L", "E(t*50000|)*2L",
                           "E(t|)*9223372036854775807L", "E(tttttttttttttttttt|)*1000000L"})
    expect_told(text, {"the layout grows beyond 100000 layers and cuts"});
  expect_told("E" + std::string(100'000, 't') + "L", {"the layout grows beyond 100000"});
  expect_told("Et*100001L", {"position 4 ('1')"});
}

TEST(Layout, RefusesGroupsThatAreOpenNestedEmptyOrNotRepeated) {
  expect_told("E(tt|L", {"position 2 ('('): the group is not closed"});
  expect_told("Ett|)*3L", {"position 5 (')'): no group is open"});
  expect_told("E((tt|)*2|)*3L", {"position 3 ('('): groups must not be nested"});
  expect_told("E()*3L", {"position 2 ('('): the group is empty"});
  expect_told("E(,)*3L", {"the group is empty"});
  expect_told("E(tt|)L", {"position 7 ('L'): a group must be followed by how often it is repeated"});
  expect_told("E(tt|)", {"position 7 (the end): a group must be followed by how often it is repeated"});
}

TEST(Layout, RefusesStrayCharacters) {
  expect_told("E t|L",
              {"position 2 (' '): must be one of E (embedding), t (layer), m (MTP layer), L (loss)"});
  expect_told("Et|l", {"position 4 ('l')"});
  expect_told("[[E]]", {"position 1 ('[')"});
  expect_told(std::string("E\0L", 3), {"position 2 ('\\x00')"});
  expect_told("E\xffL", {"position 2 ('\\xff')"});
  expect_told("Et|L\n", {"position 5 ('\\n')"});
  expect_told("", {"position 1 (the end): the layout is empty"});
  expect_told(",", {"the layout is empty"});
}

TEST(Layout, WritesRepeatsOfALetterAndOfAStage) {
  for (std::string text : {"Et*3|(tt|)*29,m|L", "E||t|L", "Et*11|(t*12|)*6,t*11,L", "EL", "Et*47|t*47,L",
                           "Ett|tt|L", "E||*8,L", "Et*3,m*4,L", "Et|t|t|t|mmL", "Et|(t|)*5,L"})
    EXPECT_EQ(to_text(parse_layout(text)), text);
  EXPECT_EQ(to_text(parse_layout("Ettt|tt|tt|tt|tt|tt|L")), "Et*3|(tt|)*5,L");
  EXPECT_EQ(to_text(parse_layout("E(t|t|t|)*2L")), "Et|(t|)*5,L");
}

TEST(Layout, ReadsBackWhatItWrites) {
  std::mt19937 random(1);
  auto below = [&](int64_t bound) { return int64_t(random() % uint64_t(bound)); };
  for (int round = 0; round < 500; ++round) {
    Layout layout;
    layout.stages.resize(size_t(1 + below(12)));
    for (auto& stage : layout.stages) stage.layers = below(2) ? 2 : below(15);
    if (below(2)) layout.stages.back().mtp = below(5);
    layout.stages.front().embedding = layout.stages.back().loss = true;
    expect_reads_back(layout);
    EXPECT_EQ(letters(layout), expand(to_text(layout)));
  }
}

TEST(Layout, ReadsTheLayoutsOfPublicRecipes) {
  std::ifstream in(BIGMAC_SHARED_DATA "/megatron/layouts.txt");
  if (!in) GTEST_SKIP() << "no " BIGMAC_SHARED_DATA "/megatron/layouts.txt: the shared data is not here";
  std::vector<std::pair<size_t, int64_t>> sizes;
  for (std::string line; std::getline(in, line);) {
    auto layout = parse_layout(line);
    auto all = expand(line);
    EXPECT_EQ(letters(layout), all) << line;
    EXPECT_EQ(int64_t(layout.stages.size()), 1 + std::count(all.begin(), all.end(), '|')) << line;
    EXPECT_EQ(layout.layers(), std::count(all.begin(), all.end(), 't')) << line;
    EXPECT_EQ(layout.mtp(), std::count(all.begin(), all.end(), 'm')) << line;
    expect_reads_back(layout);
    sizes.emplace_back(layout.stages.size(), layout.layers());
  }
  using Sizes = std::vector<std::pair<size_t, int64_t>>;
  EXPECT_EQ(sizes, (Sizes{{4, 43},  {8, 94},  {8, 94},  {4, 4},   {32, 61}, {4, 94},  {32, 85}, {24, 94},
                          {32, 61}, {16, 61}, {16, 62}, {2, 94},  {16, 78}, {16, 94}, {12, 94}, {8, 61},
                          {8, 62},  {8, 78},  {16, 61}, {32, 61}, {8, 13},  {8, 13}}));
}

}  // namespace
}  // namespace bigmac
