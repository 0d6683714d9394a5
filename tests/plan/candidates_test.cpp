#include "bigmac/plan/candidates.h"

#include <algorithm>
#include <set>

#include "tests/plan/support.h"

namespace bigmac {
namespace {

using cost::Recompute;

Search narrow() {
  Search search;
  search.tensor = {1, 2};
  search.pipeline = {2, 4};
  search.chunks = {1, 2};
  search.expert = {1};
  search.microbatch = {1, 2};
  search.bases = {Base::one_f_one_b, Base::interleaved};
  return search;
}

template <class Of>
auto values_of(const Candidates& candidates, Of&& of) {
  std::set<decltype(of(candidates.legal[0]))> values;
  for (const auto& c : candidates.legal) values.insert(of(c));
  return values;
}

int64_t refused(const Candidates& candidates) {
  int64_t count = 0;
  for (const auto& [kind, what] : candidates.refused) count += what.count;
  return count;
}

TEST(Candidates, AreAsManyAsChoices) {
  auto workload = small_workload();
  workload.backbone.recompute = {Recompute::none, Recompute::full};
  // 2 TP, 2 PP, 2 of VPP and base that belong together, 2 MBS, 2 levels.
  auto found = candidates(workload, 4, narrow());
  EXPECT_EQ(found.legal.size(), 32u);
  EXPECT_EQ(refused(found), 0);
  workload.backbone.recompute.clear();
  EXPECT_EQ(candidates(workload, 4, narrow()).legal.size(), 48u);
  // With an encoder 3 levels of it, W of 3 and, with one chunk, of 2.
  workload.modules = {small_encoder("image")};
  auto search = narrow();
  search.arrangements = {Arrangement::nested};
  EXPECT_EQ(candidates(workload, 4, search).legal.size(), 2u * 2 * (2 + 1) * 2 * 3 * 3);
  search.arrangements = {Arrangement::megatron};
  EXPECT_EQ(candidates(workload, 4, search).legal.size(), 2u * 2 * 2 * 2 * 3 * 3);
  search.arrangements = {Arrangement::nested, Arrangement::megatron};
  EXPECT_EQ(candidates(workload, 4, search).legal.size(), 2u * 2 * (3 + 2) * 2 * 3 * 3);
}

TEST(Candidates, HoldNothingTwiceAndOnlyWhatIsLegal) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Workloads workloads(seed);
    auto workload = workloads.draw();
    Search search;
    if (!workload.modules.empty()) search.arrangements = kWithModules;
    auto found = candidates(workload, 4, search);
    std::set<std::string> seen;
    for (const auto& c : found.legal) {
      EXPECT_TRUE(seen.insert(to_text(c, workload)).second) << seed << ": " << to_text(c, workload);
      EXPECT_FALSE(refusal(c, workload, 4 * workload.gpus)) << to_text(c, workload);
      EXPECT_EQ(c.gpus(), workload.gpus);
    }
  }
}

TEST(Candidates, AreOnlyWhatTheSearchNames) {
  auto workload = small_workload({small_encoder("image")});
  workload.backbone.model = small_decoder(8, 4);
  Search search;
  search.tensor = {2};
  search.pipeline = {1, 2};
  search.chunks = {1, 3};
  search.expert = {4};
  search.microbatch = {2};
  search.arrangements = {Arrangement::optimus, Arrangement::nested};
  search.bases = {Base::zb_h1, Base::interleaved};
  search.warmup_units = {5, 7};
  workload.backbone.recompute = {Recompute::selective};
  workload.modules[0].recompute = {Recompute::full};
  auto found = candidates(workload, 4, search);
  using Values = std::set<int64_t>;
  EXPECT_EQ(values_of(found, [](const auto& c) { return c.parallel.tensor; }), Values{2});
  EXPECT_EQ(values_of(found, [](const auto& c) { return c.parallel.pipeline; }), (Values{1, 2}));
  EXPECT_EQ(values_of(found, [](const auto& c) { return c.chunks; }), (Values{1, 3}));
  EXPECT_EQ(values_of(found, [](const auto& c) { return c.parallel.expert; }), Values{4});
  EXPECT_EQ(values_of(found, [](const auto& c) { return c.microbatch; }), Values{2});
  EXPECT_EQ(values_of(found, [](const auto& c) { return c.arrangement; }),
            (std::set{Arrangement::optimus, Arrangement::nested}));
  EXPECT_EQ(values_of(found, [](const auto& c) { return c.base; }),
            (std::set{Base::zb_h1, Base::interleaved}));
  EXPECT_EQ(values_of(found, [](const auto& c) { return c.recompute; }), std::set{Recompute::selective});
  EXPECT_EQ(values_of(found, [](const auto& c) { return c.module_recompute; }),
            std::set{std::vector{Recompute::full}});
  for (const auto& c : found.legal) EXPECT_EQ(c.warmup_units > 0, c.arrangement == Arrangement::nested);
  EXPECT_EQ(values_of(found, [](const auto& c) { return c.warmup_units; }), (Values{0, 5, 7}));
}

TEST(Candidates, TakeWhatMakesSenseForWhatIsLeftOpen) {
  auto workload = small_workload({small_encoder("image")});
  auto all = filled({}, workload);
  EXPECT_EQ(all.tensor, (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(all.pipeline, (std::vector<int64_t>{1, 2, 3, 4, 5}));  // 10 layers, at least 2 a rank
  EXPECT_EQ(all.expert, std::vector<int64_t>{1});
  EXPECT_EQ(all.arrangements,
            (std::vector{Arrangement::nested, Arrangement::nested_fill, Arrangement::megatron}));
  workload.backbone.model = small_decoder(14, 4);
  all = filled({}, workload);
  EXPECT_EQ(all.pipeline, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  // Of these, what does not divide the GPUs has not been asked for.
  EXPECT_EQ(candidates(workload, 4, {}).refused.count("GPUs do not divide"), 0u);
  EXPECT_EQ(all.expert, (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(filled({}, small_workload()).arrangements, std::vector{Arrangement::llm_only});
  // What is named stays.
  EXPECT_EQ(filled(narrow(), workload).tensor, narrow().tensor);
}

TEST(Candidates, TakeASplitWhereItHasAsManyStages) {
  auto workload = small_workload();
  workload.backbone.recompute = {Recompute::none};
  auto search = narrow();
  search.splits = {{1, 2, 3, 4}, {4, 3, 2, 1}, {2, 1, 1, 1, 1, 1, 1, 2}};
  auto found = candidates(workload, 4, search);
  std::set<cost::Split> taken;
  for (const auto& c : found.legal) {
    EXPECT_EQ(int64_t(c.layers.size()), c.stages()) << to_text(c, workload);
    taken.insert(c.layers);
  }
  EXPECT_EQ(taken, std::set(search.splits.begin(), search.splits.end()));
  // 2 TP and 2 MBS of PP 4 VPP 1 and of PP 2 VPP 2 with either split, and of PP 4 VPP 2. PP 2 VPP 1 has none.
  EXPECT_EQ(found.legal.size(), 4u * (2 + 2 + 1));
}

TEST(Candidates, OfAFrozenEncoderHaveNoLevelsOfRecompute) {
  auto workload = small_workload({small_encoder("image")});
  workload.modules[0].frozen = true;
  for (const auto& c : candidates(workload, 4, narrow()).legal)
    EXPECT_EQ(c.module_recompute, std::vector{Recompute::none});
  // A generator passes its gradient on, frozen or not.
  workload.modules = {small_generator("drawing")};
  workload.modules[0].frozen = true;
  EXPECT_EQ(values_of(candidates(workload, 4, narrow()), [](const auto& c) { return c.module_recompute[0]; })
                .size(),
            3u);
}

TEST(Candidates, OfDisttrainShareTheGpusOutInNodes) {
  auto workload = small_workload({small_encoder("image"), small_generator("drawing")});
  workload.gpus = 16;  // 4 nodes
  auto search = narrow();
  search.arrangements = {Arrangement::disttrain};
  search.tensor = {1};
  search.pipeline = {2};
  auto found = candidates(workload, 4, search);
  std::set<std::pair<int64_t, int64_t>> own;
  for (const auto& c : found.legal) {
    own.insert({c.encoder_gpus, c.generator_gpus});
    EXPECT_EQ(c.chunks, 1);
    EXPECT_EQ(c.base, Base::one_f_one_b);
    EXPECT_EQ(c.parallel.data * 2 + c.encoder_gpus + c.generator_gpus, 16);
  }
  // What is left of 16 is 2 * DP, and either is a multiple of DP or divides it.
  EXPECT_EQ(own, (std::set<std::pair<int64_t, int64_t>>{{4, 4}, {4, 8}, {8, 4}}));
  workload.gpus = 4;
  own.clear();
  for (const auto& c : candidates(workload, 4, search).legal) own.insert({c.encoder_gpus, c.generator_gpus});
  EXPECT_EQ(own, (std::set<std::pair<int64_t, int64_t>>{{1, 1}}));
}

TEST(Candidates, CountWhatIsRefusedByKind) {
  auto workload = small_workload();
  auto search = narrow();
  search.tensor = {1, 8};
  search.pipeline = {2, 3};
  search.microbatch = {1, 5};
  auto found = candidates(workload, 4, search);
  // TP 8 PP 2, TP 1 PP 3 and TP 8 PP 3 for each of 2 kinds of table and 2 MBS; MBS 5 of what is left.
  EXPECT_EQ(found.refused.at("GPUs do not divide").count, 12);
  EXPECT_EQ(found.refused.at("batch does not divide").count, 2);
  expect_told(found.refused.at("GPUs do not divide").example, {"TP1 PP3", "the cluster has 8"});
  expect_told(found.refused.at("batch does not divide").example, {"MBS5", "32"});
  EXPECT_EQ(found.legal.size(), 2u * 3);
}

}  // namespace
}  // namespace bigmac
