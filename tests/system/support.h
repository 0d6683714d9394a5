#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/system/system.h"

namespace bigmac {

// What a call complains of; "no error" where it does not.
inline std::string complaint(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

// A matrix and nothing else.
struct Matrix : torch::nn::Module {
  explicit Matrix(int64_t rows = 4, int64_t columns = 4)
      : weight(register_parameter("weight", torch::randn({rows, columns}))) {}
  torch::Tensor weight;
};
inline std::shared_ptr<Matrix> make_matrix() {
  return std::make_shared<Matrix>();
}

// Declared parts and nothing to run.
inline BackboneDeclaration backbone_of(int64_t layers) {
  BackboneDeclaration backbone;
  backbone.name = "llm";
  backbone.embedding = LayerDeclaration{"embedding", {}, {}, {}, 0};
  for (int64_t i = 0; i < layers; ++i)
    backbone.layers.push_back({"layers." + std::to_string(i), {}, {}, {}, 1});
  backbone.head = LayerDeclaration{"head", {}, {}, {}, 0};
  return backbone;
}

inline torch::Tensor whole_numbers(std::vector<int64_t> values) {
  return torch::tensor(values, torch::kLong);
}

}  // namespace bigmac
