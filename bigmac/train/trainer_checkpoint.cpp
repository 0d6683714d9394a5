#include "bigmac/runtime/gather.h"
#include "bigmac/train/alike.h"
#include "bigmac/train/optimizer.h"
#include "bigmac/train/reducer.h"
#include "bigmac/train/trainer.h"

namespace bigmac::train {
namespace {

constexpr const char* kStates = "optimizer/";

// File systems of several hosts may show a new folder on one of them before the others.
void expect_same_step(Group& everyone, int64_t step) {
  auto steps = numbers_of(everyone, step);
  for (size_t rank = 0; rank < steps.size(); ++rank)
    if (steps[rank] != steps[0])
      throw Failure(concat("the newest checkpoint that rank ", rank, " sees is of step ", steps[rank],
                           ", rank 0's is of step ", steps[0], "; all ranks must see one file system"));
}

}  // namespace

// What this rank answers for: units whose first holder it is, and what is not trained likewise.
NamedTensors Trainer::own_tensors(bool with_states) {
  NamedTensors own;
  for (size_t u = 0; u < units_.size(); ++u) {
    const auto& unit = units_[u];
    bool first = unit->is_first();
    // Off the device at once: a unit's whole tensors are there one kind at a time.
    auto add = [&](const std::string& prefix, const std::map<std::string, torch::Tensor>& whole) {
      if (first)
        for (const auto& [name, tensor] : whole) own[prefix + name] = tensor.cpu();
    };
    if (with_states) add("", buffers_[u]);
    add("", unit->values());
    if (with_states && !unit->empty()) add(kStates, optimizer_->states(*unit));
    add("", unit->frozen_values());
  }
  return own;
}

NamedTensors Trainer::gather_parameters() {
  auto own = own_tensors(false);
  return gather_named(world_, {own.begin(), own.end()});
}

NamedTensors Trainer::gather_gradients() {
  std::vector<std::pair<std::string, torch::Tensor>> own;
  for (const auto& unit : units_)
    for (const auto& [name, gradient] : unit->gradients())
      if (unit->is_first()) own.emplace_back(name, gradient);
  return gather_named(world_, own);
}

void Trainer::save(int64_t steps) {
  if (!writer_) return;
  writer_->save(steps, own_tensors(true),
                {{"seed", std::to_string(options_.seed)}, {"steps", std::to_string(steps)}}, look_at_others_);
}

void Trainer::finish_saving() {
  if (writer_) writer_->wait(look_at_others_);
}

int64_t Trainer::resume() {
  auto checkpoint = Checkpoint::newest(options_.checkpoints);
  expect_same_step(*everyone_, checkpoint ? checkpoint->step() : 0);
  if (!checkpoint) return 0;
  const auto& facts = checkpoint->facts();
  if (auto seed = facts.find("seed"); seed != facts.end() && seed->second != std::to_string(options_.seed))
    throw InvalidInput(concat("[train] '", checkpoint->path(), "' was trained with seed ", seed->second,
                              ", this run has ", options_.seed, ": it would go on with other data"));
  int64_t held = 0;
  torch::NoGradGuard no_grad;
  for (size_t u = 0; u < units_.size(); ++u) {
    const auto& unit = units_[u];
    checkpoint->load_into(buffers_[u]);
    NamedTensors values, states, stored_states;
    auto empty = [](const torch::Tensor& leaf) {
      return torch::empty(leaf.sizes(), torch::dtype(main_dtype(leaf.scalar_type())));
    };
    for (const auto& parameter : unit->parameters()) {
      values[parameter.name] = empty(parameter.leaves[0]);
      for (const char* state : {".exp_avg", ".exp_avg_sq"})
        states[parameter.name + state] = torch::zeros_like(empty(parameter.leaves[0]));
    }
    NamedTensors frozen;
    for (const auto& parameter : unit->frozen())
      frozen[parameter.name] =
          torch::empty(parameter.leaves[0].sizes(), torch::dtype(parameter.leaves[0].scalar_type()));
    checkpoint->load_into(values);
    checkpoint->load_into(frozen);
    unit->set_values(values);
    unit->set_frozen_values(frozen);
    if (unit->is_first()) held += int64_t(values.size() + frozen.size() + buffers_[u].size());
    // What was frozen until now starts with moments of 0.
    for (const auto& [name, tensor] : states)
      if (checkpoint->has(kStates + name)) stored_states[kStates + name] = tensor;
    if (stored_states.empty()) continue;
    checkpoint->load_into(stored_states);
    optimizer_->set_states(*unit, states, checkpoint->step());
  }
  auto all = torch::full({1}, held, torch::kInt64);
  everyone_->start_all_reduce(all)->wait();
  int64_t stored = 0;
  for (const auto& name : checkpoint->names()) stored += !name.starts_with(kStates);
  if (stored != all.item<int64_t>())
    throw InvalidInput(concat("[train] '", checkpoint->path(), "' holds ", stored,
                              " parameters and buffers, the system has ", all.item<int64_t>(),
                              ": it is of another model"));
  return checkpoint->step();
}

}  // namespace bigmac::train
