#include <fstream>
#include <numeric>

#include "bigmac/cost/split.h"
#include "tests/cost/layers.h"

namespace bigmac {
namespace {

using namespace cost;

int64_t total(const Split& split) {
  return std::accumulate(split.begin(), split.end(), int64_t(0));
}

TEST(Split, ReadsLists) {
  Split mindspeed{6, 11, 11, 11, 11, 11, 11, 8};
  for (const char* text :
       {"[6,11,11,11,11,11,11,8]", "6,11,11,11,11,11,11,8", " [ 6, 11,11,11 ,11,11,11, 8 ] "})
    EXPECT_EQ(parse_split(text, 80, 8), mindspeed) << text;
  EXPECT_EQ(parse_split("[32,0,0,0,0,0,0,0]", 32, 8), (Split{32, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(parse_split("48", 48, 1), (Split{48}));
}

TEST(Split, ReadsAListForEachChunk) {
  EXPECT_EQ(parse_split("[[6,7,7,4],[0,0,0,0],[0,0,0,0]]", 24, 12),
            (Split{6, 7, 7, 4, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(parse_split("[[0,0,0,1],[4,4,4,4],[4,4,4,3]]", 32, 12),
            (Split{0, 0, 0, 1, 4, 4, 4, 4, 4, 4, 4, 3}));
  EXPECT_EQ(parse_split("[[5]]", 5, 1), (Split{5}));
}

TEST(Split, RefusesTextThatIsNoSplit) {
  auto error = [](std::string_view text) { return error_of([&] { parse_split(text, 80, 8); }); };
  auto number = "must be a number of layers, as in [6,11,11,8]";
  EXPECT_EQ(error(""), concat("[split] position 1 (the end): ", number));
  EXPECT_EQ(error("  "), concat("[split] position 3 (the end): ", number));
  EXPECT_EQ(error("[]"), concat("[split] position 2 (']'): ", number));
  EXPECT_EQ(error("6,x"), concat("[split] position 3 ('x'): ", number));
  EXPECT_EQ(error("6,,11"), concat("[split] position 3 (','): ", number));
  EXPECT_EQ(error("6,11,"), concat("[split] position 6 (the end): ", number));
  EXPECT_EQ(error("[6,-1]"), concat("[split] position 4 ('-'): ", number));
  EXPECT_EQ(error("6.5"), "[split] position 2 ('.'): must be ',' or the end");
  EXPECT_EQ(error("6 11"), "[split] position 3 ('1'): must be ',' or the end");
  EXPECT_EQ(error("6,11]"), "[split] position 5 (']'): must be ',' or the end");
  EXPECT_EQ(error("[6,11"), "[split] position 6 (the end): must be ',' or ']'");
  EXPECT_EQ(error("[6,11]x"), "[split] position 7 ('x'): nothing may follow the list");
  EXPECT_EQ(error("[6],[11]"), "[split] position 4 (','): nothing may follow the list");
  EXPECT_EQ(error("[6,[11]]"), concat("[split] position 4 ('['): ", number));
  EXPECT_EQ(error("[[6,11],[1]]"), "[split] position 11 (']'): a chunk has 1 stages, the first has 2");
  EXPECT_EQ(error("[[6,11],1]"),
            "[split] position 9 ('1'): must be '[', since the chunk before is a list too");
  EXPECT_EQ(error("[[6,11],[1,2"), "[split] position 13 (the end): must be ',' or ']'");
  EXPECT_EQ(error("[[[6]]]"), concat("[split] position 3 ('['): ", number));
  EXPECT_EQ(error("99999999999999999999"),
            "[split] position 7 ('9'): a stage may hold at most 1000000 layers");
  EXPECT_EQ(error(std::string_view("6\0", 2)), "[split] position 2 ('\\x00'): must be ',' or the end");
  EXPECT_EQ(error("\xff"), concat("[split] position 1 ('\\xff'): ", number));
}

TEST(Split, RefusesWhatDoesNotAddUpAndNamesBothNumbers) {
  EXPECT_EQ(error_of([] { parse_split("[6,11,11,11,11,11,11,7]", 80, 8); }),
            "[split] holds 79 layers, the model has 80");
  EXPECT_EQ(error_of([] { parse_split("[6,11,11,11,11,11,19]", 80, 8); }),
            "[split] has 7 stages, the pipeline has 8");
  EXPECT_EQ(error_of([] {
              check_split({40, -1, 41}, 80, 3);
            }),
            "[split] stage 1 must hold between 0 and 1000000 layers, got -1");
  EXPECT_EQ(error_of([] {
              check_split({INT64_MAX, INT64_MAX}, 80, 2);
            }),
            concat("[split] stage 0 must hold between 0 and 1000000 layers, got ", INT64_MAX));
  EXPECT_EQ(error_of([] { check_split({}, 80, 0); }), "[split] stages must be at least 1, got 0");
  EXPECT_EQ(error_of([] { check_split({0}, 0, 1); }), "[split] layers must be at least 1, got 0");
}

TEST(Split, OfALayoutCountsEmbeddingMtpAndHead) {
  auto split = split_of(parse_layout("Et*3|(tt|)*29,m|L"), 61, 1);
  ASSERT_EQ(split.size(), 32);
  EXPECT_EQ(split.front(), 4);
  EXPECT_EQ(split[1], 2);
  EXPECT_EQ(split[30], 1);
  EXPECT_EQ(split[31], 1);
  EXPECT_EQ(total(split), 1 + 61 + 1 + 1);
  EXPECT_EQ(split_of(parse_layout("E||t|L"), 1), (Split{1, 0, 1, 1}));
  EXPECT_EQ(split_of(parse_layout("Et|(tt|)*30L"), 61).back(), 1);
  std::string qwen = "Et*5|";
  for (int i = 0; i < 14; ++i) qwen += "t*6|";
  EXPECT_EQ(total(split_of(parse_layout(qwen + "t*5,L"), 94)), 96);
}

TEST(Split, OfALayoutThatDoesNotAddUpIsRefused) {
  EXPECT_EQ(error_of([] { split_of(parse_layout("Et|(tt|)*29|L"), 61); }),
            "[layout] holds 59 layers, the model has 61");
  EXPECT_EQ(error_of([] { split_of(parse_layout("Et*3|(tt|)*29,m|L"), 61); }),
            "[layout] holds 1 MTP layers, the model has 0");
}

TEST(Split, OfEveryPublicLayoutHoldsEveryLayerOnce) {
  std::ifstream in(BIGMAC_SHARED_DATA "/megatron/layouts.txt");
  if (!in) GTEST_SKIP() << "no " BIGMAC_SHARED_DATA "/megatron/layouts.txt: the shared data is not here";
  int layouts = 0;
  for (std::string line; std::getline(in, line); ++layouts) {
    auto layout = parse_layout(line);
    int64_t layers = layout.layers(), mtp = layout.mtp();
    auto split = split_of(layout, layers, mtp);
    EXPECT_NO_THROW(check_split(split, layers + mtp + 2, int64_t(layout.stages.size()))) << line;
    EXPECT_EQ(error_of([&] { split_of(layout, layers + 7, mtp); }),
              concat("[layout] holds ", layers, " layers, the model has ", layers + 7));
  }
  EXPECT_EQ(layouts, 22);
}

}  // namespace
}  // namespace bigmac
