#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "bigmac/schedule/backbone_timeline.h"

namespace bigmac {

// One order of all operators of a table in the making, in which it could run one operator at a time, even
// with blocking sends (sends.h). A table that has one has no deadlock, whatever its operators take.
//
// A backbone operator gets its place when it starts, behind all that must have run before it; what of that
// has not started gets its place then, too. An item's place lies between those of its neighbours in the row,
// behind what it needs and before what needs it. So while an item has not been taken, what needs it, and all
// that must come behind that, must wait.
class SafeOrder {
 public:
  explicit SafeOrder(const BackboneTimeline& backbone);

  // An item without which a backbone operator (by offset) cannot run; that it has been taken by a rank.
  void expect_item(int32_t needed_by) { ++expected_[needed_by]; }
  void take_item(int32_t needed_by) { --expected_[needed_by]; }
  bool expects(int32_t offset) const { return expected_[offset] > 0; }

  bool may_start(int32_t offset);
  void start(int rank, int32_t offset);

  static constexpr int32_t kNothing = BackboneTimeline::kNone;
  // Whether an item that needs one backbone operator, or nothing, may stand in the row before another.
  bool may_stand(int rank, int32_t needs, int32_t before) const {
    return behind(rank, needs) < place(before);
  }
  void stand(int rank, int32_t needs) { last_[rank] = behind(rank, needs); }

 private:
  // What an operator without a place has instead; the others only while places are looked for.
  static constexpr int32_t kLater = std::numeric_limits<int32_t>::max();
  static constexpr int32_t kOpen = -1, kListed = -2;

  int32_t place(int32_t offset) const { return offset == kNothing ? kLater : places_[offset]; }
  int32_t behind(int rank, int32_t needs) const {
    return needs == kNothing ? last_[rank] : std::max(last_[rank], places_[needs]);
  }
  bool list_before(int32_t offset);

  const BackboneTimeline& backbone_;
  std::vector<int32_t> expected_;  // by offset
  std::vector<int32_t> places_;    // by offset
  std::vector<int32_t> last_;      // by rank: of its row so far
  int32_t next_place_ = 0;
  std::vector<int32_t> path_, listed_;
};

}  // namespace bigmac
