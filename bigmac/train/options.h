#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/schedule/step.h"
#include "bigmac/system/system_model.h"
#include "bigmac/train/optimizer.h"

namespace bigmac::train {

enum class RanksAs { threads, processes };
RanksAs ranks_as_from_name(const std::string& text);  // InvalidInput with the nearest known name
std::string name(RanksAs ranks);

// In which order a step runs its microbatches: as the batch has them, or so that units cost about their mean
// (bigmac/schedule/order.h).
enum class Order { as_is, balanced };
Order order_from_name(const std::string& text);
std::string name(Order order);

// Where ranks write down what they do (bigmac/profile/event_log.h).
struct ProfileOptions {
  std::string folder{};  // none: nothing is written; of several replicas, each has a folder in it
  int64_t every = 1;     // steps
  int64_t keep = 4;      // the last so many of these steps
  // Whether to count the bytes that ranks hold. None: where ranks are processes; of threads, where it must
  // be found out whose they are, it takes some hundredths of a step.
  std::optional<bool> memory{};

  bool covers(int64_t step) const { return !folder.empty() && step % every == 0; }
};

// How a system is trained: everything that is not the system or its data.
struct TrainOptions {
  int64_t pp = 1;            // pipeline ranks
  int64_t vpp = 1;           // chunks a rank
  int64_t dp = 1;            // replicas of the pipeline; 0: as many as a launcher started ranks for
  int64_t microbatches = 1;  // of each replica
  Arrangement schedule = Arrangement::nested;
  std::optional<Base> base{};  // none: 1f1b where vpp is 1, else interleaved
  int64_t warmup_units = 0;    // of encoders; 0: as many as it takes
  int64_t generator_unit = 0;  // microbatches; 0: pp
  Order order = Order::as_is;
  CutOptions cut{};
  bool measured_split = false;  // by what the backbone's parts take of the first step, run twice beforehand

  Trained trained{};                        // patterns of parameters' names
  std::vector<std::string> recompute{};     // encoders, or the backbone
  std::map<std::string, Sharding> shard{};  // by module; others are replicated
  Gather gather = Gather::collective;       // of modules with full sharding

  OptimizerConfig optimizer{};
  int64_t steps = 1;
  uint64_t seed = 1;
  std::string device = "cpu";     // or cuda, cuda:1, ...
  std::string dtype = "float32";  // float64, or bfloat16 with float32 main weights
  RanksAs ranks_as = RanksAs::threads;
  int64_t threads_per_rank = 1;

  std::string checkpoints{};     // folder; none: nothing is saved
  int64_t checkpoint_every = 0;  // steps; 0: at the end alone
  int64_t keep_checkpoints = 2;
  bool resume = false;  // from the newest in the folder, if there is one

  ProfileOptions profile{};

  int64_t ranks() const { return pp * dp; }
};

// The step that options declare for a system, without items.
Step step_of(const TrainOptions& options, const System& system);

// Throws InvalidInput where the options do not fit together or the system.
void check_options(const TrainOptions& options, const System& system);

// The configured device; of several GPUs ("cuda" without a number) the one with this rank's number on its
// host. Throws InvalidInput where libtorch finds no such device.
torch::Device device_of(const std::string& device, int rank);
torch::ScalarType dtype_from_name(const std::string& text);

}  // namespace bigmac::train
