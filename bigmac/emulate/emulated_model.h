#pragma once

#include <map>

#include "bigmac/runtime/model.h"
#include "bigmac/schedule/costs.h"
#include "bigmac/schedule/table.h"
#include "bigmac/simulate/links.h"
#include "bigmac/simulate/memory.h"

namespace bigmac {

// What an emulated step takes and moves. Times are those of `costs` (latency apart, which is the transport's
// own) times `seconds`; bytes those of `links` and `bytes` times `scale`, at least 4 a message.
struct Emulation {
  Costs costs{};
  Links links{};
  Bytes bytes{};
  double seconds = 1;  // of one unit of the costs
  double scale = 1;    // of bytes
};

// A model whose operators take their time asleep, which takes no core, and hand over and keep as many bytes
// as they say, under real autograd: many ranks run on few cores, and everything but the computing is what it
// will be. On the first stage without a trained encoder there is no input to owe a gradient: there I(0, m) of
// a base that splits backwards takes nothing, and W(0, m) the whole backward (as_emulated()).
class EmulatedModel : public Model {
 public:
  // The schedule must outlive it.
  EmulatedModel(const Schedule& schedule, const Emulation& emulation, int rank);

  std::vector<Bundle> encode(int module, std::span<const ModelItem> items) override;
  Output forward(int chunk, int microbatch, const Inputs& inputs) override;
  torch::Tensor generate(int module, std::span<const ModelItem> items,
                         const std::vector<Bundle>& inputs) override;

 private:
  double seconds_of(Phase phase, int chunk) const;
  double size_of(int module, std::span<const ModelItem> items) const;
  torch::Tensor values(double bytes, const torch::Tensor& from) const;

  const Schedule& schedule_;
  Emulation emulation_;
  Durations durations_;
  int rank_;
  int64_t stages_;
  std::vector<int64_t> stage_of_chunk_;
  std::vector<std::map<std::pair<int, int>, double>> sizes_;  // by module, then microbatch and number
  torch::Tensor weight_;
};

// The costs with which a simulation is of the emulated step: in seconds, W(0, m) as above.
Costs as_emulated(const Step& step, const Emulation& emulation);

}  // namespace bigmac
