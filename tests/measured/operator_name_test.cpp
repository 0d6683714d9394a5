#include "bigmac/measured/operator_name.h"

#include <gtest/gtest.h>

#include <string>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

TEST(OperatorName, UnderstandsEveryWayThatItsHeaderNames) {
  struct Case {
    std::string name;
    OperatorName meaning;
  };
  const Phase f = Phase::forward, b = Phase::backward, i = Phase::input, w = Phase::weight;
  for (const auto& [name, meaning] :
       {Case{"F0.3", {f, -1, 0, 3}},
        {"B12.304", {b, -1, 12, 304}},
        {"I0.3", {i, -1, 0, 3}},
        {"W1.0", {w, -1, 1, 0}},
        {"PP:2F3", {f, 2, -1, 3}},
        {"PP:10B0", {b, 10, -1, 0}},
        {"2I3", {i, 2, -1, 3}},
        {"2W3", {w, 2, -1, 3}},
        {"Forward 3", {f, -1, -1, 3}},
        {"Backward 3", {b, -1, -1, 3}},
        {"FORWARD 3", {f, -1, -1, 3}},
        {"B 3", {b, -1, -1, 3}},
        {"F3", {f, -1, -1, 3}},
        {"fwd_mb3", {f, -1, -1, 3}},
        {"fwd-step-3", {f, -1, -1, 3}},
        {"backward_pass: 3", {b, -1, -1, 3}},
        {"bwd step chunk 1 microbatch 3", {b, -1, 1, 3}},
        {"forward stage 5 mb 2", {f, 5, -1, 2}},
        {"wgrad 7", {w, -1, -1, 7}},
        {"dgrad 7", {i, -1, -1, 7}},
        {"forward-compute", {f, -1, -1, -1}},
        {"backward-compute", {b, -1, -1, -1}},
        {"forward_step", {f, -1, -1, -1}},
        {"backward step chunk 1", {b, -1, 1, -1}},
        {"megatron/core/pipeline_parallel/schedules.py(197): forward_step", {f}},
        {"/x/core/pipeline_parallel/schedules.py(374): backward_step", {b}}}) {
    auto found = parse_operator_name(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(*found, meaning) << name;
  }
}

TEST(OperatorName, LeavesAllOtherNamesAlone) {
  for (std::string name : {"",
                           "F",
                           "B",
                           "forward",
                           "Forward",
                           "backward",
                           "aten::linear",
                           "0",
                           "3",
                           "F0.3.1",
                           "F0.3x",
                           "2F",
                           "F-",
                           "PP:",
                           "PP:2F",
                           "PP:F3",
                           "PP:2SEND_F3",
                           "0SEND_F3",
                           "2BW3",
                           "2F3 ",
                           "PP:2F-3",
                           "forward-backward",
                           "backward-send-forward-recv",
                           "forward-recv",
                           "forward_hook 3",
                           "Optimizer.step#AdamW.step",
                           "ProfilerStep#3",
                           "nn.Module: Linear_3",
                           "FullyShardedDataParallel.forward",
                           "fwd mb",
                           "fwd chunk",
                           "fwd chunk mb 3",
                           "F1.2 mb 3",
                           "F 3 microbatch 4",
                           "autograd::engine::evaluate_function: AddBackward0",
                           "F99999999999999999999",
                           "F0.4294967296",
                           "schedules.py(197): forward_step",
                           "train/pretrain_gpt.py(120): forward_step",
                           "megatron/core/pipeline_parallel/schedules.py(800): forward_backward_pipelining",
                           "F\xff 3",
                           "B\n"})
    EXPECT_FALSE(parse_operator_name(name)) << "'" << name << "'";
  EXPECT_FALSE(parse_operator_name("F " + std::string(100, '0') + "3"));
}

TEST(OperatorName, ReadsWhatBigmacLabelsOperators) {
  for (Phase phase : {Phase::forward, Phase::backward, Phase::input, Phase::weight})
    for (int64_t chunk : {0, 1, 7})
      for (int64_t m : {0, 5, 1023}) {
        auto name = short_name(backbone(phase, chunk, m));
        EXPECT_EQ(parse_operator_name(name), (OperatorName{phase, -1, chunk, m})) << name;
      }
}

}  // namespace
}  // namespace bigmac
