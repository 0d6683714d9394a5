#include "bigmac/runtime/executor.h"

#include <torch/autograd.h>

#include <optional>

namespace bigmac {
namespace {

double sum_of(const Tensors& losses) {
  double sum = 0;
  for (const auto& loss : losses) sum += loss.item<double>();
  return sum;
}

// The tensors of all parts that are owed a gradient.
Tensors owed_of(const std::vector<Bundle>& parts) {
  Tensors owed;
  for (const auto& part : parts)
    for (const auto& tensor : part)
      if (tensor.requires_grad()) owed.push_back(tensor);
  return owed;
}

// Lets go what nothing is owed to.
void keep_owed(std::vector<Bundle>& parts) {
  for (auto& part : parts)
    std::erase_if(part.tensors, [](const torch::Tensor& tensor) { return !tensor.requires_grad(); });
}

int64_t bytes_of(const Message& message) {
  int64_t bytes = 0;
  for (const auto& tensor : message.tensors) bytes += int64_t(tensor.nbytes());
  return bytes;
}

RecorderOptions recorder_options(const ExecutorOptions& options, int rank) {
  RecorderOptions recorder{.log = options.log};
  if (options.ledger) recorder.held = [ledger = options.ledger, rank] { return ledger->live(rank); };
  return recorder;
}

Tensors gradients_of(const Tensors& leaves) {
  Tensors gradients;
  for (const auto& leaf : leaves) gradients.push_back(leaf.grad());
  return gradients;
}

}  // namespace

Executor::Executor(const Schedule& schedule, Transport& transport, ExecutorOptions options)
    : schedule_(schedule),
      routes_(schedule),
      transport_(transport),
      options_(options),
      rank_(transport.rank()),
      inbox_(plan_inbox(schedule, transport.rank())),
      recorder_(schedule, transport.rank(), recorder_options(options, transport.rank())) {
  if (transport.size() != schedule.ranks())
    throw InvalidInput(concat("[executor] the schedule is for ", schedule.ranks(),
                              " ranks, the transport has ", transport.size()));
}

StepResult Executor::run(Model& model) {
  received_.assign(size_t(schedule_.ranks()), 0);
  for (int peer = 0; peer < schedule_.ranks(); ++peer)
    if (!inbox_.from[peer].empty()) transport_.post_receives(peer, int64_t(inbox_.from[peer].size()));

  for (int64_t position = 0; const Operator& op : schedule_.row(rank_)) {
    recorder_.begin_operator(op);
    std::optional<MemoryLedger::Scope> scope;
    if (options_.ledger) scope.emplace(rank_, op.module);
    observe(position, op, false);
    run_operator(model, op);
    observe(position++, op, true);
  }

  return {sum_of(std::exchange(backbone_losses_, {})), sum_of(std::exchange(generator_losses_, {})),
          recorder_.take()};
}

void Executor::observe(int64_t position, const Operator& op, bool after) {
  if (!options_.observer) return;
  double start = recorder_.begin(Activity::exchange);
  after ? options_.observer->after(position, op) : options_.observer->before(position, op);
  recorder_.spent(Activity::exchange, -1, start);
}

void Executor::run_operator(Model& model, const Operator& op) {
  switch (op.phase) {
    case Phase::forward:
      return run_forward(model, op);
    case Phase::generate:
      return run_generator(model, op);
    case Phase::weight:
      return run_weights(op);
    case Phase::backward:
    case Phase::input:
      return run_backward(model, op);
  }
}

void Executor::run_forward(Model& model, const Operator& op) {
  bool trained =
      op.module == Module::backbone || schedule_.step.modules[schedule_.shares.list[op.index].module].trained;
  torch::AutoGradMode mode(trained);
  Kept kept{take_leaves(op), {}, {}};
  double start = recorder_.begin(Activity::compute);
  compute(model, op, kept, false);
  recorder_.computed(start);
  if (kept.loss.defined()) backbone_losses_.push_back(kept.loss.detach());
  std::vector<Message> parts;
  for (const auto& values : kept.outputs) parts.push_back(message_of(values));
  if (recomputes(model, op)) {
    kept.outputs.clear();
    kept.loss = torch::Tensor();
  } else {
    keep_owed(kept.inputs);
    keep_owed(kept.outputs);
  }
  if (trained) kept_.emplace(routes_.dependencies().of(rank_, op), std::move(kept));
  give(op, std::move(parts));
}

// The outputs and the loss of a forward from its inputs.
void Executor::compute(Model& model, const Operator& op, Kept& kept, bool recomputed) {
  const auto& dependencies = routes_.dependencies();
  if (op.module == Module::encoder) {
    auto items = items_of(op);
    kept.outputs = model.encode(schedule_.shares.list[op.index].module, items);
    if (kept.outputs.size() != items.size())
      throw Failure(concat("[executor] ", describe(schedule_, op), ": the model gave values of ",
                           kept.outputs.size(), " items, not ", items.size()));
    return;
  }
  int64_t stage = dependencies.stage(rank_, op.chunk);
  Model::Inputs inputs{{}, {}, recomputed};
  if (stage == 0)
    inputs.items = by_module(op, kept.inputs);
  else
    inputs.values = kept.inputs.at(0);
  auto output = model.forward(op.chunk, int(schedule_.step.declared(op.index)), inputs);
  if (stage + 1 == dependencies.stages())
    kept.outputs = by_item(op, std::move(output.items));
  else
    kept.outputs = {std::move(output.values)};
  kept.loss = output.loss;
}

bool Executor::recomputes(const Model& model, const Operator& op) const {
  if (op.module == Module::backbone) return model.recomputes_backbone();
  return model.recomputes_encoder(schedule_.shares.list[op.index].module);
}

Operator Executor::forward_of(const Operator& backward) const {
  auto forward = backward;
  forward.phase = Phase::forward;
  return forward;
}

void Executor::run_generator(Model& model, const Operator& op) {
  auto inputs = take_leaves(op);
  double start = recorder_.begin(Activity::compute);
  auto loss = model.generate(schedule_.shares.list[op.index].module, items_of(op), inputs);
  generator_losses_.push_back(loss.detach());
  if (loss.requires_grad()) loss.backward();
  loss.reset();
  recorder_.computed(start);
  give_gradients(op, inputs, gradients_of(owed_of(inputs)));
}

void Executor::run_backward(Model& model, const Operator& op) {
  auto forward = forward_of(op);
  auto node = kept_.extract(routes_.dependencies().of(rank_, forward));
  Kept& kept = node.mapped();
  Tensors gradients;
  for (auto& part : take(op))
    for (auto& gradient : part.tensors) gradients.push_back(gradient.to(options_.device));
  double start = recorder_.begin(Activity::compute);
  if (recomputes(model, op)) {
    compute(model, forward, kept, true);
    keep_owed(kept.outputs);
  }
  Tensors roots = owed_of(kept.outputs);
  if (gradients.size() != roots.size())
    throw Failure(concat("[executor] ", describe(schedule_, op), " was sent ", gradients.size(),
                         " gradients for ", roots.size(), " values"));
  if (kept.loss.defined() && kept.loss.requires_grad()) {
    roots.push_back(kept.loss);
    gradients.push_back(torch::ones_like(kept.loss));
  }
  Tensors leaves = owed_of(kept.inputs), input_gradients;
  if (op.phase == Phase::input) {
    SplitBackward split(roots, gradients, leaves);
    input_gradients = std::move(split.input_gradients);
    owed_.emplace(routes_.dependencies().weight_of(routes_.dependencies().stage(rank_, op.chunk), op.index),
                  std::move(split.weights));
  } else {
    if (!roots.empty()) torch::autograd::backward(roots, gradients);
    input_gradients = gradients_of(leaves);
  }
  // What the forward kept is let go within the operator's time.
  roots.clear();
  gradients.clear();
  kept.outputs.clear();
  kept.loss.reset();
  recorder_.computed(start);
  give_gradients(op, kept.inputs, input_gradients);
}

void Executor::run_weights(const Operator& op) {
  auto node = owed_.extract(routes_.dependencies().of(rank_, op));
  double start = recorder_.begin(Activity::compute);
  node.mapped().run();
  recorder_.computed(start);
}

std::vector<ModelItem> Executor::items_of(const Operator& op) const {
  std::vector<ModelItem> items;
  for (int32_t item : routes_.of_share(op.index)) {
    const auto& place = routes_.place(item);
    items.push_back({int(schedule_.step.declared(place.microbatch)), place.number});
  }
  return items;
}

ItemValues Executor::by_module(const Operator& op, const std::vector<Bundle>& values) const {
  ItemValues all(schedule_.step.modules.size());
  auto items = routes_.encoded(op.index);
  for (size_t i = 0; i < items.size(); ++i) all[routes_.place(items[i]).module].push_back(values[i]);
  return all;
}

std::vector<Bundle> Executor::by_item(const Operator& op, ItemValues values) const {
  values.resize(schedule_.step.modules.size());
  std::vector<size_t> counts(values.size(), 0);
  std::vector<Bundle> flat;
  for (int32_t item : routes_.generated(op.index)) {
    size_t module = size_t(routes_.place(item).module), number = counts[module]++;
    if (number < values[module].size()) flat.push_back(std::move(values[module][number]));
  }
  for (size_t n = 0; n < counts.size(); ++n)
    if (counts[n] > 0 && counts[n] != values[n].size())
      throw Failure(concat("[executor] ", long_name(op), ": the model gave values for ", values[n].size(),
                           " items of '", schedule_.step.modules[n].name, "', not ", counts[n]));
  return flat;
}

std::vector<Message> Executor::take(const Operator& op) {
  std::vector<Message> taken;
  for (const Part& part : routes_.inputs(rank_, op)) {
    while (!arrived_.contains(part.key)) receive(part.rank);
    taken.push_back(std::move(arrived_.extract(part.key).mapped()));
  }
  return taken;
}

std::vector<Bundle> Executor::take_leaves(const Operator& op) {
  std::vector<Bundle> leaves;
  for (const auto& part : take(op)) leaves.push_back(leaves_of(part, options_.device));
  return leaves;
}

// The next message from a rank, laid out by its parts.
void Executor::receive(int from) {
  auto activity = transport_.has_message(from) ? Activity::receive : Activity::wait;
  double start = recorder_.begin(activity, from);
  auto sender = routes_.dependencies().at(inbox_.from[from].at(received_[from]++));
  auto message = transport_.receive(from);
  recorder_.spent(activity, from, start, bytes_of(message));
  auto outputs = routes_.outputs(from, sender.op);
  if (!routes_.is_item(outputs.at(0))) {
    arrived_.emplace(outputs[0].key, std::move(message));
    return;
  }
  auto parts = split(std::move(message));
  size_t next = 0;
  for (const Part& part : outputs)
    if (part.rank == rank_) arrived_.emplace(part.key, std::move(parts.at(next++)));
}

void Executor::give(const Operator& op, std::vector<Message> parts) {
  auto outputs = routes_.outputs(rank_, op);
  std::vector<std::vector<Message>> by_rank(size_t(schedule_.ranks()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].rank == rank_)
      arrived_.emplace(outputs[i].key, std::move(parts.at(i)));
    else
      by_rank[outputs[i].rank].push_back(std::move(parts.at(i)));
  }
  for (int to = 0; to < int(by_rank.size()); ++to) {
    if (by_rank[to].empty()) continue;
    double start = recorder_.begin(Activity::send, to);
    bool of_items = routes_.is_item(outputs[0]);
    auto message = of_items ? join(std::move(by_rank[to])) : std::move(by_rank[to][0]);
    auto bytes = bytes_of(message);
    transport_.send(to, std::move(message));
    recorder_.spent(Activity::send, to, start, bytes);
  }
}

// `gradients` are those of the inputs that are owed one; where autograd gave none they are zero.
void Executor::give_gradients(const Operator& op, const std::vector<Bundle>& inputs,
                              const Tensors& gradients) {
  std::vector<Message> parts;
  size_t next = 0;
  for (const auto& part : inputs) {
    Message message;
    for (const auto& input : part) {
      if (!input.requires_grad()) continue;
      const auto& gradient = gradients[next++];
      message.tensors.push_back(gradient.defined() ? gradient : torch::zeros_like(input));
      message.needs_gradient.push_back(false);
    }
    parts.push_back(std::move(message));
  }
  give(op, std::move(parts));
}

}  // namespace bigmac
