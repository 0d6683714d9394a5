#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bigmac/measured/measured_step.h"

namespace bigmac {

// What a file says of one step, before it is put together: -1 for what it does not say.

struct RawItem {
  int64_t item = 0;  // its number within its module
  int64_t microbatch = 0;
  double size = 1;
};

struct RawOperator {
  Phase phase = Phase::forward;
  int64_t stage = -1;
  int64_t chunk = -1;
  int64_t microbatch = -1;  // as the caller counts them
  int64_t position = -1;    // in the schedule; as the microbatch where it is not said
  double start = 0;         // seconds
  double end = 0;
  int32_t share = -1;  // in RawStep::shares: an encoder's or generator's
};

struct RawShare {
  std::string module;
  Module kind = Module::encoder;
  int64_t unit = 0;
  std::vector<RawItem> items;
};

struct RawRank {
  std::string file;  // named in errors
  int64_t rank = -1;
  std::vector<RawOperator> operators{};  // in order of time
  double step = -1;                      // seconds; -1: from the first operator to the last
  double memory = -1;                    // bytes
};

struct RawStep {
  std::string name{};
  std::vector<RawRank> ranks{};  // by rank, none missing
  std::vector<RawShare> shares{};
  int64_t chunks = -1, group = 0, microbatches = -1;  // where they are known
  bool order_assumed = false;                         // chunks and microbatches are those of interleaved 1F1B
};

// What differs by less than this may be rounding: operators that overlap by it are put behind one another.
inline constexpr double kRounding = 1e-5;

// "F chunk 0 microbatch 3", "B stage 2 microbatch 3", "F": what is known of an operator, for errors.
std::string shown(const RawOperator& op);

// Puts a step together: fills in chunks and microbatches that were not said in the order of (interleaved)
// 1F1B, finds P, V and M, and checks that every operator is there once. Two chunks a rank may also be those
// of a V (rank r holds stages r and 2P-1-r), where only then the order runs. Throws InvalidInput naming file,
// rank and operator for operators that overlap, times that are not finite or run backwards, ranks with
// different counts, and whatever check() finds.
MeasuredStep assemble(RawStep raw);

}  // namespace bigmac
