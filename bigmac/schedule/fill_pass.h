#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <tuple>
#include <vector>

#include "bigmac/schedule/safe_order.h"
#include "bigmac/schedule/stretch.h"

namespace bigmac {

// How one pass chooses. Nothing here can make a table unsafe or let it hold more than the limit.
struct FillRule {
  double eagerness = 0;         // of the stretch (stretch.h), 0 to 1
  bool forwards_first = false;  // encoder forwards before backwards, even where they are not urgent
  double grain = 0;             // the stretch is rounded to multiples of this: whole items fit into a cut
  double overrun = 0;           // the part of an item that may delay a backbone operator that is ready,
  double overrun_unready = 0;   // or whose inputs will come at a known time
  double lead = 0;              // an encoder forward is urgent this long before what needs it is due
  double slip = 0;              // backbone operators may be this late before all that follow are put off too
  bool even = false;            // a rank takes encoder items up to its allowance only
  bool in_line = false;         // nothing starts that stands behind a forward of stage 0 in the backbone-only
                                // timeline while that lacks an item; kept as long as anything else can go on
  bool longest_backward = false;  // the longest of the encoder backwards that fit, else the first
};

// One pass over a step, in order of time: each rank, as it becomes free, takes its next backbone operator or
// an item (fill.h).
class FillPass {
 public:
  // `rule`: in the unit of the costs. `allowance`: by rank, the encoder work that an even rule gives it.
  FillPass(const Filling& filling, const Stretch& stretch, const FillRule& rule,
           std::vector<double> allowance);

  // False where nothing can go on.
  bool run();

  double length() const { return *std::max_element(free_.begin(), free_.end()); }
  const std::vector<double>& finished() const { return free_; }      // by rank
  const std::vector<double>& assigned() const { return assigned_; }  // by rank: encoder work
  Schedule table() const;

 private:
  struct Event {
    double time;
    bool wakes;  // else what the rank runs has ended
    int rank;
    bool operator>(const Event& other) const {
      return std::tie(time, wakes, rank) > std::tie(other.time, other.wakes, other.rank);
    }
  };
  // What an operator waits for, from operators elsewhere.
  struct Inputs {
    double come = 0;  // when those whose time is known are there
    int32_t missing = 0;
  };
  // A rank's next backbone operator, and when it may start.
  struct Next {
    bool ready = false;
    int32_t offset = SafeOrder::kNothing;
    double inputs = 0;  // when they are there; infinite while that is not known
    double target = 0;
  };

  Next next_of(int rank, bool force);
  double target(int32_t offset) const;
  bool fits(const Next& next, double duration, bool force) const;
  bool forward_urgent() const;
  bool ahead(int32_t offset) const;

  bool decide(int rank, bool force);
  bool try_generator(int rank, const Next& next, bool force);
  bool try_encoder_forward(int rank, const Next& next, bool force);
  bool try_encoder_backward(int rank, const Next& next, bool force);
  bool may_take_forward(int rank, const Filling::Item& item, bool force) const;
  void take_forward(int rank, int32_t i);
  void skip_taken();

  void start_backbone(int rank, const Next& next);
  double start(int rank, const Operator& op, double inputs, double duration);  // when it ends
  static void receive(Inputs& inputs, double time);

  void next_time();
  void complete(int rank);
  void complete_backbone(int rank, const Operator& op);
  void let_go_outputs(int64_t m);
  bool decide_forced();
  void wake_for(int32_t offset, int rank);
  void wake(int rank, double time);
  void ask(int rank);
  void ask_sleeping();

  int receiver_rank(int rank, const Operator& op) const;
  double way(int from, int to) const { return from == to ? 0 : filling_.durations.latency(); }
  size_t live_at(int rank, const Filling::Item& item) const {
    return size_t(rank) * filling_.limits.size() + size_t(item.module);
  }

  const Filling& filling_;
  const BackboneTimeline& backbone_;
  const Stretch& stretch_;
  const FillRule rule_;
  const std::vector<double> allowance_;
  const int ranks_;
  const double rounding_;  // times nearer than this are one moment

  double now_ = 0;
  double late_ = 0;  // how much the backbone is behind its targets, less the slip
  int64_t left_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<int> asked_;                         // the ranks that decide now
  std::vector<uint8_t> is_asked_, runs_, sleeps_;  // by rank

  std::vector<std::vector<Operator>> rows_;
  std::vector<double> free_;    // by rank: when what it runs has ended
  std::vector<int64_t> next_;   // by rank: the offset of its next backbone operator
  std::vector<Inputs> inputs_;  // by offset
  SafeOrder order_;

  std::vector<int32_t> owner_;      // by item
  std::vector<double> live_;        // by rank and module: size that is held, or waits for stage 0 if frozen
  std::vector<double> assigned_;    // by rank
  std::vector<int32_t> following_;  // by encoder item: the one to look at behind it
  int32_t cursor_;                  // the first that has not been taken
  size_t first_untaken_ = 0;        // the first microbatch whose encoder items have not all been taken
  std::vector<double> forward_ended_, backward_ended_;  // by microbatch: on the last stage, on stage 0
  std::vector<std::deque<int32_t>> backwards_;          // by rank: items whose gradient is there
  std::deque<int32_t> generators_;                      // items whose inputs are there
};

}  // namespace bigmac
