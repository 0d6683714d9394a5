#include "bigmac/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "bigmac/runtime/gather.h"
#include "bigmac/runtime/sub_transport.h"
#include "bigmac/schedule/make.h"
#include "bigmac/schedule/order.h"
#include "bigmac/system/ties.h"
#include "bigmac/train/alike.h"
#include "bigmac/train/optimizer.h"
#include "bigmac/train/reducer.h"

namespace bigmac::train {
namespace {

std::vector<int> range(int first, int count, int stride = 1) {
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(first + i * stride);
  return numbers;
}

int64_t elements(const std::vector<Parameter>& parameters) {
  int64_t count = 0;
  for (const auto& parameter : parameters) count += parameter.leaves[0].numel();
  return count;
}

// A number from 1 to 2^62, the same on all ranks.
uint64_t draw_together(Group& everyone) {
  auto drawn = torch::zeros({1}, torch::kInt64);
  if (std::random_device random; everyone.index() == 0)
    drawn[0] = int64_t((uint64_t{random()} << 30 ^ random()) + 1);
  everyone.start_all_reduce(drawn)->wait();
  return uint64_t(drawn.item<int64_t>());
}

Failure not_finite(const StepFigures& figures) {
  auto text = concat("[train] step ", figures.step, ":");
  for (const auto& [name, loss] : figures.losses)
    if (!std::isfinite(loss)) text += concat(" loss '", name, "' is ", loss, ",");
  return Failure(concat(text, " the gradients' norm is ", figures.gradient_norm,
                        figures.step == 0 ? "; look at the data and the values that modules start with"
                                          : "; lower the learning rate or clip_norm"));
}

// What `group`'s ranks share is the same on all of them before the first step.
void expect_same_start(const std::string& unit, const std::vector<Parameter>& parameters, Group& group) {
  auto sums = torch::zeros({group.size()}, torch::kFloat64);
  for (const auto& parameter : parameters)
    sums[group.index()] += parameter.leaves[0].detach().sum(torch::kFloat64).cpu();
  group.start_all_reduce(sums)->wait();
  for (int i = 1; i < group.size(); ++i)
    if (sums[i].item<double>() != sums[0].item<double>() && sums[i].isfinite().item<bool>())
      throw InvalidInput(
          concat("[train] '", unit, "' starts with other values on rank ", group.ranks()[size_t(i)],
                 " than on rank ", group.ranks()[0],
                 "; its constructor and System::initialise must draw from libtorch's default "
                 "generator, which is seeded for them, or follow the seed that they are given"));
}

}  // namespace

Trainer::Trainer(const System& system, Batches batches, const TrainOptions& options, Transport& world,
                 std::shared_ptr<MemoryLedger> ledger)
    : system_(system),
      batches_(std::move(batches)),
      options_(options),
      world_(world),
      ledger_(std::move(ledger)) {
  check_options(options_, system_);
  if (world_.size() != options_.ranks())
    throw InvalidInput(concat("[train] ", options_.pp, " pipeline ranks and ", options_.dp, " replicas take ",
                              options_.ranks(), " ranks, there are ", world_.size()));
  everyone_ = world_.make_group(range(0, world_.size()));
  expect_alike(world_, *everyone_, lines_of(options_, system_));
  int pp = int(options_.pp), replica = world_.rank() / pp;
  pipeline_ = make_sub_transport(world_, range(replica * pp, pp));
  auto step = step_of(options_, system_);
  auto cut = make_cut(system_.backbone(), step.stages(), options_.cut);
  model_ = std::make_unique<SystemModel>(
      system_, step, std::move(cut), pipeline_->rank(),
      SystemModelOptions{{device_of(options_.device, world_.rank()), dtype_from_name(options_.dtype)},
                         options_.seed,
                         options_.trained,
                         options_.recompute,
                         world_.shares_process(),
                         options_.measured_split});
  check_patterns();
  check_trained();
  int64_t held = elements(model_->tied_parameters());
  for (int chunk = 0; chunk < model_->chunks(); ++chunk) held += elements(model_->parameters_of_chunk(chunk));
  auto backbone = torch::full({1}, double(held), torch::kFloat64);
  everyone_->start_all_reduce(backbone)->wait();
  stage_elements_ = std::max(1.0, backbone.item<double>() / double(options_.dp * step.stages()));
  make_units();
  optimizer_ = std::make_unique<Optimizer>(options_.optimizer, units_);
  for (size_t n = 0; n < step.modules.size(); ++n)
    if (step.modules[n].kind == Module::encoder) step.modules[n].trained = model_->is_trained(int(n));
  profiler_ = std::make_unique<Profiler>(options_.profile, step, *pipeline_, replica, options_.dp);
  if (!options_.checkpoints.empty())
    writer_ = std::make_unique<CheckpointWriter>(
        CheckpointOptions{options_.checkpoints, options_.keep_checkpoints, draw_together(*everyone_)},
        world_.rank(), world_.size());
}

Trainer::~Trainer() = default;

// Every pattern must name a parameter of some rank.
void Trainer::check_patterns() {
  std::vector<std::string> patterns = options_.trained.freeze;
  patterns.insert(patterns.end(), options_.trained.train.begin(), options_.trained.train.end());
  if (patterns.empty()) return;
  auto found = torch::zeros({int64_t(patterns.size())}, torch::kInt64);
  for (const auto& parameter : model_->parameters())
    for (size_t i = 0; i < patterns.size(); ++i)
      if (matches(patterns[i], parameter.name)) found[int64_t(i)] += 1;
  everyone_->start_all_reduce(found)->wait();
  const auto parameters = model_->parameters();
  auto example = parameters.empty() ? "" : concat("; names look like '", parameters.front().name, "'");
  for (size_t i = 0; i < patterns.size(); ++i)
    if (found[int64_t(i)].item<int64_t>() == 0)
      throw InvalidInput(concat("[train] '", patterns[i], "' matches no parameter", example));
}

void Trainer::check_trained() {
  auto parameters = model_->parameters();
  auto trained =
      torch::full({1},
                  int64_t(std::count_if(parameters.begin(), parameters.end(),
                                        [](const auto& parameter) { return parameter.trained(); })),
                  torch::kInt64);
  everyone_->start_all_reduce(trained)->wait();
  if (trained.item<int64_t>() == 0)
    throw InvalidInput("[train] nothing is trained: every parameter is frozen");
}

void Trainer::make_units() {
  int pp = int(options_.pp), dp = int(options_.dp), rank = pipeline_->rank();
  std::vector<Reducer::Unit> reduced;
  auto sharding_of = [&](const std::string& module) {
    auto found = options_.shard.find(module);
    return found == options_.shard.end() ? Sharding::replicated : found->second;
  };
  auto add = [&](const std::string& name, const std::vector<Parameter>& parameters,
                 const NamedTensors& buffers, const std::vector<int>& ranks, UnitOptions options,
                 UnitPlace place) {
    auto group = world_.make_group(ranks);
    expect_same_start(name, parameters, *group);
    units_.push_back(std::make_unique<ParameterUnit>(name, parameters, std::move(group), std::move(options)));
    buffers_.push_back(buffers);
    reduced.push_back({units_.back().get(), place});
  };
  const auto& backbone = system_.backbone();
  for (int chunk = 0; chunk < model_->chunks(); ++chunk)
    add(concat(backbone.name, " chunk ", chunk), model_->parameters_of_chunk(chunk),
        model_->buffers_of_chunk(chunk), range(rank, dp, pp), {sharding_of(backbone.name)},
        {Module::backbone, chunk});
  // Tied parameters by the pipeline ranks that hold them.
  Dependencies placed(step_of(options_, system_), {});
  std::map<std::set<int>, std::set<std::string>> holders;
  for (const auto& [name, parts] : tied_parts(backbone)) {
    std::set<int> ranks;
    for (int64_t part : parts) ranks.insert(placed.rank_of(model_->cut().stage_of(part)));
    holders[ranks].insert(name);
  }
  for (const auto& [stages, names] : holders) {
    if (!stages.contains(rank)) continue;
    std::vector<int> ranks;
    for (int replica = 0; replica < dp; ++replica)
      for (int stage : stages) ranks.push_back(replica * pp + stage);
    std::vector<Parameter> tied;
    for (const auto& parameter : model_->tied_parameters())
      if (names.contains(parameter.name)) tied.push_back(parameter);
    add(backbone.name + " tied", tied, {}, ranks, {sharding_of(backbone.name)}, {Module::backbone, -1});
  }
  for (size_t n = 0; n < system_.modules().size(); ++n) {
    const auto& module = system_.modules()[n];
    // Full sharding: over the ranks of a replica, which gather together.
    UnitOptions options{sharding_of(module.name), options_.gather};
    bool full = options.sharding == Sharding::full;
    int first = world_.rank() - rank;
    if (full && dp > 1) options.replicas = world_.make_group(range(rank, dp, pp));
    add(module.name, model_->parameters_of_module(int(n)), model_->buffers_of_module(int(n)),
        full ? range(first, pp) : range(0, world_.size()), std::move(options), {module.kind, int(n)});
  }
  reducer_ = std::make_unique<Reducer>(reduced, options_.gather);
}

// Places are looked for as if every parameter took part alike: a module's items of a mean microbatch take as
// much beside a stage as it has parameters.
Costs Trainer::nominal_costs(const Batch& batch) const {
  Costs costs;
  costs.forward = stage_costs(system_.backbone(), model_->cut(), options_.cut);
  costs.backward = costs.forward;
  for (auto& backward : costs.backward) backward *= 2;
  for (size_t n = 0; n < system_.modules().size(); ++n) {
    double size = 0;
    for (const auto& item : batch.step_items(system_, int(n))) size += item.size;
    double share = double(elements(model_->parameters_of_module(int(n)))) / stage_elements_;
    double each = size > 0 ? share * double(options_.microbatches) / size : 0;
    costs.modules.push_back(
        {each, model_->is_trained(int(n)) || system_.modules()[n].kind == Module::generator ? 2 * each : 0});
  }
  return costs;
}

// Of a whole step: what is freed unwatched counts on, and libtorch warns of what it frees and did not see
// allocated.
std::unique_ptr<MemoryLedger::Watch> Trainer::watch_memory() const {
  return ledger_ ? std::make_unique<MemoryLedger::Watch>(ledger_) : nullptr;
}

StepFigures Trainer::compute_gradients(int64_t step) {
  auto watch = watch_memory();
  step_ = step;
  profiler_->begin(step);
  Batch batch(system_, batches_(step), options_.microbatches, options_.dp, world_.rank() / options_.pp);
  if (int other = find_other(*everyone_, batch.digest()); other >= 0)
    throw InvalidInput(concat("[train] step ", step, ": rank ", other, " is given other samples than rank 0",
                              "; batches(step) must give every rank the same, from the step alone"));
  auto declared = step_of(options_, system_);
  for (size_t n = 0; n < declared.modules.size(); ++n) {
    declared.modules[n].items = batch.step_items(system_, int(n));
    if (declared.modules[n].kind == Module::encoder) declared.modules[n].trained = model_->is_trained(int(n));
  }
  auto nominal = nominal_costs(batch);
  if (options_.order == Order::balanced) declared = reordered(declared, balanced_order(declared, nominal));
  schedule_ = make_schedule(declared, nominal);
  model_->bind(batch, step);
  reducer_->begin(schedule_, pipeline_->rank());
  Executor executor(schedule_, *pipeline_,
                    {.device = model_->options().precision.device,
                     .ledger = ledger_.get(),
                     .observer = reducer_.get(),
                     .log = profiler_->log()});
  world_.barrier();
  profiler_->start();
  auto result = executor.run(*model_);
  double ran = now();
  reducer_->finish();
  auto sums = torch::tensor(model_->losses(), torch::kFloat64);
  auto given = torch::tensor(model_->losses_given(), torch::kFloat64);
  auto both = torch::cat({sums, given});
  everyone_->start_all_reduce(both)->wait();
  sums = both.slice(0, 0, sums.numel());
  given = both.slice(0, sums.numel());
  profiler_->end(std::move(result.record), schedule_, ran);
  auto is_generator = [&](const std::string& loss) {
    return std::any_of(system_.modules().begin(), system_.modules().end(),
                       [&](const auto& m) { return m.name == loss; });
  };
  for (size_t i = 0; i < system_.losses().size(); ++i)
    if (!is_generator(system_.losses()[i].name) && given[int64_t(i)].item<double>() == 0 &&
        batch.scale(i) > 0)
      throw InvalidInput(concat("[train] step ", step, ": nothing gave the loss '", system_.losses()[i].name,
                                "', though its samples count for it; give its sum, or 0: x.loss(\"",
                                system_.losses()[i].name, "\", sum)"));
  StepFigures figures;
  figures.step = step;
  for (size_t i = 0; i < system_.losses().size(); ++i) {
    figures.losses.emplace_back(system_.losses()[i].name, sums[int64_t(i)].item<double>());
    figures.loss += figures.losses.back().second;
  }
  figures.seconds = profiler_->seconds();
  figures.samples = batch.samples();
  return figures;
}

StepFigures Trainer::train_step(int64_t step) {
  auto watch = watch_memory();
  double start = now();
  auto figures = compute_gradients(step);
  profiler_->begin_update();
  torch::NoGradGuard no_grad;
  auto squares = torch::zeros({1}, torch::kFloat64);
  for (const auto& unit : units_)
    if (unit->counts())
      for (const auto& segment : unit->segments())
        squares += segment.gradient.to(torch::kFloat64).square().sum().cpu();
  everyone_->start_all_reduce(squares)->wait();
  figures.gradient_norm = std::sqrt(squares.item<double>());
  figures.learning_rate = learning_rate(options_.optimizer, step, options_.steps);
  if (!std::isfinite(figures.loss) || !std::isfinite(figures.gradient_norm)) throw not_finite(figures);
  double most = options_.optimizer.clip_norm;
  if (most > 0 && figures.gradient_norm > most)
    for (const auto& unit : units_)
      for (const auto& segment : unit->segments())
        segment.gradient.detach().mul_(most / (figures.gradient_norm + 1e-6));
  optimizer_->step(figures.learning_rate);
  for (const auto& unit : units_) unit->publish();
  profiler_->end_update();
  figures.seconds = now() - start;
  return figures;
}

Recording Trainer::recording() {
  auto ranks = profiler_->gather();
  Recording recording;
  recording.name = concat("step ", step_);
  recording.schedule = schedule_;
  recording.measured = true;
  if (world_.rank() >= options_.pp) return recording;
  recording.timeline = std::move(ranks.timeline);
  recording.memory = std::move(ranks.memory);
  if (ranks.clock_error > 0)
    recording.notes.push_back(
        concat("clocks of ranks are aligned to within ", std::lround(ranks.clock_error * 1e6), " us"));
  return recording;
}

int64_t Trainer::held_bytes() const {
  int64_t bytes = optimizer_->bytes();
  for (const auto& unit : units_) bytes += unit->bytes();
  return bytes;
}

}  // namespace bigmac::train
