#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bigmac/demo/batches.h"
#include "bigmac/system/system_model.h"

namespace bigmac::demo {

// The whole model on one rank.
struct WholeModel {
  Config config;
  std::unique_ptr<System> system;  // which the model refers to
  std::unique_ptr<SystemModel> model;
};
// With its initial values; of the options device, dtype and seed count.
WholeModel make_model(const Config& config);

// With trained weights. `weights` is a file that bigmac train wrote: it holds its configuration too. Throws
// InvalidInput naming the file and what is missing or does not fit.
WholeModel load_model(const std::string& weights);
void save_model(const std::string& weights, const Config& config,
                const std::map<std::string, torch::Tensor>& parameters);

// What the model writes for pictures of the dataset, or for clips of their names, byte by byte, always the
// likeliest one.
std::vector<std::string> write_captions(const WholeModel& whole, const data::Dataset& dataset,
                                        const std::vector<int64_t>& indices, int64_t most_bytes = 80);
std::vector<std::string> write_heard(const WholeModel& whole, const Clips& clips,
                                     const std::vector<int64_t>& indices, int64_t most_bytes = 80);

// The pictures [n, 3, S, S] in [-1, 1] that the model draws for the names of pairs of the dataset.
torch::Tensor draw_pictures(const WholeModel& whole, const data::Dataset& dataset,
                            const std::vector<int64_t>& indices, int64_t steps, uint64_t seed);

// How alike two texts are: the F1 of their words (the harmonic mean of the shares of words found in the
// other).
double word_f1(const std::string& a, const std::string& b);

// Something made for each of n things, compared with what it was made for and with what the others were made
// for.
struct Against {
  double own = 0;     // mean over all pairs (i, i)
  double chance = 0;  // mean over all pairs (i, j), i != j
  double won = 0;     // share of pairs (i, j) in which (i, i) is better; ties count half
};
Against compare_captions(const std::vector<std::string>& written,
                         const std::vector<std::string>& names);                  // word_f1
Against compare_pictures(const torch::Tensor& drawn, const torch::Tensor& real);  // mean squared distance

}  // namespace bigmac::demo
