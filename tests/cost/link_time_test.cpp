#include "bigmac/cost/link_time.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <random>

#include "tests/cost/layers.h"

namespace bigmac {
namespace {

using namespace cost;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Inside 1 us and 100 GB/s, between 10 us and 20 GB/s, 8 GPUs a node.
const Hardware kRound = round_hardware();

TEST(LinkTime, GroupsLieInMegatronsOrder) {
  Parallel parallel{.tensor = 2, .pipeline = 3, .data = 8, .expert = 4};
  EXPECT_EQ(tensor_group(parallel), (Group{2, 1}));
  EXPECT_EQ(data_group(parallel), (Group{8, 2}));
  EXPECT_EQ(expert_group(parallel), (Group{4, 1}));
  EXPECT_EQ(expert_data_group(parallel), (Group{4, 4}));
}

TEST(LinkTime, FewestOfAGroupInANodeAreThoseOfItsWorstEnd) {
  for (int64_t node : {1, 2, 4, 6, 8})
    for (int64_t size = 1; size <= 20; ++size)
      for (int64_t stride = 1; stride <= 10; ++stride) {
        auto gpu = kRound;
        gpu.gpus_per_node = node;
        int64_t fewest = size;
        for (int64_t block = 0; block < node; ++block)  // then the places in nodes repeat
          for (int64_t first = 0; first < stride; ++first) {
            std::map<int64_t, int64_t> by_node;
            for (int64_t i = 0; i < size; ++i) ++by_node[(block * size * stride + first + i * stride) / node];
            for (auto [_, count] : by_node) fewest = std::min(fewest, count);
          }
        Group group{size, stride};
        EXPECT_LE(in_node(group, gpu), fewest) << size << " GPUs " << stride << " apart on nodes of " << node;
        bool even = node % (size * stride) == 0 || (size * stride % node == 0 && node % stride == 0);
        if (even) {
          EXPECT_EQ(in_node(group, gpu), fewest)
              << size << " GPUs " << stride << " apart on nodes of " << node;
        }
      }
}

TEST(LinkTime, AStridedGroupLiesInANodeWhereItsSpanDoes) {
  EXPECT_EQ(in_node({4, 2}, kRound), 4);
  EXPECT_EQ(in_node({8, 1}, kRound), 8);
  EXPECT_EQ(in_node({8, 2}, kRound), 4);
  EXPECT_EQ(in_node({2, 8}, kRound), 1);
  EXPECT_EQ(in_node({3, 1}, kRound), 1);  // GPUs 6, 7 and 8
}

TEST(LinkTime, ARingInsideANodeMovesAllButItsShare) {
  EXPECT_DOUBLE_EQ(all_gather_seconds(8e9, {8, 1}, kRound), 7e-6 + 7e9 / 1e11);
  EXPECT_DOUBLE_EQ(reduce_scatter_seconds(8e9, {2, 4}, kRound), 1e-6 + 4e9 / 1e11);
}

TEST(LinkTime, ARingAcrossNodesUsesTheLinksOfItsGpus) {
  // 2 nodes of 8 GPUs: 8 links of 20 GB/s are more than the 100 inside.
  EXPECT_DOUBLE_EQ(all_gather_seconds(16e9, {16, 1}, kRound), 1e-5 + 14e-6 + 15e9 / 1e11);
  // 8 nodes with 2 each: 40 GB/s.
  EXPECT_DOUBLE_EQ(all_gather_seconds(16e9, {16, 4}, kRound), 7e-5 + 8e-6 + 15e9 / 4e10);
  // 4 nodes with one each: 20 GB/s, whatever is inside.
  EXPECT_DOUBLE_EQ(all_gather_seconds(4e9, {4, 8}, kRound), 3e-5 + 3e9 / 2e10);
}

TEST(LinkTime, AnAllReduceIsAReduceScatterAndAnAllGather) {
  for (Group group : {Group{2, 1}, Group{8, 1}, Group{64, 1}, Group{16, 4}, Group{5, 3}})
    EXPECT_EQ(all_reduce_seconds(1e9, group, kRound),
              reduce_scatter_seconds(1e9, group, kRound) + all_gather_seconds(1e9, group, kRound));
}

TEST(LinkTime, AnAllToAllTakesTheLongerOfInsideAndOutside) {
  EXPECT_DOUBLE_EQ(all_to_all_seconds(8e9, {8, 1}, kRound), 1e-6 + 7e9 / 1e11);
  EXPECT_DOUBLE_EQ(all_to_all_seconds(16e9, {16, 1}, kRound), 1e-5 + 8e9 / 2e10);
  auto slow_inside = kRound;
  slow_inside.inside.bandwidth = 1e10;
  EXPECT_DOUBLE_EQ(all_to_all_seconds(16e9, {16, 1}, slow_inside), 1e-6 + 7e9 / 1e10);
}

TEST(LinkTime, AMessageTakesTheLinkBetweenItsGpus) {
  EXPECT_DOUBLE_EQ(point_to_point_seconds(1e9, 0, 7, kRound), 1e-6 + 1e9 / 1e11);
  EXPECT_DOUBLE_EQ(point_to_point_seconds(1e9, 7, 8, kRound), 1e-5 + 1e9 / 2e10);
  EXPECT_EQ(point_to_point_seconds(1e9, 5, 5, kRound), 0);
}

TEST(LinkTime, OneGpuAloneSendsNothing) {
  EXPECT_EQ(all_gather_seconds(1e9, {1, 8}, kRound), 0);
  EXPECT_EQ(all_reduce_seconds(1e9, {1, 1}, kRound), 0);
  EXPECT_EQ(all_to_all_seconds(1e9, {1, 1}, kRound), 0);
}

TEST(LinkTime, MoreBytesNeverTakeLessAndStridesNeverHelp) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    Group group{1 + int64_t(random() % 64), int64_t(1) << random() % 4};
    double bytes = double(random() % 1'000'000'000), more = bytes + double(random() % 1'000'000);
    for (auto* seconds :
         {all_gather_seconds, reduce_scatter_seconds, all_reduce_seconds, all_to_all_seconds}) {
      double time = seconds(bytes, group, kRound);
      EXPECT_LE(time, seconds(more, group, kRound));
      EXPECT_LE(seconds(bytes, {int64_t(1) << random() % 4, 1}, kRound),
                all_reduce_seconds(bytes, {8, 8}, kRound));
      Group wider{group.size, group.stride * 2};
      EXPECT_LE(time, seconds(bytes, wider, kRound) * (1 + 1e-12)) << group.size << " x " << group.stride;
    }
  }
}

TEST(LinkTime, PipelineRanksShareANodeWhereAllTheirGpusDo) {
  auto nodes = [](int64_t tensor, int64_t data, int64_t pipeline) {
    return node_of_pipeline_rank({.tensor = tensor, .pipeline = pipeline, .data = data}, kRound);
  };
  EXPECT_EQ(nodes(1, 1, 8), std::vector<int32_t>(8, 0));
  EXPECT_EQ(nodes(2, 1, 8), (std::vector<int32_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(nodes(2, 2, 4), (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(nodes(4, 2, 3), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(nodes(4, 8, 3), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(nodes(3, 1, 3), (std::vector<int32_t>{0, 1, 2}));  // GPUs 5 and 8 lie on two
}

// Dense 9,703,680 and experts 75,497,472 on a GPU (layer_bytes_test.cpp).
TEST(LinkTime, SynchronisesDenseAndExpertGradientsOverTheirGroups) {
  std::array layers{qwen3_moe(), qwen3_moe()};
  Parallel parallel{.tensor = 2, .data = 8, .expert = 8};
  double dense = 2 * 9'703'680.0, experts = 2 * 75'497'472.0;
  Group over{8, 2}, of_experts{2, 8};
  auto sync = gradient_sync(layers, parallel, {}, {}, true, kRound, whole());
  EXPECT_DOUBLE_EQ(sync.gradients, reduce_scatter_seconds(4 * dense, over, kRound) +
                                       reduce_scatter_seconds(4 * experts, of_experts, kRound));
  EXPECT_DOUBLE_EQ(sync.parameters, all_gather_seconds(2 * dense, over, kRound) +
                                        all_gather_seconds(2 * experts, of_experts, kRound));
  auto whole_states = gradient_sync(layers, parallel, {}, {}, false, kRound, whole());
  EXPECT_DOUBLE_EQ(whole_states.gradients, 2 * sync.gradients);
  EXPECT_EQ(whole_states.parameters, 0);
  auto half = whole();
  half.links = 0.5;
  EXPECT_DOUBLE_EQ(gradient_sync(layers, parallel, {}, {}, true, kRound, half).all(), 2 * sync.all());
}

TEST(LinkTime, SynchronisesNothingThatIsFrozenOrThereOnce) {
  std::array layers{qwen3_moe()};
  EXPECT_EQ(gradient_sync(layers, {.data = 8}, {.frozen = true}, {}, true, kRound, whole()).all(), 0);
  EXPECT_EQ(gradient_sync(layers, {.tensor = 4}, {}, {}, true, kRound, whole()).gradients,
            reduce_scatter_seconds(4 * 128 * 4'718'592.0, {4, 1}, kRound));
  EXPECT_EQ(gradient_sync(layers, {}, {}, {}, true, kRound, whole()).all(), 0);
}

TEST(LinkTime, GathersAShardedModuleALayerAtATime) {
  std::array layers{gpt(1024, 16), gpt(2048, 16), Layer{"gate", {part(PartKind::elementwise, 8, 8)}}};
  double first = 12 * 1024.0 * 1024 + 2 * 1024, second = 12 * 2048.0 * 2048 + 2 * 2048;
  Group group{8, 1}, copies{4, 8};
  auto time = shard_time(layers, 32, 8, 1, {}, {}, kRound, whole());
  EXPECT_DOUBLE_EQ(time.gather, all_gather_seconds(2 * first, group, kRound) +
                                    all_gather_seconds(2 * second, group, kRound));
  EXPECT_DOUBLE_EQ(time.reduce, reduce_scatter_seconds(4 * first, group, kRound) +
                                    reduce_scatter_seconds(4 * second, group, kRound));
  EXPECT_DOUBLE_EQ(time.replicas, all_reduce_seconds(4 * first / 8, copies, kRound) +
                                      all_reduce_seconds(4 * second / 8, copies, kRound));
  auto frozen = shard_time(layers, 32, 8, 1, {.frozen = true}, {}, kRound, whole());
  EXPECT_EQ(frozen.gather, time.gather);
  EXPECT_EQ(frozen.reduce + frozen.replicas, 0);
  auto copied = shard_time(layers, 32, 1, 1, {}, {}, kRound, whole());
  EXPECT_EQ(copied.gather + copied.reduce, 0);
  EXPECT_DOUBLE_EQ(copied.replicas, all_reduce_seconds(4 * first, {32, 1}, kRound) +
                                        all_reduce_seconds(4 * second, {32, 1}, kRound));
}

TEST(LinkTime, GathersOverTheGpusOfAShardThatHoldTheSamePart) {
  std::array layers{gpt(1024, 16)};
  for (int64_t tensor : {2, 4}) {
    double held = held_parameters(layers[0], {.tensor = tensor}).all();
    Group group{8 / tensor, tensor};
    auto time = shard_time(layers, 32, 8, tensor, {}, {}, kRound, whole());
    EXPECT_DOUBLE_EQ(time.gather, all_gather_seconds(2 * held, group, kRound)) << tensor;
    EXPECT_DOUBLE_EQ(time.reduce, reduce_scatter_seconds(4 * held, group, kRound)) << tensor;
    EXPECT_DOUBLE_EQ(time.replicas, all_reduce_seconds(4 * held / double(group.size), {4, 8}, kRound));
  }
  EXPECT_EQ(shard_time(layers, 32, 8, 8, {}, {}, kRound, whole()).gather, 0);
}

TEST(LinkTime, AnOptimizerStepMovesGradientStatesAndParameter) {
  std::array layers{qwen3_moe()};
  Parallel parallel{.tensor = 2, .data = 4, .expert = 4};
  double dense = 9'703'680, experts = 2 * 75'497'472.0;
  Efficiency efficiency = whole();
  efficiency.memory = 0.5;
  EXPECT_DOUBLE_EQ(optimizer_seconds(layers, parallel, {}, {}, false, kRound, efficiency),
                   (dense + experts) * (4 + 24 + 2) / 0.5e12);
  EXPECT_DOUBLE_EQ(optimizer_seconds(layers, parallel, {}, {}, true, kRound, efficiency),
                   (dense / 4 + experts / 2) * (4 + 24 + 2) / 0.5e12);
  EXPECT_EQ(optimizer_seconds(layers, parallel, {.frozen = true}, {}, true, kRound, efficiency), 0);
}

TEST(LinkTime, RefusesFiguresThatAreNone) {
  for (auto* seconds : {all_gather_seconds, reduce_scatter_seconds, all_reduce_seconds, all_to_all_seconds}) {
    auto error = [&](double bytes, const Group& group, const Hardware& hardware = kRound) {
      return error_of([&] { seconds(bytes, group, hardware); });
    };
    for (double value : {-1.0, kNan, kInfinity})
      EXPECT_EQ(error(value, {2, 1}), concat("[links] bytes must be at least 0 and finite, got ", value));
    EXPECT_EQ(error(1, {0, 1}), "[links] size of a group must be at least 1, got 0");
    EXPECT_EQ(error(1, {2, -1}), "[links] stride of a group must be at least 1, got -1");
    auto none = kRound;
    none.gpus_per_node = 0;
    EXPECT_EQ(error(1, {2, 1}, none), "[hardware] GPUs per node must be at least 1, got 0");
  }
  EXPECT_EQ(error_of([] { in_node({2, 0}, kRound); }), "[links] stride of a group must be at least 1, got 0");
  EXPECT_EQ(error_of([] { point_to_point_seconds(1, -3, 0, kRound); }),
            "[links] GPUs are numbered from 0, got -3");
  EXPECT_EQ(error_of([] { point_to_point_seconds(kNan, 1, 0, kRound); }),
            "[links] bytes must be at least 0 and finite, got nan");
  EXPECT_EQ(error_of([] { node_of_pipeline_rank({.pipeline = 0}, kRound); }),
            "[parallel] pipeline must be between 1 and 1000000, got 0");
}

TEST(LinkTime, RefusesShardsThatDoNotDivideTheGpus) {
  auto error = [](int64_t gpus, int64_t shard) {
    return error_of([&] { shard_time({}, gpus, shard, 1, {}, {}, kRound, whole()); });
  };
  EXPECT_EQ(error(12, 8), "[shard] 8 GPUs that share a module must divide the 12 GPUs");
  EXPECT_EQ(error(12, 0), "[shard] 0 GPUs that share a module must divide the 12 GPUs");
  EXPECT_EQ(error(0, 1), "[shard] GPUs must be at least 1, got 0");
  EXPECT_EQ(error(12, 4), "no error");
  EXPECT_EQ(error_of([] { shard_time({}, 12, 4, 3, {}, {}, kRound, whole()); }),
            "[shard] tensor 3 must divide the 4 GPUs that share a module");
}

TEST(LinkTime, RefusesWrongEfficiencyAndPrecision) {
  std::array layers{gpt(64, 4)};
  Efficiency none = whole();
  none.links = 0;
  expect_told([&] { gradient_sync(layers, {}, {}, {}, true, kRound, none); }, {"[efficiency] links"});
  expect_told([&] { shard_time(layers, 8, 8, 1, {}, {}, kRound, none); }, {"[efficiency] links"});
  expect_told([&] { optimizer_seconds(layers, {}, {}, {.gradient = -1}, true, kRound, whole()); },
              {"[precision] gradient"});
}

}  // namespace
}  // namespace bigmac
