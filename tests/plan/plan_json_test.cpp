#include "bigmac/plan/plan_json.h"

#include <nlohmann/json.hpp>

#include "tests/plan/support.h"

namespace bigmac {
namespace {

using Json = nlohmann::ordered_json;

TEST(PlanJson, HasWhatAPlanHas) {
  auto workload = small_workload({small_encoder("image")});
  auto plan = search(workload, 4, {.threads = 1, .progress = {}});
  auto json = Json::parse(json_of(plan, workload).dump());
  EXPECT_EQ(json["workload"], "small");
  EXPECT_EQ(json["gpus"], 8);
  EXPECT_EQ(json["samples_per_gpu"], 4);
  EXPECT_EQ(json["candidates"], plan.candidates);
  EXPECT_EQ(json["simulated"], plan.simulated);
  ASSERT_EQ(json["best"].size(), plan.best.size());
  ASSERT_EQ(json["frontier"].size(), plan.frontier.size());
  for (size_t n = 0; n < plan.best.size(); ++n) {
    const auto& outcome = plan.best[n];
    const auto& c = outcome.configuration;
    const auto& one = json["best"][n];
    EXPECT_EQ(one["step"], outcome.step);
    EXPECT_EQ(one["memory"], outcome.memory);
    EXPECT_EQ(one["memory_by_rank"], outcome.memory_by_rank);
    EXPECT_EQ(one["fits"], true);
    EXPECT_EQ(one["configuration"]["schedule"], name(c.arrangement));
    EXPECT_EQ(one["configuration"]["base"], name(c.base));
    EXPECT_EQ(one["configuration"]["tensor"], c.parallel.tensor);
    EXPECT_EQ(one["configuration"]["pipeline"], c.parallel.pipeline);
    EXPECT_EQ(one["configuration"]["layers"], c.layers);
    EXPECT_EQ(one["configuration"]["recompute"]["backbone"], cost::name(c.recompute));
    EXPECT_EQ(one["configuration"]["recompute"]["image"], cost::name(c.module_recompute[0]));
  }
  EXPECT_FALSE(json.contains("least_memory"));
  EXPECT_FALSE(json.contains("why_not"));
}

TEST(PlanJson, SaysWhyNothingFits) {
  auto workload = small_workload({small_encoder("image")});
  workload.memory = 100 * kMiB;
  auto json = json_of(search(workload, 4, {.threads = 1, .progress = {}}), workload);
  EXPECT_TRUE(json["best"].empty());
  EXPECT_EQ(json["least_memory"]["fits"], false);
  EXPECT_EQ(json["out_of_memory"]["count"], json["candidates"]);
  expect_told(json["why_not"].get<std::string>(), {"out of memory on rank"});
}

TEST(PlanJson, NamesOnlyWhatAConfigurationHas) {
  auto workload = small_workload({small_encoder("image")});
  auto json = json_of(configuration_of(workload, 2), workload);
  for (const char* key : {"warmup_units", "encoder_gpus", "generator_gpus", "layers"})
    EXPECT_FALSE(json.contains(key)) << key;
  auto c = disttrain_of(workload, 4, 2, 2);
  c.layers = {4, 6};
  json = json_of(c, workload);
  EXPECT_EQ(json["encoder_gpus"], 4);
  EXPECT_FALSE(json.contains("generator_gpus"));
  EXPECT_EQ(json["layers"], (cost::Split{4, 6}));
}

TEST(PlanJson, HasEverySystemOfAComparison) {
  auto workload = small_workload({small_encoder("image")});
  workload.search.pipeline = {2};
  auto comparison = compare(workload, {Arrangement::nested, Arrangement::megatron}, {1, 2}, 1, {});
  auto json = json_of(comparison, workload);
  ASSERT_EQ(json["batches"].size(), 2u);
  EXPECT_EQ(json["batches"][1]["samples_per_gpu"], 2);
  EXPECT_EQ(json["batches"][1]["systems"][1]["schedule"], "megatron");
  EXPECT_EQ(json["batches"][1]["systems"][1]["best"]["step"], comparison.batches[1].systems[1].best->step);
}

}  // namespace
}  // namespace bigmac
