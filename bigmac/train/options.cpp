#include "bigmac/train/options.h"

#include <torch/cuda.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/runtime/environment.h"
#include "bigmac/schedule/make.h"

namespace bigmac::train {
namespace {

const std::vector<std::string> kRanks{"threads", "processes"};
const std::vector<std::string> kOrders{"as-is", "balanced"};
const std::vector<std::string> kDtypes{"float32", "float64", "bfloat16"};

size_t index_of(const char* what, const std::string& text, const std::vector<std::string>& names) {
  auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) throw InvalidInput(unknown_name(what, text, names));
  return size_t(found - names.begin());
}

void at_least(const char* what, double value, double least) {
  if (!(value >= least) || !std::isfinite(value))
    throw InvalidInput(concat("[train] ", what, " must be at least ", least, ", got ", value));
}

void check_counts_of(const TrainOptions& o) {
  at_least("pp", double(o.pp), 1);
  at_least("vpp", double(o.vpp), 1);
  at_least("dp", double(o.dp), 1);
  at_least("microbatches", double(o.microbatches), 1);
  at_least("steps", double(o.steps), 0);
  at_least("threads_per_rank", double(o.threads_per_rank), 1);
  if (o.checkpoint_every > 0 && o.checkpoints.empty())
    throw InvalidInput("[train] checkpoints every some steps need a folder (checkpoints.folder)");
  at_least("checkpoints.every", double(o.checkpoint_every), 0);
  at_least("checkpoints.keep", double(o.keep_checkpoints), 0);
  at_least("profile.every", double(o.profile.every), 1);
  at_least("profile.keep", double(o.profile.keep), 1);
  at_least("optimizer.learning_rate", o.optimizer.learning_rate, 0);
  at_least("optimizer.final_learning_rate", o.optimizer.final_learning_rate, 0);
  at_least("optimizer.warmup_steps", double(o.optimizer.warmup_steps), 0);
  at_least("optimizer.weight_decay", o.optimizer.weight_decay, 0);
  at_least("optimizer.clip_norm", o.optimizer.clip_norm, 0);
  auto beta = [](const char* name, double value) {
    if (!(value >= 0 && value < 1))
      throw InvalidInput(
          concat("[train] optimizer.", name, " is ", value, ", expected 0 or more and below 1"));
  };
  beta("beta1", o.optimizer.beta1);
  beta("beta2", o.optimizer.beta2);
  if (!(o.optimizer.eps > 0))
    throw InvalidInput(concat("[train] optimizer.eps is ", o.optimizer.eps, ", expected more than 0"));
}

void check_schedule(const TrainOptions& options) {
  if (options.schedule == Arrangement::llm_only)
    throw InvalidInput(
        "[train] schedule llm-only leaves encoders and generators out; take nested, nested-fill, "
        "three-phase, "
        "optimus or megatron");
  if (options.schedule == Arrangement::disttrain)
    throw InvalidInput(
        "[train] schedule disttrain, with ranks that hold no layers, is not trained with; take nested, "
        "nested-fill, three-phase, optimus or megatron");
}

void check_cut(const TrainOptions& options) {
  if (options.measured_split &&
      !(options.cut.split.empty() && options.cut.layout.empty() && options.cut.costs.empty()))
    throw InvalidInput("[train] a measured split finds the stages' layers; leave split and layout out");
}

void check_sharding(const TrainOptions& options, const System& system) {
  auto names = system.names();
  for (const auto& [module, sharding] : options.shard) {
    if (std::find(names.begin(), names.end(), module) == names.end())
      throw InvalidInput("[train] shard: " + unknown_name("module", module, names));
    if (sharding != Sharding::full) continue;
    if (module == system.backbone().name)
      throw InvalidInput(concat("[train] shard: the values of backbone '", module,
                                "' are cut into stages already; take states for it, or more pipeline ranks"));
    bool cut = options.schedule == Arrangement::nested || options.schedule == Arrangement::three_phase;
    if (options.gather == Gather::collective && !cut)
      throw InvalidInput(concat("[train] shard: with schedule ", name(options.schedule),
                                " ranks run the items of '", module,
                                "' at places of their own, where they cannot gather it together; take gather "
                                "one-sided, or schedule nested or three-phase"));
  }
}

torch::Device parse_device(const std::string& text) {
  try {
    return torch::Device(text);
  } catch (const std::exception&) {
    throw InvalidInput(concat("[train] device must be cpu, cuda or cuda:<number>, got '", text, "'"));
  }
}

}  // namespace

RanksAs ranks_as_from_name(const std::string& text) {
  return RanksAs(index_of("kind of ranks", text, kRanks));
}
std::string name(RanksAs ranks) {
  return kRanks[size_t(ranks)];
}
Order order_from_name(const std::string& text) {
  return Order(index_of("order", text, kOrders));
}
std::string name(Order order) {
  return kOrders[size_t(order)];
}

torch::ScalarType dtype_from_name(const std::string& text) {
  constexpr torch::ScalarType kTypes[] = {torch::kFloat32, torch::kFloat64, torch::kBFloat16};
  return kTypes[index_of("dtype", text, kDtypes)];
}

torch::Device device_of(const std::string& text, int rank) {
  auto device = parse_device(text);
  if (!device.is_cuda()) return device;
  auto count = int64_t(torch::cuda::device_count());
  if (count == 0 || device.index() >= count)
    throw InvalidInput(concat("[train] device is '", text, "', but libtorch finds ", count,
                              " CUDA devices; take cpu or a number below that"));
  if (device.has_index()) return device;
  auto environment = read_environment();
  bool launched = environment && environment->size > 1;
  for (const char* name : {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"})
    if (const char* local = launched ? std::getenv(name) : nullptr) {
      rank = std::atoi(local);
      break;
    }
  return {torch::kCUDA, torch::DeviceIndex(rank % count)};
}

Step step_of(const TrainOptions& options, const System& system) {
  Step step;
  step.ranks = options.pp;
  step.chunks = options.vpp;
  step.microbatches = options.microbatches;
  step.base = options.base.value_or(options.vpp == 1 ? Base::one_f_one_b : Base::interleaved);
  step.arrangement = options.schedule;
  step.generator_unit = options.generator_unit;
  for (const auto& module : system.modules())
    step.modules.push_back(
        {module.name, module.kind, {}, module.kind == Module::encoder ? options.warmup_units : 0});
  return step;
}

void check_options(const TrainOptions& options, const System& system) {
  system.check();
  check_counts_of(options);
  check_schedule(options);
  check_cut(options);
  check_sharding(options, system);
  dtype_from_name(options.dtype);
  parse_device(options.device);
  if (options.resume && options.checkpoints.empty())
    throw InvalidInput("[train] resume needs the folder where the checkpoints are (checkpoints.folder)");
  auto step = step_of(options, system);
  check_counts(step);
  make_cut(system.backbone(), step.stages(), options.cut);
  for (auto& module : step.modules) module.items = one_item_each("", module.kind, step.microbatches).items;
  make_schedule(step);
}

}  // namespace bigmac::train
