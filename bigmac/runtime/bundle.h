#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace bigmac {

using Tensors = std::vector<torch::Tensor>;

// What a model hands over: tensors of any shapes and dtypes, and its own note of what they are, which reaches
// the model on the other side as it is.
struct Bundle {
  Tensors tensors;
  std::string layout{};

  Bundle() = default;
  Bundle(std::initializer_list<torch::Tensor> list) : tensors(list) {}
  Bundle(Tensors list, std::string note = {}) : tensors(std::move(list)), layout(std::move(note)) {}

  size_t size() const { return tensors.size(); }
  bool empty() const { return tensors.empty(); }
  const torch::Tensor& at(size_t i) const { return tensors.at(i); }
  const torch::Tensor& operator[](size_t i) const { return tensors[i]; }
  auto begin() const { return tensors.begin(); }
  auto end() const { return tensors.end(); }
};

}  // namespace bigmac
