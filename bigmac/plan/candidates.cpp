#include "bigmac/plan/candidates.h"

#include <algorithm>
#include <functional>

#include "bigmac/common/error.h"
#include "bigmac/plan/module_costs.h"

namespace bigmac {
namespace {

using cost::Recompute;

constexpr int64_t kMostPipeline = 64;
constexpr int64_t kFewestLayers = 2;  // a pipeline rank

std::vector<int64_t> powers_of_two(int64_t most) {
  std::vector<int64_t> out;
  for (int64_t n = 1; n <= most; n *= 2) out.push_back(n);
  return out;
}

int64_t most_experts(const cost::Model& model) {
  int64_t most = 1;
  for (const auto& layer : model.layers)
    for (const auto& part : layer.parts) most = std::max(most, part.experts);
  return most;
}

bool has(const Workload& workload, Module kind) {
  return std::any_of(workload.modules.begin(), workload.modules.end(),
                     [&](const auto& module) { return module.kind == kind; });
}

std::vector<Recompute> levels_of(const WorkloadModule& module) {
  bool keeps = module.kind != Module::encoder || !module.frozen;
  if (!keeps) return {Recompute::none};
  return module.recompute.empty()
             ? std::vector<Recompute>{Recompute::none, Recompute::selective, Recompute::full}
             : module.recompute;
}

// Every choice of one level for each module.
std::vector<std::vector<Recompute>> module_levels(const Workload& workload) {
  std::vector<std::vector<Recompute>> all{{}};
  for (const auto& module : workload.modules) {
    std::vector<std::vector<Recompute>> longer;
    for (const auto& levels : all)
      for (Recompute level : levels_of(module)) {
        longer.push_back(levels);
        longer.back().push_back(level);
      }
    all = std::move(longer);
  }
  return all;
}

// GPUs of encoders' and generators' own.
struct OwnGpus {
  int64_t encoder = 0, generator = 0;
};

std::vector<OwnGpus> own_gpus(const Workload& workload, Arrangement arrangement) {
  if (arrangement != Arrangement::disttrain) return {{}};
  int64_t unit = workload.gpus > workload.hardware.gpus_per_node ? workload.hardware.gpus_per_node : 1;
  auto choices = [&](Module kind) {
    std::vector<int64_t> out;
    if (!has(workload, kind)) return std::vector<int64_t>{0};
    for (int64_t gpus = unit; gpus < workload.gpus; gpus += unit) out.push_back(gpus);
    return out;
  };
  std::vector<OwnGpus> out;
  for (int64_t encoder : choices(Module::encoder))
    for (int64_t generator : choices(Module::generator))
      if (encoder + generator < workload.gpus) out.push_back({encoder, generator});
  return out;
}

class Enumeration {
 public:
  // `open_pipeline`: what does not divide has not been asked for.
  Enumeration(const Workload& workload, int64_t samples_per_gpu, const Search& search, bool open_pipeline)
      : workload_(workload),
        search_(search),
        open_pipeline_(open_pipeline),
        global_batch_(samples_per_gpu * workload.gpus),
        backbone_levels_(levels_of(workload.backbone)),
        module_levels_(module_levels(workload)) {}

  Candidates run() {
    for (Arrangement arrangement : search_.arrangements)
      for (const auto& own : own_gpus(workload_, arrangement))
        for (int64_t tensor : search_.tensor)
          for (int64_t pipeline : search_.pipeline) {
            configuration_ = {};
            configuration_.arrangement = arrangement;
            configuration_.encoder_gpus = own.encoder;
            configuration_.generator_gpus = own.generator;
            configuration_.parallel.tensor = tensor;
            configuration_.parallel.pipeline = pipeline;
            int64_t left = workload_.gpus - own.encoder - own.generator;
            if (open_pipeline_ && left % (tensor * pipeline) != 0) continue;
            configuration_.parallel.data = std::max<int64_t>(left / (tensor * pipeline), 1);
            add_chunks();
          }
    return std::move(out_);
  }

 private:
  void add_chunks() {
    bool distributes = configuration_.arrangement == Arrangement::disttrain;
    for (int64_t chunks : search_.chunks)
      for (Base base : search_.bases) {
        if (!belongs(base, chunks) || (distributes && base != Base::one_f_one_b)) continue;
        configuration_.chunks = chunks;
        configuration_.base = base;
        for (int64_t expert : search_.expert)
          for (int64_t microbatch : search_.microbatch) {
            configuration_.parallel.expert = expert;
            configuration_.microbatch = microbatch;
            configuration_.encoder_tensor = own_tensor(Module::encoder, configuration_.encoder_gpus);
            configuration_.generator_tensor = own_tensor(Module::generator, configuration_.generator_gpus);
            add_sharding();
          }
      }
  }

  static bool belongs(Base base, int64_t chunks) {
    switch (base) {
      case Base::one_f_one_b:
      case Base::zb_h1:
        return chunks == 1;
      case Base::zb_v:
      case Base::dualpipe_v:
        return chunks == 2;
      case Base::interleaved:
        return chunks > 1;
      default:
        return base == Base::gpipe;
    }
  }

  // GPUs of their own cut an item together where a microbatch has fewer items than there are GPUs for it: as
  // many as divide these and the module.
  int64_t own_tensor(Module kind, int64_t gpus) const {
    int64_t ranks = gpus / configuration_.parallel.data, best = 1;
    for (int64_t tensor = 2; tensor <= std::min(ranks, workload_.hardware.gpus_per_node); ++tensor) {
      int64_t groups = ranks / tensor;
      if (ranks % tensor != 0 || workload_.hardware.gpus_per_node % tensor != 0) continue;
      bool cuts = true, needed = true;
      for (const auto& module : workload_.modules) {
        if (module.kind != kind) continue;
        cuts &= fits(module, tensor);
        double items = items_of_sample(module.items) * double(configuration_.microbatch);
        needed &= double(groups) >= std::max(items, 1.0);
      }
      if (cuts && needed) best = tensor;
    }
    return best;
  }

  static bool fits(const WorkloadModule& module, int64_t tensor) {
    try {
      check_fits(module.model.layers, cost::Parallel{.tensor = tensor});
      return true;
    } catch (const InvalidInput&) {
      return false;
    }
  }

  // GPUs of their own have room that shared ones have not.
  void add_sharding() {
    bool sharded = std::any_of(workload_.modules.begin(), workload_.modules.end(),
                               [](const auto& module) { return module.shard > 1; });
    configuration_.own_whole = false;
    add_splits();
    if (!sharded || configuration_.arrangement != Arrangement::disttrain) return;
    configuration_.own_whole = true;
    add_splits();
  }

  // Where splits are named, only those with as many stages.
  void add_splits() {
    configuration_.layers.clear();
    if (search_.splits.empty()) return add_levels();
    for (const auto& split : search_.splits)
      if (int64_t(split.size()) == configuration_.stages()) {
        configuration_.layers = split;
        add_levels();
      }
  }

  // What is not legal is not for all levels of recompute alike.
  void add_levels() {
    configuration_.warmup_units = 0;
    configuration_.recompute = backbone_levels_.front();
    configuration_.module_recompute = module_levels_.front();
    if (auto found = refusal(configuration_, workload_, global_batch_)) {
      auto& refused = out_.refused[found->kind];
      if (refused.count++ == 0) refused.example = to_text(configuration_, workload_) + ": " + found->text;
      return;
    }
    for (int64_t units : warmup_units())
      for (Recompute level : backbone_levels_)
        for (const auto& levels : module_levels_) {
          configuration_.warmup_units = units;
          configuration_.recompute = level;
          configuration_.module_recompute = levels;
          out_.legal.push_back(configuration_);
        }
  }

  std::vector<int64_t> warmup_units() const {
    bool nests = configuration_.arrangement == Arrangement::nested ||
                 configuration_.arrangement == Arrangement::nested_fill;
    bool holds = std::any_of(workload_.modules.begin(), workload_.modules.end(), [](const auto& module) {
      return module.kind == Module::encoder && !module.frozen;
    });
    if (!nests || !holds) return {0};
    if (!search_.warmup_units.empty()) return search_.warmup_units;
    bool two = configuration_.chunks == 1 && !has(workload_, Module::generator);
    return two ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{0};
  }

  const Workload& workload_;
  const Search& search_;
  bool open_pipeline_;
  int64_t global_batch_;
  std::vector<Recompute> backbone_levels_;
  std::vector<std::vector<Recompute>> module_levels_;
  Configuration configuration_;
  Candidates out_;
};

}  // namespace

Search filled(const Search& search, const Workload& workload) {
  Search out = search;
  auto fill = [](auto& list, auto&& values) {
    if (list.empty()) list = values;
  };
  fill(out.tensor, powers_of_two(std::min(workload.gpus, workload.hardware.gpus_per_node)));
  auto layers = std::max(int64_t(workload.backbone.model.layers.size()), kFewestLayers);
  if (out.pipeline.empty())
    for (int64_t p = 1; p <= std::min({workload.gpus, kMostPipeline, layers / kFewestLayers}); ++p)
      out.pipeline.push_back(p);
  fill(out.chunks, std::vector<int64_t>{1, 2, 3, 4, 6, 8});
  fill(out.expert, powers_of_two(std::min(most_experts(workload.backbone.model), workload.gpus)));
  fill(out.microbatch, std::vector<int64_t>{1, 2, 4});
  fill(out.bases,
       std::vector<Base>{Base::one_f_one_b, Base::zb_h1, Base::interleaved, Base::zb_v, Base::dualpipe_v});
  if (workload.modules.empty()) out.arrangements = {Arrangement::llm_only};
  fill(out.arrangements,
       std::vector<Arrangement>{Arrangement::nested, Arrangement::nested_fill, Arrangement::megatron});
  return out;
}

Candidates candidates(const Workload& workload, int64_t samples_per_gpu, const Search& search) {
  Search all = filled(search, workload);
  return Enumeration(workload, samples_per_gpu, all, search.pipeline.empty()).run();
}

}  // namespace bigmac
