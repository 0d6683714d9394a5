#pragma once

#include <map>
#include <string>
#include <vector>

#include "bigmac/system/system.h"
#include "bigmac/train/trainer.h"

namespace bigmac::train {

// Small systems of the models in bigmac/nn: "captioning" (pictures in, text out), "generation" (text in,
// pictures out), "two encoders" (pictures and clips in), "all at once" (both encoders, two generators, side
// features that several layers use, masks and positions that flow on), "moe" (experts with their losses).
System make_system(const std::string& kind);
std::vector<std::string> system_kinds();

struct SampleOptions {
  int64_t samples = 7;
  int64_t text_only = 0;  // so many samples from the first on have no picture and no clip
  bool uneven = false;    // one picture is far larger
  uint64_t seed = 1;
};
// Samples of different lengths, some without labels, with 0 to 3 pictures, clips and targets each.
std::vector<Values> make_samples(const std::string& kind, const SampleOptions& options, int64_t step);

// What a loop on one device without pipeline, executor or messages makes of a step: the modules are called
// one behind the other, microbatch by microbatch.
struct PlainResult {
  double loss = 0;
  std::map<std::string, torch::Tensor> gradients;  // of what is trained
};
PlainResult run_plainly(const System& system, std::vector<Values> samples, const TrainOptions& options);

// The same system over options.ranks() threads.
struct Result {
  StepFigures figures;
  NamedTensors gradients;
};
Result run_in_threads(const System& system, const Batches& batches, const TrainOptions& options);

// The largest distance of two gradients, relative to the largest value of theirs; infinite where names
// differ.
struct Distance {
  double most = 0;
  std::string name;
};
Distance distance(const std::map<std::string, torch::Tensor>& a,
                  const std::map<std::string, torch::Tensor>& b);

}  // namespace bigmac::train
