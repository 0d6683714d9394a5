#include "bigmac/runtime/executor.h"

#include <torch/autograd.h>

#include "bigmac/schedule/dependencies.h"

namespace bigmac {

Executor::Executor(const Schedule& schedule, Transport& transport, ExecutorOptions options)
    : schedule_(schedule),
      ids_(schedule.step),
      transport_(transport),
      options_(options),
      rank_(transport.rank()),
      inbox_(plan_inbox(schedule, transport.rank())) {
  if (transport.size() != schedule.ranks())
    throw InvalidInput(concat("[executor] the schedule is for ", schedule.ranks(),
                              " ranks, the transport has ", transport.size()));
}

StepResult Executor::run(Model& model) {
  received_.assign(schedule_.ranks(), 0);
  for (int peer = 0; peer < schedule_.ranks(); ++peer)
    if (!inbox_.from[peer].empty()) transport_.post_receives(peer, int64_t(inbox_.from[peer].size()));

  for (const Operator& op : schedule_.row(rank_)) {
    recorder_.begin_operator(op);
    std::optional<MemoryLedger::Scope> scope;
    if (options_.ledger) scope.emplace(rank_, op.module);
    run_operator(model, op);
  }

  StepResult result;
  for (const auto& loss : std::exchange(backbone_losses_, {})) result.backbone_loss += loss.item<double>();
  for (const auto& loss : std::exchange(generator_losses_, {})) result.generator_loss += loss.item<double>();
  result.record = recorder_.take();
  return result;
}

void Executor::run_operator(Model& model, const Operator& op) {
  int m = int(op.microbatch);
  if (op.phase == Phase::backward) {
    run_backward(
        op.module == Module::encoder ? ids_.encoder_forward_of(m) : ids_.forward_of(ids_.stage(rank_, op), m),
        op);
    return;
  }
  Kept kept{take_inputs(op), {}, {}};
  double start = now();
  if (op.module == Module::encoder) {
    kept.outputs = model.encode(m);
  } else if (op.module == Module::backbone) {
    auto output = model.forward(op.chunk, m, kept.inputs);
    kept.outputs = std::move(output.values);
    kept.loss = output.loss;
    if (kept.loss.defined()) backbone_losses_.push_back(kept.loss.detach());
  } else {
    auto loss = model.generate(m, kept.inputs);
    generator_losses_.push_back(loss.detach());
    if (loss.requires_grad()) loss.backward();
  }
  recorder_.computed(start, now());
  if (op.phase == Phase::generate) {
    send_gradients(op, kept.inputs);
  } else {
    send(op, message_of(kept.outputs));
    kept_.emplace(ids_.of(rank_, op), std::move(kept));
  }
}

void Executor::run_backward(int64_t forward_id, const Operator& op) {
  auto node = kept_.extract(forward_id);
  Kept& kept = node.mapped();
  Tensors roots, gradients;
  for (const auto& output : kept.outputs)
    if (output.requires_grad()) roots.push_back(output);
  bool owed = false;
  for_each_predecessor(schedule_.step, ids_, rank_, op, [&](int64_t id, int) { owed |= id != forward_id; });
  if (owed) {
    auto message = take_message(op);
    for (auto& gradient : message.tensors) gradients.push_back(gradient.to(options_.device));
    if (gradients.size() != roots.size())
      throw Failure(concat("[executor] ", long_name(op), " was sent ", gradients.size(), " gradients for ",
                           roots.size(), " values"));
  } else {
    roots.clear();
  }
  double start = now();
  if (kept.loss.defined() && kept.loss.requires_grad()) {
    roots.push_back(kept.loss);
    gradients.push_back(torch::ones_like(kept.loss));
  }
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  recorder_.computed(start, now());
  send_gradients(op, kept.inputs);
}

void Executor::send_gradients(const Operator& op, const Tensors& inputs) {
  Message message;
  for (const auto& input : inputs) {
    if (!input.requires_grad()) continue;
    message.tensors.push_back(input.grad().defined() ? input.grad() : torch::zeros_like(input));
    message.needs_gradient.push_back(false);
  }
  send(op, std::move(message));
}

void Executor::send(const Operator& op, Message message) {
  for_each_receiver(schedule_.step, ids_, rank_, op, [&](int64_t id, int to) {
    if (to == rank_) {
      arrived_.emplace(id, std::move(message));
      return;
    }
    double start = now();
    transport_.send(to, std::move(message));
    recorder_.spent(Spent::transfer, to, start, now());
  });
}

Tensors Executor::take_inputs(const Operator& op) {
  bool has_input = false;
  for_each_predecessor(schedule_.step, ids_, rank_, op, [&](int64_t, int) { has_input = true; });
  return has_input ? leaves_of(take_message(op), options_.device) : Tensors{};
}

Message Executor::take_message(const Operator& op) {
  int64_t id = ids_.of(rank_, op);
  int from = rank_;
  for_each_predecessor(schedule_.step, ids_, rank_, op, [&](int64_t, int sender) {
    if (sender != rank_) from = sender;
  });
  while (!arrived_.contains(id)) {
    double start = now();
    bool there = transport_.has_message(from);
    int64_t receiver = inbox_.from[from].at(received_[from]++);
    arrived_.emplace(receiver, transport_.receive(from));
    recorder_.spent(there ? Spent::transfer : Spent::wait, from, start, now());
  }
  return std::move(arrived_.extract(id).mapped());
}

}  // namespace bigmac
