#include <algorithm>
#include <cmath>
#include <set>

#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/explain.h"
#include "tests/train/small_system.h"

// What people in the field have reported of pipelines, each as a case of its own.
namespace bigmac::train {
namespace {

std::set<uint32_t> microbatches_of_items(const Schedule& schedule) {
  std::set<uint32_t> microbatches;
  for (const auto& item : schedule.step.modules.at(0).items) microbatches.insert(item.microbatch);
  return microbatches;
}

double norm_of(const NamedTensors& gradients) {
  double squares = 0;
  for (const auto& [name, gradient] : gradients)
    squares += gradient.to(torch::kFloat64).square().sum().item<double>();
  return std::sqrt(squares);
}

TEST(Reports, DifferentLengthsInEveryMicrobatchRunOnFourRanks) {
  std::vector<SampleShape> shapes;
  for (int64_t m = 0; m < 8; ++m) shapes.push_back({3 + (m * 5) % 8 * 4, 2 + m % 3, {1 + m, 2}});
  for (int64_t chunks : {1, 2}) expect_plain(small_system(), small_samples(shapes), layout(4, chunks, 1, 8));
}

TEST(Reports, BFloat16BesideInt64AtABoundaryRunsOnThreeRanks) {
  std::vector<SampleShape> shapes;
  for (int64_t m = 0; m < 6; ++m) shapes.push_back({4 + m, 3, {2}});
  auto options = layout(3, 1, 1, 6);
  options.dtype = "float32";
  auto wide = run_in_threads(small_system(), always(small_samples(shapes)), options);
  options.dtype = "bfloat16";
  auto half = run_in_threads(small_system(), always(small_samples(shapes)), options);
  EXPECT_NEAR(half.figures.loss / wide.figures.loss, 1, 0.02);
  ASSERT_EQ(half.gradients.size(), wide.gradients.size());
  double product = 0;
  for (const auto& [name, gradient] : half.gradients) {
    EXPECT_EQ(gradient.scalar_type(), torch::kFloat32) << name;
    product +=
        (gradient.to(torch::kFloat64) * wide.gradients.at(name).to(torch::kFloat64)).sum().item<double>();
  }
  EXPECT_GT(product / (norm_of(half.gradients) * norm_of(wide.gradients)), 0.999);
  EXPECT_NEAR(norm_of(half.gradients) / norm_of(wide.gradients), 1, 0.05);
}

TEST(Reports, FewerMicrobatchesThanRanksAndNoMultiplesRun) {
  for (int64_t microbatches : {1, 2, 3, 5, 7})
    for (int64_t chunks : {1, 2}) {
      SCOPED_TRACE(concat("V=", chunks, " M=", microbatches));
      std::vector<SampleShape> shapes;
      for (int64_t m = 0; m < microbatches; ++m) shapes.push_back({4 + m % 3, 2, {1 + m % 2}});
      expect_plain(small_system(), small_samples(shapes), layout(4, chunks, 1, microbatches));
    }
}

TEST(Reports, LayersThatDoNotDivideAreTrainedEveryOneOnce) {
  for (auto [layers, ranks] : {std::pair<int64_t, int64_t>{30, 4}, {7, 2}}) {
    SCOPED_TRACE(concat(layers, " layers, P=", ranks));
    auto system = small_system({.layers = layers});
    std::vector<SampleShape> shapes(5, {5, 3, {2}});
    auto got = expect_plain(system, small_samples(shapes), layout(ranks, 1, 1, 5));
    for (int64_t i = 0; i < layers; ++i) {
      const auto& gradient = got.gradients.at(concat("llm.layers.", i, ".weight"));
      EXPECT_GT(gradient.abs().max().item<double>(), 1e-6) << "layer " << i;
    }
    EXPECT_EQ(std::count_if(got.gradients.begin(), got.gradients.end(),
                            [](const auto& item) { return item.first.starts_with("llm.layers."); }),
              2 * layers);
  }
}

TEST(Reports, ALayoutWithAnEmptyStageIsTrained) {
  auto options = layout(4, 1, 1, 5);
  options.cut.layout = "Ett||t*4|L";
  expect_plain(small_system(), small_samples(std::vector<SampleShape>(5, {5, 3, {2}})), options);
}

TEST(Reports, ValidTokensOfEveryMicrobatchCountOnceWhateverP) {
  auto samples = small_samples({{101, 100, {2}}, {9, 7, {}}, {5, 0, {1}}, {52, 50, {3}}});
  auto one = run_in_threads(small_system(), always(samples), layout(1, 1, 1, 4));
  for (auto [pp, dp] : {std::pair<int64_t, int64_t>{2, 1}, {4, 1}, {2, 2}}) {
    SCOPED_TRACE(concat("P=", pp, " DP=", dp));
    auto got = expect_plain(small_system(), samples, layout(pp, 1, dp, 4 / dp), 1);
    EXPECT_NEAR(norm_of(got.gradients) / norm_of(one.gradients), 1.0, 1e-12);
    EXPECT_NEAR(got.figures.loss / one.figures.loss, 1.0, 1e-12);
  }
}

// A count of one a sample makes the step's gradient the mean of what each microbatch gives alone.
TEST(Reports, GradientsOfAllMicrobatchesAreKeptWhenLengthsChange) {
  SmallOptions counted;
  counted.count = [](const Values&) { return 1.0; };
  auto system = small_system(counted);
  auto samples = small_samples({{3, 1, {1}}, {11, 9, {2, 1}}, {6, 4, {}}, {17, 8, {4}}, {4, 4, {2}}});
  auto got = run_in_threads(system, always(samples), layout(4, 1, 1, 5));
  NamedTensors sum;
  for (const auto& sample : samples)
    for (const auto& [name, gradient] : run_plainly(system, {sample}, layout(1, 1, 1, 1)).gradients) {
      auto& total = sum[name];
      total = total.defined() ? total + gradient / 5 : gradient / 5;
    }
  auto far = distance(got.gradients, sum);
  EXPECT_LT(far.most, kTolerance) << far.name;
  auto last = run_plainly(system, {samples.back()}, layout(1, 1, 1, 1)).gradients;
  EXPECT_GT(distance(got.gradients, last).most, 0.1);
}

TEST(Reports, SevenSamplesInThreeMicrobatchesAndPicturesFollowTheirSample) {
  constexpr uint32_t kMicrobatch[] = {0, 0, 0, 1, 1, 1, 2};
  auto system = small_system();
  auto options = layout(2, 1, 1, 3);
  NamedTensors before;
  for (size_t with = 0; with < 7; ++with) {
    SCOPED_TRACE(concat("pictures with sample ", with));
    std::vector<SampleShape> shapes(7);
    for (size_t i = 0; i < 7; ++i) shapes[i].tokens = 4 + int64_t(i);
    shapes[with].patches = {2, 3};
    auto samples = small_samples(shapes);
    auto got = expect_plain(system, samples, options, 1);
    if (!before.empty()) {
      EXPECT_GT(distance(got.gradients, before).most, 1e-3);
    }
    before = got.gradients;
    auto items = schedule_of(system, samples, options).step.modules[0].items;
    EXPECT_EQ(items, (std::vector<bigmac::Item>{{kMicrobatch[with], 2}, {kMicrobatch[with], 3}}));
  }
}

TEST(Reports, PicturesInMicrobatchesZeroAndThreeOnly) {
  std::vector<SampleShape> shapes(5);
  shapes[0].patches = {2};
  shapes[3].patches = {1, 4};
  auto samples = small_samples(shapes);
  for (int64_t ranks : {1, 2, 4}) {
    SCOPED_TRACE(concat("P=", ranks));
    auto options = layout(ranks, 1, 1, 5);
    auto got = expect_plain(small_system(), samples, options);
    EXPECT_GT(got.gradients.at("vision.tower.weight").abs().max().item<double>(), 1e-6);
    auto schedule = schedule_of(small_system(), samples, options);
    EXPECT_EQ(microbatches_of_items(schedule), (std::set<uint32_t>{0, 3}));
    int64_t forwards = count_operators(schedule, Module::encoder, Phase::forward);
    EXPECT_GE(forwards, 1);
    EXPECT_LE(forwards, 3);
    EXPECT_EQ(count_operators(schedule, Module::encoder, Phase::backward), forwards);
  }
}

TEST(Reports, ALossThatCountsNothingInTheWholeStepIsZero) {
  auto system = small_system();
  auto samples = small_samples(std::vector<SampleShape>(4, {5, 0, {1}}));
  for (int64_t ranks : {1, 2}) {
    auto options = layout(ranks, 1, 1, 4);
    NamedTensors before, after;
    StepFigures figures;
    run_threads(int(ranks), [&](Transport& world) {
      Trainer trainer(system, always(samples), options, world);
      auto first = trainer.gather_parameters();
      auto own = trainer.train_step(0);
      auto gradients = trainer.gather_gradients(), second = trainer.gather_parameters();
      for (const auto& [name, gradient] : gradients)
        EXPECT_EQ(gradient.abs().max().item<double>(), 0) << name;
      if (world.rank() == 0) before = std::move(first), after = std::move(second), figures = own;
    });
    EXPECT_EQ(figures.loss, 0);
    EXPECT_EQ(figures.gradient_norm, 0);
    EXPECT_EQ(before.size(), after.size());
    for (const auto& [name, value] : before) EXPECT_TRUE(same_bits(value, after.at(name))) << name;
  }
}

TEST(Reports, BalancingAndZLossesAreReportedByName) {
  auto system = make_system("moe");
  auto samples = make_samples("moe", {.samples = 8}, 0);
  auto one = run_in_threads(system, always(samples), layout(1, 1, 1, 4));
  auto four = run_in_threads(system, always(samples), layout(4, 1, 1, 4));
  std::vector<std::string> names;
  double sum = 0;
  ASSERT_EQ(four.figures.losses.size(), one.figures.losses.size());
  for (size_t i = 0; i < one.figures.losses.size(); ++i) {
    const auto& [name, value] = one.figures.losses[i];
    names.push_back(name);
    sum += value;
    EXPECT_GT(value, 0) << name;
    EXPECT_NEAR(four.figures.losses[i].second / value, 1, 1e-12) << name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"text", "balance", "router z", "z"}));
  EXPECT_NEAR(sum, one.figures.loss, 1e-12);
  // Eight layers' balance, each 2 (of 2 choices a token) where the load is even, at a weight of 0.01.
  EXPECT_NEAR(one.figures.losses[1].second / (0.01 * 8 * 2), 1, 0.3);
}

TEST(Reports, OnePictureSixtyTimesLargerRunsAndItsRankIsNamed) {
  std::vector<SampleShape> shapes(8, {5, 3, {2}});
  shapes[5].patches = {120};
  auto samples = small_samples(shapes);
  auto system = small_system();
  auto options = layout(4, 1, 1, 8);
  expect_plain(system, samples, options);
  auto schedule = schedule_of(system, samples, options);
  size_t largest = 0;
  const auto& shares = schedule.shares.list;
  for (size_t n = 0; n < shares.size(); ++n)
    if (size_of(schedule, shares[n]) > size_of(schedule, shares[largest])) largest = n;
  EXPECT_EQ(item_list(schedule, shares[largest]), "5.0");
  EXPECT_EQ(size_of(schedule, shares[largest]), 120);
  // Its forward of 12 and its backward of 24 are the larger part of what the step's end hangs on.
  Costs costs;
  costs.modules = {{0.1, 0.2}};
  auto timeline = simulate(schedule, costs);
  double named = 0;
  for (const auto& on_path : critical_path(schedule, timeline)) {
    const auto& op = on_path.slice.op;
    if (op.module != Module::encoder || op.index != largest) continue;
    EXPECT_EQ(on_path.rank, shares[largest].rank);
    named += on_path.slice.end - on_path.slice.start;
  }
  EXPECT_NEAR(named, 36, 1e-9);
  EXPECT_GT(named, 0.5 * timeline.length());
}

}  // namespace
}  // namespace bigmac::train
