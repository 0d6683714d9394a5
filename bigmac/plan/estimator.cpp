#include "bigmac/plan/estimator.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/plan/stages.h"
#include "bigmac/schedule/check.h"
#include "bigmac/workload/draw.h"

namespace bigmac {

using cost::Recompute;

namespace {

double held_by(const StageSums& stage, double in_flight) {
  return stage.state.all() + stage.kept * in_flight + stage.working;
}

}  // namespace

struct Estimator::Memo {
  // tensor, expert, data, whether there are several ranks, microbatch
  using BackboneKey = std::tuple<int64_t, int64_t, int64_t, bool, int64_t, Recompute>;
  using ModuleKey = std::tuple<size_t, ModulePlacement, Recompute>;
  // tensor, expert, microbatch, stages, whether megatron. How often a layer is copied makes it no slower.
  using LayersKey = std::tuple<int64_t, int64_t, int64_t, int64_t, bool, Recompute, std::vector<Recompute>>;
  std::map<BackboneKey, BackboneCosts> backbones;
  std::map<ModuleKey, ModuleWork> modules;
  std::map<std::pair<size_t, int64_t>, SampleSizes> sizes;  // module, tensor
  std::map<LayersKey, cost::Split> layers;
  // ranks, chunks, microbatches, as far as they matter
  using InFlightKey = std::tuple<Base, Arrangement, int64_t, int64_t, int64_t>;
  std::map<InFlightKey, InFlight> in_flight;
  std::map<std::tuple<BackboneKey, Base, Arrangement, int64_t>, RankBounds> any_layers;  // pipeline
  std::vector<std::vector<std::vector<double>>> tokens;  // module, sample, item

  static BackboneKey key(const Configuration& c) {
    return {c.parallel.tensor,       c.parallel.expert, c.parallel.data,
            c.parallel.pipeline > 1, c.microbatch,      c.recompute};
  }
};

Estimator::Estimator(const Workload& workload, int64_t samples_per_gpu)
    : workload_(workload),
      global_batch_(samples_per_gpu * workload.gpus),
      backbone_kinds_(workload.backbone.model),
      memo_(std::make_unique<Memo>()) {
  if (samples_per_gpu < 1)
    throw InvalidInput(concat("[plan] samples a GPU must be at least 1, got ", samples_per_gpu));
  for (const auto& module : workload.modules) module_kinds_.emplace_back(module.model);
  memo_->tokens.resize(workload.modules.size());
}

Estimator::~Estimator() = default;
Estimator::Estimator(Estimator&&) noexcept = default;

const BackboneCosts& Estimator::backbone(const Configuration& c) {
  auto [at, is_new] = memo_->backbones.try_emplace(Memo::key(c));
  if (is_new) at->second = backbone_costs(workload_, backbone_kinds_, c.parallel, c.microbatch, c.recompute);
  return at->second;
}

ModulePlacement Estimator::placement(size_t n, const Configuration& c) const {
  const auto& module = workload_.modules[n];
  int64_t tensor = module_tensor(c, module.kind);
  return {tensor, module_gpus(c, module.kind) / tensor, c.own_whole ? 1 : module.shard};
}

const ModuleWork& Estimator::module(size_t n, const Configuration& c) {
  auto where = placement(n, c);
  auto [at, is_new] = memo_->modules.try_emplace({n, where, c.module_recompute[n]});
  if (is_new) at->second = module_work(workload_, n, module_kinds_[n], where, c.module_recompute[n]);
  return at->second;
}

// Of as many samples as any configuration of this batch gives a replica.
const SampleSizes& Estimator::sizes(size_t n, int64_t tensor) {
  auto [at, is_new] = memo_->sizes.try_emplace({n, tensor});
  if (!is_new) return at->second;
  auto& tokens = memo_->tokens[n];
  if (tokens.empty()) tokens = draw_items(workload_.modules[n].items, global_batch_, workload_.seed, n);
  ItemSizes size_of(workload_, n, module_kinds_[n], tensor);
  for (const auto& sample : tokens) {
    std::vector<double> sizes;
    sizes.reserve(sample.size());
    for (double item : sample) sizes.push_back(size_of(item));
    at->second.add_sample(std::move(sizes));
  }
  return at->second;
}

const cost::Split& Estimator::layers(const Configuration& c) {
  if (!c.layers.empty()) return c.layers;
  bool megatron = c.arrangement == Arrangement::megatron;
  auto [at, is_new] =
      memo_->layers.try_emplace({c.parallel.tensor, c.parallel.expert, c.microbatch, c.stages(), megatron,
                                 c.recompute, megatron ? c.module_recompute : std::vector<Recompute>{}});
  if (!is_new) return at->second;
  cost::SplitCosts costs{.times = layer_seconds(backbone(c)), .empty_stages = megatron};
  if (megatron) {
    costs.extra.assign(size_t(c.stages()), 0);
    for (size_t n = 0; n < workload_.modules.size(); ++n) {
      double sample = sizes(n, c.parallel.tensor).total.back() / double(global_batch_);
      auto work = module(n, c).costs;
      (workload_.modules[n].kind == Module::encoder ? costs.extra.front() : costs.extra.back()) +=
          sample * double(c.microbatch) * (work.forward + work.backward);
    }
  }
  return at->second = cost::balanced_split(costs, c.stages());
}

JobParts Estimator::parts(const Configuration& c) {
  JobParts parts{.workload = workload_,
                 .configuration = c,
                 .microbatches = microbatches_of(c, global_batch_),
                 .backbone = backbone(c),
                 .layers = layers(c),
                 .modules = {},
                 .sizes = {}};
  for (size_t n = 0; n < workload_.modules.size(); ++n) {
    parts.modules.push_back(&module(n, c));
    parts.sizes.push_back(&sizes(n, placement(n, c).tensor));
  }
  return parts;
}

// More microbatches than fill the pipeline several times do not add to those in flight.
const InFlight& Estimator::in_flight(const Configuration& c) {
  constexpr int64_t kFillings = 4;
  int64_t microbatches = std::min(microbatches_of(c, global_batch_), kFillings * c.parallel.pipeline);
  auto [at, is_new] =
      memo_->in_flight.try_emplace({c.base, c.arrangement, c.parallel.pipeline, c.chunks, microbatches});
  if (!is_new) return at->second;
  Step step;
  step.ranks = c.parallel.pipeline;
  step.chunks = c.chunks;
  step.microbatches = microbatches;
  step.base = c.base;
  step.arrangement = c.arrangement;
  for (const auto& module : workload_.modules)
    step.modules.push_back(one_item_each(module.name, module.kind, step.microbatches));
  return at->second = in_flight_of(step);
}

const RankBounds& Estimator::any_layers(const JobParts& parts) {
  const auto& c = parts.configuration;
  auto [at, is_new] =
      memo_->any_layers.try_emplace({Memo::key(c), c.base, c.arrangement, c.parallel.pipeline});
  if (is_new) at->second = any_layers_bounds(parts, in_flight(c));
  return at->second;
}

LeastOutcome Estimator::least(const Configuration& c) {
  auto parts = this->parts(c);
  return least_outcome(parts, can_shift_layers(c) ? any_layers(parts) : rank_bounds(parts, in_flight(c)));
}

Job Estimator::job(const Configuration& c) {
  return make_job(parts(c));
}

Outcome Estimator::evaluate_as_given(const Configuration& c, int64_t most_passes) {
  Job job = this->job(c);
  Schedule schedule = make_schedule(job, most_passes);
  Timeline timeline = simulate(schedule, job.costs, job.links);
  Outcome out;
  out.configuration = c;
  out.microbatches = job.step.microbatches;
  out.configuration.layers = job.layers;
  out.pipeline = timeline.length();
  out.sync = job.sync;
  out.optimizer = job.optimizer;
  out.step = out.pipeline + out.sync + out.optimizer;
  double total = double(schedule.ranks()) * out.pipeline;
  for (const auto& time : rank_times(timeline)) {
    out.bubble += (time.idle + time.wait) / total;
    out.transfer += time.transfer / total;
    out.order += time.order / total;
  }
  for (const auto& rank : peak_memory(schedule, timeline, job.bytes)) {
    out.memory_by_rank.push_back(rank.peak);
    out.memory = std::max(out.memory, rank.peak);
  }
  out.fits = out.memory <= workload_.memory;
  double gpus = double(workload_.gpus);
  out.tokens_per_second = double(global_batch_) * workload_.tokens / (out.step * gpus);
  out.mfu = job.flops * double(c.parallel.data) / (out.step * gpus * workload_.hardware.peak);
  return out;
}

// The most even layers whose stages fit, with one chunk a rank: each holds as many microbatches, and as much
// beside them, as it did with the layers of `last`.
cost::Split Estimator::layers_in_memory(const Configuration& c, const Outcome& last) {
  const auto& costs = backbone(c);
  auto stages = stage_sums(costs, last.configuration.layers);
  auto peaks = peak_live(make_schedule(job(c), 1));
  ReplicaRanks ranks(c);
  std::vector<double> in_flight, others;
  for (size_t s = 0; s < stages.size(); ++s) {
    auto rank = size_t(ranks.of_stage[s]);
    in_flight.push_back(double(peaks[rank].in_flight));
    others.push_back(last.memory_by_rank[rank] - held_by(stages[s], in_flight[s]));
  }
  cost::SplitCosts split{.times = layer_seconds(costs), .most_bytes = {workload_.memory}};
  split.held = [&](int64_t stage, int64_t begin, int64_t end) {
    auto s = size_t(stage);
    return others[s] + held_by(sum_of_layers(costs, begin, end), in_flight[s]);
  };
  return cost::balanced_split(split, c.stages());
}

// What another split holds is found out by simulating it, so that a few tries may be needed.
Outcome Estimator::evaluate(const Configuration& c, int64_t most_passes) {
  constexpr int kTries = 3;
  Outcome best = evaluate_as_given(c, most_passes);
  if (best.fits || !can_shift_layers(c) || least(c).memory > workload_.memory) return best;
  Outcome last = best;
  for (int n = 0; n < kTries && !best.fits; ++n) {
    Configuration shifted = c;
    try {
      shifted.layers = layers_in_memory(c, last);
    } catch (const InvalidInput&) {
      break;  // no split fits
    }
    if (shifted.layers == last.configuration.layers) break;
    last = evaluate_as_given(shifted, most_passes);
    if (last.memory < best.memory) best = last;
  }
  return best;
}

std::string Estimator::explain_memory(const Configuration& c, int64_t most_passes) {
  Job job = this->job(c);
  Schedule schedule = make_schedule(job, most_passes);
  return explain_out_of_memory(schedule, simulate(schedule, job.costs, job.links), job.bytes,
                               workload_.memory, " s");
}

Estimator::FullestRank Estimator::fullest_rank(const Configuration& c) {
  Job job = this->job(c);
  Schedule schedule = make_schedule(job);
  Timeline timeline = simulate(schedule, job.costs, job.links);
  auto peaks = peak_memory(schedule, timeline, job.bytes);
  auto fullest = std::max_element(peaks.begin(), peaks.end(),
                                  [](const auto& a, const auto& b) { return a.peak < b.peak; });
  int rank = int(fullest - peaks.begin());
  return {rank, *fullest, holders_at(schedule, timeline, job.bytes, rank, fullest->peak_time)};
}

}  // namespace bigmac
