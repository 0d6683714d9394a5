#pragma once

#include <map>

#include "bigmac/runtime/model.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/system/batch.h"
#include "bigmac/system/cut.h"
#include "bigmac/system/part.h"

namespace bigmac {

struct SystemModelOptions {
  Precision precision{};
  uint64_t seed = 1;
  Trained trained{};
  std::vector<std::string> recomputed{};  // names of encoders, or of the backbone
  // Other ranks in this process draw from the same generators: what modules draw (dropout) then follows no
  // seed, and none that is recomputed may.
  bool shares_generators = false;
  bool measures_parts = false;  // waits for the device behind each part
};

// One rank's part of a system: its encoders and generators, and of the backbone the layers of its stages.
class SystemModel : public Model {
 public:
  // `placed`: where the stages are; the items of its modules do not matter. The system must outlive it.
  // Throws InvalidInput for names that the options do not share with the system, ties to parameters that are
  // not there or of another shape, and for a tensor that two modules hold without a tie.
  SystemModel(const System& system, const Step& placed, Cut cut, int rank, SystemModelOptions options = {});

  // The step's batch, which must outlive it; forgets what losses have come to. What a module draws follows
  // seed, step, its name and the microbatch.
  void bind(const Batch& batch, int64_t step = 0);

  std::vector<Bundle> encode(int module, std::span<const ModelItem> items) override;
  Output forward(int chunk, int microbatch, const Inputs& inputs) override;
  torch::Tensor generate(int module, std::span<const ModelItem> items,
                         const std::vector<Bundle>& inputs) override;
  bool recomputes_encoder(int module) const override;
  bool recomputes_backbone() const override;

  // Of encoder or generator n, and of the parts of the backbone that this rank's chunk holds.
  const std::vector<Parameter>& parameters_of_module(int n) const { return module_parameters_.at(size_t(n)); }
  const std::vector<Parameter>& parameters_of_chunk(int chunk) const {
    return chunk_parameters_.at(size_t(chunk));
  }
  int chunks() const { return int(chunk_parameters_.size()); }
  // Those of the backbone that ties make one, which may be on several ranks.
  const std::vector<Parameter>& tied_parameters() const { return tied_parameters_; }
  // All of them.
  std::vector<Parameter> parameters() const;
  // By global name (register_buffer), as they are held.
  std::map<std::string, torch::Tensor> buffers_of_module(int n) const;
  std::map<std::string, torch::Tensor> buffers_of_chunk(int chunk) const;

  // Whether an encoder has anything to train.
  bool is_trained(int module) const;

  // The module by its prefix ("vision.", "llm.layers.7."), nullptr where this rank does not hold it.
  torch::nn::Module* find(const std::string& prefix) const;

  // What each loss (System::losses) has come to on this rank since bind(), and how often it was given.
  std::vector<double> losses() const;
  std::vector<int64_t> losses_given() const;

  // Seconds that each part's forwards have taken on this rank (BackboneDeclaration::all()), 0 for others; on
  // a GPU, where measures_parts says so, else what it took to start them.
  const std::vector<double>& part_seconds() const { return part_seconds_; }

  const System& system() const { return system_; }
  const Cut& cut() const { return cut_; }
  const SystemModelOptions& options() const { return options_; }

 private:
  void make_parts();
  std::vector<Parameter> list_parameters(const PartModule& part, std::map<const void*, std::string>& seen);
  Values prepared(const Values& values, const Ports& consumed, const std::string& taker) const;
  std::vector<Values> samples_of(int microbatch, const ItemValues* items) const;
  ItemValues for_generators(int microbatch, const std::vector<Values>& out) const;
  torch::Tensor scaled(const std::string& loss, const torch::Tensor& sum, bool counts);
  template <class Run>
  void run_part(const std::string& part, int64_t microbatch, int64_t number, bool recomputed,
                const std::string& module, Run&& run);
  bool flows_on(const std::string& name, int64_t next_part) const;

  const System& system_;
  Dependencies placed_;
  Cut cut_;
  int rank_;
  SystemModelOptions options_;
  std::vector<PartModule> modules_;          // by System::modules
  std::map<int64_t, PartModule> parts_;      // of the backbone, by number in all()
  std::map<std::string, std::string> ties_;  // global name -> that of what it is tied to
  std::vector<std::vector<Parameter>> module_parameters_, chunk_parameters_;
  std::vector<Parameter> tied_parameters_;
  const Batch* batch_ = nullptr;
  int64_t step_ = 0;
  std::vector<Tensors> losses_;  // by System::losses
  std::vector<double> part_seconds_;
};

}  // namespace bigmac
