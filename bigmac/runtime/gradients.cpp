#include "bigmac/runtime/gradients.h"

#include <torch/torch.h>

#include <map>
#include <sstream>

namespace bigmac {
namespace {

std::string shape_text(const torch::Tensor& tensor) {
  return concat(tensor.sizes(), " ", tensor.scalar_type(), tensor.requires_grad() ? "" : " (frozen)");
}

}  // namespace

SharedGradients::SharedGradients(Transport& transport, NamedParameters parameters)
    : transport_(transport), parameters_(std::move(parameters)) {
  std::string listing;
  for (const auto& [name, tensor] : parameters_) listing += name + "\t" + shape_text(tensor) + "\n";
  struct Entry {
    std::string shape;
    std::vector<int> holders;
  };
  std::map<std::string, Entry> entries;
  auto listings = all_gather(transport_, message_of(listing));
  for (int rank = 0; rank < transport_.size(); ++rank) {
    std::istringstream lines(text_of(listings[rank]));
    for (std::string name, shape; std::getline(lines, name, '\t') && std::getline(lines, shape);) {
      auto& entry = entries[name];
      if (!entry.holders.empty() && entry.shape != shape)
        throw Failure(concat("[gradients] parameter '", name, "' is ", entry.shape, " on rank ",
                             entry.holders[0], " and ", shape, " on rank ", rank));
      entry.shape = shape;
      entry.holders.push_back(rank);
    }
  }
  // In the order of names, which is the same on all ranks; one group for each set of holders and dtype.
  std::map<std::string, torch::Tensor> own(parameters_.begin(), parameters_.end());
  std::map<std::pair<std::vector<int>, torch::ScalarType>, Group> groups;
  for (const auto& [name, entry] : entries) {
    auto found = own.find(name);
    if (entry.holders.size() < 2 || found == own.end()) continue;
    auto& group = groups[{entry.holders, found->second.scalar_type()}];
    group.holders = entry.holders;
    group.parameters.push_back(found->second);
  }
  for (auto& [key, group] : groups) groups_.push_back(std::move(group));
  for (const auto& [name, tensor] : parameters_)
    owned_.push_back(entries[name].holders[0] == transport_.rank());
}

void SharedGradients::sum() {
  torch::NoGradGuard no_grad;
  for (auto& [name, parameter] : parameters_)
    if (parameter.requires_grad() && !parameter.grad().defined())
      parameter.mutable_grad() = torch::zeros_like(parameter);
  for (const auto& group : groups_)
    if (int(group.holders.size()) == transport_.size())
      sum_over_all(group);
    else
      sum_over_some(group);
}

void SharedGradients::sum_over_all(const Group& group) {
  std::vector<torch::Tensor> flat;
  for (const auto& parameter : group.parameters)
    if (parameter.requires_grad()) flat.push_back(parameter.grad().flatten());
  if (flat.empty()) return;
  auto buffer = torch::cat(flat);
  transport_.all_reduce(buffer);
  int64_t offset = 0;
  for (const auto& parameter : group.parameters) {
    if (!parameter.requires_grad()) continue;
    parameter.grad().copy_(buffer.narrow(0, offset, parameter.numel()).view_as(parameter));
    offset += parameter.numel();
  }
}

// The first holder adds in the order of ranks and hands the sum back, so that all hold the same bits.
void SharedGradients::sum_over_some(const Group& group) {
  auto message = [&] {
    Message out;
    for (const auto& parameter : group.parameters)
      if (parameter.requires_grad()) out.tensors.push_back(parameter.grad().clone());
    out.needs_gradient.assign(out.tensors.size(), false);
    return out;
  };
  auto add = [&](const Message& in, bool replace) {
    size_t next = 0;
    for (const auto& parameter : group.parameters) {
      if (!parameter.requires_grad()) continue;
      auto value = in.tensors.at(next++).to(parameter.device());
      replace ? parameter.grad().copy_(value) : parameter.grad().add_(value);
    }
  };
  int first = group.holders[0];
  if (transport_.rank() == first) {
    for (size_t i = 1; i < group.holders.size(); ++i) transport_.post_receives(group.holders[i], 1);
    for (size_t i = 1; i < group.holders.size(); ++i) add(transport_.receive(group.holders[i]), false);
    for (size_t i = 1; i < group.holders.size(); ++i) transport_.send(group.holders[i], message());
  } else {
    transport_.post_receives(first, 1);
    transport_.send(first, message());
    add(transport_.receive(first), true);
  }
}

double SharedGradients::clip_norm(double most) {
  torch::NoGradGuard no_grad;
  auto squares = torch::zeros({1}, torch::kFloat64);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& gradient = parameters_[i].second.grad();
    if (owned_[i] && gradient.defined()) squares += gradient.to(torch::kFloat64).square().sum().cpu();
  }
  transport_.all_reduce(squares);
  double norm = std::sqrt(squares.item<double>());
  if (norm > most)
    for (auto& [name, parameter] : parameters_)
      if (parameter.grad().defined()) parameter.grad().mul_(most / (norm + 1e-6));
  return norm;
}

NamedParameters SharedGradients::owned() const {
  NamedParameters owned;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (owned_[i]) owned.push_back(parameters_[i]);
  return owned;
}

}  // namespace bigmac
