#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/measured/left_out.h"
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

struct RawInterval {
  Spent spent = Spent::wait;
  int64_t peer = -1;
  double start = 0, end = 0;  // seconds
  std::string label{};        // of the operator it was for (labels.h); empty where that is not said
  int64_t bytes = 0;          // of the message; 0: not said
  bool sends = false;         // of a transfer: it left this rank
  // It by itself, where the file says that instead of a label; index: its position, or its number in
  // RawStep::shares.
  std::optional<Operator> op{};
};

struct RawRank {
  std::string file;  // named in errors
  int64_t rank = -1;
  std::vector<RawOperator> operators{};  // in order of time
  std::vector<RawInterval> intervals{};
  MemoryCurve memory{};  // one point where only the peak is known
  double step = -1;      // seconds; -1: from the first operator to the last
};

struct RawStep {
  std::string name{};
  std::vector<RawRank> ranks{};  // by rank, none missing; without operators where nothing is known of it
  std::vector<RawShare> shares{};
  double memory_limit = 0;                            // bytes of a rank; 0: not said
  int64_t chunks = -1, group = 0, microbatches = -1;  // where they are known
  bool order_assumed = false;                         // chunks and microbatches are those of interleaved 1F1B
};

// What differs by less than this may be rounding: operators that overlap by it are put behind one another.
inline constexpr double kRounding = 1e-5;

// Of operators or intervals; what begins at once keeps its order.
template <class Span>
void sort_by_start(std::vector<Span>& spans) {
  auto earlier = [](const Span& a, const Span& b) { return a.start < b.start; };
  if (!std::is_sorted(spans.begin(), spans.end(), earlier))
    std::stable_sort(spans.begin(), spans.end(), earlier);
}

// "F chunk 0 microbatch 3", "B stage 2 microbatch 3", "F": what is known of an operator, for errors.
std::string shown(const RawOperator& op);

// Puts a step together: fills in chunks and microbatches that were not said in the order of (interleaved)
// 1F1B, finds P, V and M, and checks that every operator is there once. Two chunks a rank may also be those
// of a V (rank r holds stages r and 2P-1-r), where only then the order runs. Throws InvalidInput naming file,
// rank and operator for operators that overlap, times that are not finite or run backwards, ranks with
// different counts, and whatever check() finds.
MeasuredStep assemble(RawStep raw);

// Puts together what there is of a step that may be incomplete or damaged: as assemble() where it is whole,
// else the operators that can be told apart, each once, in order of time and without overlaps. What is left
// out or changed for that goes to `left`, what a whole step would have to MeasuredStep::missing. Throws
// InvalidInput where no operator is left, or far fewer than the step would have.
MeasuredStep assemble_what_is_there(RawStep raw, LeftOut& left);

}  // namespace bigmac
