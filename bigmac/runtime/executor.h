#pragma once

#include <optional>
#include <unordered_map>

#include "bigmac/runtime/memory.h"
#include "bigmac/runtime/model.h"
#include "bigmac/runtime/recorder.h"
#include "bigmac/runtime/transport.h"
#include "bigmac/schedule/messages.h"

namespace bigmac {

struct ExecutorOptions {
  torch::Device device = torch::kCPU;
  MemoryLedger* ledger = nullptr;  // counts bytes by module, if given
};

// This rank's share of one step.
struct StepResult {
  double backbone_loss = 0;
  double generator_loss = 0;
  Timeline::Row record;
};

// Walks its row of the table, operator by operator: takes inputs from messages, runs the model under
// autograd, keeps activations until their backward, hands on values and gradients. It takes no decision of
// its own. Gradients accumulate in the parameters' grad.
class Executor {
 public:
  // The schedule must outlive the executor and be the same on every rank.
  Executor(const Schedule& schedule, Transport& transport, ExecutorOptions options = {});

  // Throws RankFailure when any rank has failed, and whatever the model throws.
  StepResult run(Model& model);

 private:
  struct Kept {  // between a forward and its backward
    Tensors inputs;
    Tensors outputs;
    torch::Tensor loss;
  };

  void run_operator(Model& model, const Operator& op);
  Tensors take_inputs(const Operator& op);
  Message take_message(const Operator& op);
  void run_backward(int64_t forward_id, const Operator& op);
  void send_gradients(const Operator& op, const Tensors& inputs);
  void send(const Operator& op, Message message);

  const Schedule& schedule_;
  Ids ids_;
  Transport& transport_;
  ExecutorOptions options_;
  int rank_;
  Inbox inbox_;
  std::vector<size_t> received_;  // messages taken from each rank in this step
  std::unordered_map<int64_t, Message> arrived_;
  std::unordered_map<int64_t, Kept> kept_;
  std::vector<torch::Tensor> backbone_losses_;
  std::vector<torch::Tensor> generator_losses_;
  Recorder recorder_;
};

}  // namespace bigmac
