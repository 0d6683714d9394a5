#include "bigmac/runtime/split_backward.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>
#include <unordered_set>

namespace bigmac {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

// Keeps what a node is given the first time it runs.
class Capture : public torch::autograd::FunctionPreHook {
 public:
  explicit Capture(std::shared_ptr<Tensors> gradients) : gradients_(std::move(gradients)) {}

  Tensors operator()(const Tensors& gradients) override {
    if (gradients_) *std::exchange(gradients_, nullptr) = gradients;
    return gradients;
  }

 private:
  std::shared_ptr<Tensors> gradients_;
};

// The nodes of a graph that lead to some inputs, and among them the branching ones: those with edges that do
// not lead there, and so lead to parameters.
class Paths {
 public:
  Paths(const std::vector<Edge>& roots, std::unordered_set<Node*> inputs) : inputs_(std::move(inputs)) {
    for (const auto& root : roots) walk(root.function);
  }

  bool lead(const Edge& edge) const { return edge.is_valid() && leads_.at(edge.function.get()); }

  void capture() {
    for (auto& [node, gradients] : branching_) {
      gradients = std::make_shared<Tensors>();
      node->add_pre_hook(std::make_unique<Capture>(gradients));
    }
  }

  // Cuts the branching nodes off from the inputs and frees what the others have saved. Calls
  // visit(node, gradients) for the branching ones.
  template <class Visit>
  void cut(Visit&& visit) {
    for (const auto& [node, leads] : leads_)
      if (leads && !inputs_.contains(node) && !is_branching_.contains(node)) node->release_variables();
    std::vector<Edge> cut_off;  // freed when no node is looked at any more
    for (const auto& [node, gradients] : branching_)
      for (auto& edge : node->next_edges())
        if (lead(edge)) cut_off.push_back(std::exchange(edge, {}));
    for (auto& [node, gradients] : branching_) visit(node, *gradients);
  }

 private:
  struct Step {
    std::shared_ptr<Node> node;
    size_t next = 0;
    bool leads = false, branches = false;
  };

  void walk(const std::shared_ptr<Node>& root) {
    if (!root || leads_.contains(root.get())) return;
    std::vector<Step> path;
    auto enter = [&](const std::shared_ptr<Node>& node) {
      path.push_back({node, 0, inputs_.contains(node.get()), false});
    };
    enter(root);
    while (!path.empty()) {
      auto& step = path.back();
      const auto& edges = std::as_const(*step.node).next_edges();
      if (step.next == edges.size()) {
        leads_[step.node.get()] = step.leads;
        if (step.leads && step.branches) {
          is_branching_.insert(step.node.get());
          branching_.push_back({step.node, nullptr});
        }
        path.pop_back();
        continue;
      }
      const auto& child = edges[step.next].function;
      auto known = child ? leads_.find(child.get()) : leads_.end();
      if (child && known == leads_.end()) {
        enter(child);
        continue;
      }
      ++step.next;
      if (child) (known->second ? step.leads : step.branches) = true;
    }
  }

  std::unordered_set<Node*> inputs_;
  std::unordered_map<Node*, bool> leads_;
  std::unordered_set<Node*> is_branching_;
  std::vector<std::pair<std::shared_ptr<Node>, std::shared_ptr<Tensors>>> branching_;
};

}  // namespace

SplitBackward::SplitBackward(const Tensors& roots, const Tensors& gradients, const Tensors& inputs)
    : input_gradients(inputs.size()) {
  std::vector<Edge> edges;
  for (const auto& root : roots) edges.push_back(torch::autograd::impl::gradient_edge(root));
  std::vector<std::shared_ptr<Node>> accumulators;  // kept, or they would come and go
  std::unordered_set<Node*> leaves;
  for (const auto& input : inputs) {
    accumulators.push_back(torch::autograd::impl::grad_accumulator(input));
    leaves.insert(accumulators.back().get());
  }
  Paths paths(edges, std::move(leaves));
  Tensors leading, their_gradients;
  for (size_t i = 0; i < roots.size(); ++i) {
    if (paths.lead(edges[i])) {
      leading.push_back(roots[i]);
      their_gradients.push_back(gradients[i]);
    } else {
      weights.edges_.push_back(edges[i]);
      weights.gradients_.push_back(gradients[i]);
    }
  }
  if (leading.empty()) return;
  paths.capture();
  input_gradients = torch::autograd::grad(leading, inputs, their_gradients, /*retain_graph=*/true,
                                          /*create_graph=*/false, /*allow_unused=*/true);
  paths.cut([&](const std::shared_ptr<Node>& node, Tensors& captured) {
    for (size_t i = 0; i < captured.size(); ++i) {
      if (!captured[i].defined()) continue;
      weights.edges_.emplace_back(node, uint32_t(i));
      weights.gradients_.push_back(std::move(captured[i]));
    }
  });
}

void WeightBackward::run() {
  auto edges = std::exchange(edges_, {});
  auto gradients = std::exchange(gradients_, {});
  if (edges.empty()) return;
  torch::autograd::Engine::get_default_engine().execute(edges, gradients, /*keep_graph=*/false,
                                                        /*create_graph=*/false, /*accumulate_grad=*/true);
}

}  // namespace bigmac
