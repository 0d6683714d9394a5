#pragma once

#include <cstdint>
#include <vector>

#include "bigmac/timeline/recording.h"

namespace bigmac {

// A recorded step as rules that give its timeline again, so that it can be run with something changed. An
// operator starts at
//
//   max(end of the operator before it in its row + own, end of its last input from another rank + message)
//
// and takes its duration. What it waited for last gets what was really measured between the two; of the
// other, the median of its rank (own) or of its link (message) is taken, as far as it lets the operator start
// when it did. So running the unchanged model ends every operator when it ended. Times are in
// the timeline's unit, from its start.
struct StepModel {
  // By operator, each behind its predecessors.
  std::vector<Slice> slices;           // as recorded
  std::vector<int32_t> rank, before;   // before: the operator before it in its row, -1 for none
  std::vector<uint32_t> inputs_begin;  // one more than operators
  std::vector<int32_t> inputs;         // operators of other ranks whose output it needs
  std::vector<int32_t> last_input;     // of them, the one that ended last; -1 for none
  std::vector<uint8_t> by_input;       // whether it waited for that one last, not for its row
  std::vector<double> duration, own, message;
  // Parts of message and of own, and blocked in exchanges before it, where the recording has them.
  std::vector<double> order, transfer, blocked;
  double before_first = 0, behind_last = 0;  // of the timeline, without any operator
  std::vector<int32_t> row_last;             // by rank, -1 for an empty row
  std::vector<double> transfer_behind;       // by rank: transfers behind its last operator
  int ranks = 0;
  // Of a recording that lacks operators (Recording::missing): by operator, 1 + the module of one of these
  // that it needs, 0 for none.
  bool is_whole = true;
  std::vector<uint8_t> lacks_input{};

  size_t count() const { return slices.size(); }
  double free_at(size_t i) const { return before[i] < 0 ? 0 : slices[size_t(before[i])].end; }
};

// Throws InvalidInput where the timeline's operators are not the schedule's, or lack what they need.
StepModel model_of(const Schedule& schedule, const Timeline& timeline);

// Of a recording that is not whole, its operators in order of time. Waits can be judged by it; it cannot be
// run.
StepModel model_of_what_is_there(const Schedule& schedule, const Timeline& timeline);

// When each operator ends, and how long the step takes.
std::vector<double> run(const StepModel& model);
double length_of(const StepModel& model);

// The middle of the values, of two in the middle their mean; 0 for none.
double median_of(std::vector<double> values);

}  // namespace bigmac
