#include "bigmac/plan/explain_plan.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/plan/stages.h"

namespace bigmac {
namespace {

using cost::Recompute;

constexpr double kShorter = 1 - 1e-6;

cost::LayerTime total_of(const BackboneCosts& costs) {
  cost::LayerTime total;
  for (const auto& time : costs.times) total += time;
  return total;
}

std::string text(int64_t value) {
  return concat(value);
}

class Alternatives {
 public:
  Alternatives(Estimator& estimator, const Configuration& chosen)
      : estimator_(estimator),
        workload_(estimator.workload()),
        search_(filled(workload_.search, workload_)),
        chosen_(chosen) {}

  std::vector<Choice> run() {
    add_schedule();
    add_base();
    if (chosen_.chunks > 1) add_sizes("VPP", search_.chunks, &Configuration::chunks, false);
    add_parallel("TP", search_.tensor, &cost::Parallel::tensor);
    add_parallel("PP", search_.pipeline, &cost::Parallel::pipeline);
    add_parallel("EP", search_.expert, &cost::Parallel::expert);
    add_sizes("MBS", search_.microbatch, &Configuration::microbatch, true);
    auto recompute = [&](const WorkloadModule& module, auto&& level_of) {
      if (module.kind == Module::encoder && module.frozen) return;
      auto levels = module.recompute;
      if (levels.empty()) levels = {Recompute::none, Recompute::selective, Recompute::full};
      Choice choice{concat("recompute ", module.name), std::string(cost::name(level_of(chosen_))), {}};
      for (Recompute level : levels) {
        if (level == level_of(chosen_)) continue;
        Configuration other = chosen_;
        level_of(other) = level;
        choice.others.push_back(best_of(std::string(cost::name(level)), {other}));
      }
      keep(std::move(choice));
    };
    recompute(
        workload_.backbone, [](auto& c) -> auto& { return c.recompute; });
    for (size_t n = 0; n < workload_.modules.size(); ++n)
      recompute(
          workload_.modules[n], [n](auto& c) -> auto& { return c.module_recompute[n]; });
    return std::move(out_);
  }

 private:
  void keep(Choice choice) {
    if (!choice.others.empty()) out_.push_back(std::move(choice));
  }

  void add_schedule() {
    if (chosen_.arrangement == Arrangement::disttrain) return;
    Choice choice{"schedule", std::string(name(chosen_.arrangement)), {}};
    for (Arrangement arrangement : search_.arrangements) {
      if (arrangement == chosen_.arrangement || arrangement == Arrangement::disttrain) continue;
      Configuration other = chosen_;
      other.arrangement = arrangement;
      choice.others.push_back(best_of(std::string(name(arrangement)), {other}));
    }
    keep(std::move(choice));
  }

  void add_base() {
    if (chosen_.arrangement == Arrangement::disttrain) return;
    Choice choice{"base", std::string(name(chosen_.base)), {}};
    for (Base base : search_.bases) {
      if (base == chosen_.base) continue;
      std::vector<Configuration> others;
      for (int64_t chunks : search_.chunks) {
        others.push_back(chosen_);
        others.back().base = base;
        others.back().chunks = chunks;
      }
      choice.others.push_back(best_of(std::string(name(base)), others));
    }
    keep(std::move(choice));
  }

  void add_sizes(const char* what, const std::vector<int64_t>& values, int64_t Configuration::*size,
                 bool one_too) {
    Choice choice{what, text(chosen_.*size), {}};
    for (int64_t value : values) {
      if (value == chosen_.*size || (value == 1 && !one_too)) continue;
      Configuration other = chosen_;
      other.*size = value;
      choice.others.push_back(best_of(text(value), {other}));
    }
    keep(std::move(choice));
  }

  void add_parallel(const char* what, const std::vector<int64_t>& values, int64_t cost::Parallel::*size) {
    Choice choice{what, text(chosen_.parallel.*size), {}};
    for (int64_t value : values) {
      if (value == chosen_.parallel.*size) continue;
      Configuration other = chosen_;
      other.parallel.*size = value;
      int64_t gpus = workload_.gpus - other.encoder_gpus - other.generator_gpus;
      other.parallel.data = std::max<int64_t>(gpus / (other.parallel.tensor * other.parallel.pipeline), 1);
      if (other.gpus() == workload_.gpus) choice.others.push_back(best_of(text(value), {other}));
    }
    keep(std::move(choice));
  }

  // Layers by stage are those of the search where it has some, else balanced anew; W as nesting takes it
  // where the chosen one does not do.
  std::vector<Configuration> ways(Configuration c) const {
    c.layers.clear();
    for (const auto& split : search_.splits)
      if (int64_t(split.size()) == c.stages()) c.layers = split;
    std::vector<Configuration> out{c};
    if (c.warmup_units == 0) return out;
    bool nests = c.arrangement == Arrangement::nested || c.arrangement == Arrangement::nested_fill;
    if (!nests) out.clear();
    c.warmup_units = 0;
    out.push_back(c);
    return out;
  }

  Alternative best_of(std::string value, const std::vector<Configuration>& others) {
    Alternative out{std::move(value), {}, {}};
    auto rank = [](const Outcome& outcome) {
      return outcome.fits ? std::tuple(false, outcome.step) : std::tuple(true, outcome.memory);
    };
    for (const auto& other : others)
      for (const auto& way : ways(other)) {
        try {
          if (auto found = refusal(way, workload_, estimator_.global_batch())) {
            out.why_not = found->kind;
            continue;
          }
          auto outcome = estimator_.evaluate(way);
          if (!out.outcome || rank(outcome) < rank(*out.outcome)) out.outcome = std::move(outcome);
        } catch (const InvalidInput&) {
          out.why_not = "schedule";
        }
      }
    if (out.outcome) out.why_not.clear();
    return out;
  }

  Estimator& estimator_;
  const Workload& workload_;
  Search search_;
  const Configuration& chosen_;
  std::vector<Choice> out_;
};

}  // namespace

StepParts step_parts(const Workload& workload, const Outcome& outcome) {
  const auto& c = outcome.configuration;
  LayerKinds kinds(workload.backbone.model);
  auto costs_at = [&](Recompute level) {
    return total_of(backbone_costs(workload, kinds, c.parallel, c.microbatch, level));
  };
  auto time = costs_at(c.recompute), once = costs_at(Recompute::none);
  double each = double(outcome.microbatches) / double(ReplicaRanks(c).count());
  auto all = [](const cost::LayerTime& sum) { return sum.forward + sum.backward(); };
  StepParts parts;
  parts.backbone = each * (all(once) - once.links);
  parts.traffic = each * time.links;
  parts.recompute = std::max(each * all(time) - parts.traffic - parts.backbone, 0.0);
  parts.modules =
      outcome.pipeline * (1 - outcome.bubble - outcome.transfer - outcome.order) - each * all(time);
  parts.bubble = outcome.pipeline * outcome.bubble;
  parts.transfer = outcome.pipeline * outcome.transfer;
  parts.order = outcome.pipeline * outcome.order;
  parts.sync = outcome.sync;
  parts.optimizer = outcome.optimizer;
  return parts;
}

std::vector<Choice> alternatives(Estimator& estimator, const Configuration& configuration) {
  return Alternatives(estimator, configuration).run();
}

std::vector<Choice> polish(Plan& plan, Estimator& estimator) {
  while (true) {
    Outcome& best = plan.best.front();
    auto choices = alternatives(estimator, best.configuration);
    const Outcome* shortest = &best;
    for (const auto& choice : choices)
      for (const auto& other : choice.others)
        if (other.outcome && other.outcome->fits && other.outcome->step < kShorter * shortest->step)
          shortest = &*other.outcome;
    if (shortest == &best) return choices;
    auto found = *shortest;
    std::erase_if(plan.best, [&](const Outcome& one) { return one.configuration == found.configuration; });
    plan.best.insert(plan.best.begin(), std::move(found));
  }
}

}  // namespace bigmac
