#pragma once

#include <unordered_map>

#include "bigmac/runtime/memory.h"
#include "bigmac/runtime/model.h"
#include "bigmac/runtime/recorder.h"
#include "bigmac/runtime/routes.h"
#include "bigmac/runtime/split_backward.h"
#include "bigmac/runtime/transport.h"
#include "bigmac/schedule/messages.h"

namespace bigmac {

struct ExecutorOptions {
  torch::Device device = torch::kCPU;
  MemoryLedger* ledger = nullptr;   // counts bytes by module, if given
  RowObserver* observer = nullptr;  // what it takes is counted as transfer
  EventLog* log = nullptr;          // where what happens is written at once, if anywhere
};

// This rank's share of one step.
struct StepResult {
  double backbone_loss = 0;
  double generator_loss = 0;  // of all generators
  RowRecord record;           // its memory is empty without a ledger
};

// Walks its row of the table, operator by operator: takes inputs from messages, runs the model under
// autograd, keeps activations until their backward, hands on values and gradients. It takes no decision of
// its own. Gradients accumulate in the parameters' grad.
class Executor {
 public:
  // The schedule must outlive the executor and be the same on every rank.
  Executor(const Schedule& schedule, Transport& transport, ExecutorOptions options = {});

  // Throws RankFailure when any rank has failed, Failure where the model's values do not fit the step, and
  // whatever the model throws.
  StepResult run(Model& model);

 private:
  struct Kept {                           // between a forward and its backward
    std::vector<Bundle> inputs, outputs;  // by part (routes.h); of outputs, those owed a gradient
    torch::Tensor loss;
  };

  void run_operator(Model& model, const Operator& op);
  void run_forward(Model& model, const Operator& op);
  void run_generator(Model& model, const Operator& op);
  void run_backward(Model& model, const Operator& op);
  void run_weights(const Operator& op);
  void observe(int64_t position, const Operator& op, bool after);

  void compute(Model& model, const Operator& forward, Kept& kept, bool recomputed);
  bool recomputes(const Model& model, const Operator& op) const;
  Operator forward_of(const Operator& backward) const;

  std::vector<ModelItem> items_of(const Operator& op) const;
  ItemValues by_module(const Operator& op, const std::vector<Bundle>& values) const;
  std::vector<Bundle> by_item(const Operator& op, ItemValues values) const;

  std::vector<Message> take(const Operator& op);
  std::vector<Bundle> take_leaves(const Operator& op);
  void receive(int from);
  void give(const Operator& op, std::vector<Message> parts);
  void give_gradients(const Operator& op, const std::vector<Bundle>& inputs, const Tensors& gradients);

  const Schedule& schedule_;
  Routes routes_;
  Transport& transport_;
  ExecutorOptions options_;
  int rank_;
  Inbox inbox_;
  std::vector<size_t> received_;                      // messages taken from each rank in this step
  std::unordered_map<int64_t, Message> arrived_;      // by the key of the part
  std::unordered_map<int64_t, Kept> kept_;            // by the id of the forward
  std::unordered_map<int64_t, WeightBackward> owed_;  // by the id of the weight gradient
  Tensors backbone_losses_, generator_losses_;
  Recorder recorder_;
};

}  // namespace bigmac
