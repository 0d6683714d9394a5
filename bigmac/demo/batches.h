#pragma once

#include "bigmac/demo/config.h"
#include "bigmac/system/values.h"
#include "bigmac/train/trainer.h"

namespace bigmac::demo {

// The samples of every step, as make_system() wants them: batch.samples in each of the microbatches of all
// replicas (TrainOptions::dp must be known). Pictures, noise and clips are loaded where they are used.
// With an audio encoder names are spoken when they are first met. The dataset must outlive it; several
// threads may call it. Throws InvalidInput where eSpeak NG is missing, Failure where the cache cannot be
// made.
train::Batches make_batches(const Config& config, const data::Dataset& dataset);

// Spoken names as clips.
class Clips {
 public:
  Clips(const Config& config, const data::Dataset& dataset);

  int64_t frames(int64_t index) const;      // of a name's clip
  torch::Tensor load(int64_t index) const;  // [mels, frames] float

 private:
  struct Spoken;
  std::shared_ptr<Spoken> spoken_;
};

}  // namespace bigmac::demo
