#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bigmac/runtime/group.h"

namespace bigmac {

// Where the ranks of one process wait for one another, and learn of the first failure.
class Hall {
 public:
  void fail(const std::string& reason);
  void check() const;  // throws RankFailure once a rank has failed
  void tell();         // that something has happened
  // Looks again whenever something has happened. Throws RankFailure once a rank has failed.
  template <class Condition>
  void wait_until(const Condition& holds) const {
    for (int64_t seen = count(); !holds(); seen = count()) wait_past(seen);
  }

 private:
  int64_t count() const;
  void wait_past(int64_t count) const;

  mutable std::mutex mutex_;
  mutable std::condition_variable told_;
  int64_t count_ = 0;
  std::string failure_;
  bool failed_ = false;
};

struct Circle;  // what the members of one group share

// The groups among the ranks of one process. Sums are taken in the order of members by the one who comes
// last; everything else is copied from where it lies.
class ThreadsGroups {
 public:
  explicit ThreadsGroups(std::shared_ptr<Hall> hall) : hall_(std::move(hall)) {}
  // As Transport::make_group, by rank `rank` of `size`.
  std::unique_ptr<Group> join(std::vector<int> ranks, int rank, int size);

 private:
  std::shared_ptr<Hall> hall_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Circle>> incomplete_;
};

// A group of one rank.
std::unique_ptr<Group> make_lone_group(int rank);

}  // namespace bigmac
