#pragma once

#include <vector>

#include "bigmac/schedule/step.h"
#include "bigmac/system/system.h"

namespace bigmac {

// How many samples each microbatch takes, in order: as many as are needed a microbatch, the last ones fewer
// (7 in 3 are 3, 3, 1); where that would leave some without any, as even as can be (9 in 4 are 3, 2, 2, 2).
// Throws InvalidInput, naming both and the nearest legal count, for fewer samples than microbatches.
std::vector<int64_t> microbatch_sizes(int64_t samples, int64_t microbatches);

// One replica's part of a step: its microbatches and what is counted over all replicas.
class Batch {
 public:
  // Where an item comes from.
  struct Item {
    int sample = 0;  // of its microbatch
    int index = 0;   // in the sample's groups
  };

  // `samples`: those of the whole step, the same on every rank; replica r of `replicas` takes microbatches
  // r * M .. (r + 1) * M - 1 of replicas * M. Throws InvalidInput naming the sample and the value: data that
  // were not declared, groups of one module's data that differ in their number of tensors.
  Batch(const System& system, std::vector<Values> samples, int64_t microbatches, int64_t replicas = 1,
        int64_t replica = 0);

  int64_t microbatches() const { return int64_t(microbatches_.size()); }
  int64_t first() const { return first_; }      // the number of microbatch 0 among those of all replicas
  int64_t samples() const { return samples_; }  // of all replicas
  const std::vector<Values>& microbatch(int m) const { return microbatches_.at(size_t(m)); }

  // Of what tells a step's samples apart without loading them: their number, the sizes of their groups, the
  // losses' counts. Ranks that are given other samples have, but by chance, another one.
  uint64_t digest() const { return digest_; }

  // The items of a module (System::modules) in a microbatch, in the order of samples.
  const std::vector<Item>& items(int module, int m) const { return items_.at(size_t(module)).at(size_t(m)); }
  // All of them as a step declares them.
  std::vector<bigmac::Item> step_items(const System& system, int module) const;

  // weight / count of a loss (System::losses), 0 where nothing is counted.
  double scale(size_t loss) const { return scales_.at(loss); }

 private:
  int64_t samples_ = 0, first_ = 0;
  uint64_t digest_ = 0;
  std::vector<std::vector<Values>> microbatches_;
  std::vector<std::vector<std::vector<Item>>> items_;  // by module and microbatch
  std::vector<double> scales_;
};

// The values of an item that a module takes from the data, each loaded when it is asked for. The sample must
// outlive them.
Values item_data(const System& system, const ModuleDeclaration& module, const Values& sample, int index);

}  // namespace bigmac
