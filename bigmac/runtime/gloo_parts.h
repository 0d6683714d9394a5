#pragma once

#include <ATen/ThreadLocalState.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

// What a Gloo transport and its groups are made of.
namespace bigmac {

constexpr auto kPoll = std::chrono::milliseconds(100);
constexpr auto kForever = std::chrono::hours(24 * 365);

using GlooWork = c10::intrusive_ptr<c10d::Work>;

std::string first_line(const std::exception& error);

// The failure of a transport as this process knows it.
class Failed {
 public:
  void set(const std::string& reason);  // the first counts
  bool is_set() const { return flag_; }
  void check();  // throws RankFailure
  // Waits a while for a failure to become known.
  bool wait_for(std::chrono::milliseconds time);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string reason_;
  std::atomic<bool> flag_{false};
};

// One of these ranks of the transport has gone, and this is how it showed.
using Lost = std::function<void(const std::vector<int>& ranks, const std::exception& error)>;

// Blocks until the collective is done. Throws RankFailure where any rank has failed.
void finish(const GlooWork& work, Failed& failed, const Lost& lost, const std::vector<int>& ranks);

// Keeps what is being sent until it has been taken.
class Sends {
 public:
  explicit Sends(Lost lost) : lost_(std::move(lost)), reaper_([this] { reap(); }) {}
  ~Sends() { stop(); }  // drops what is left

  void push(GlooWork work, int rank);
  bool is_empty();
  void wait_for(std::chrono::milliseconds time);  // to become empty
  void stop();

 private:
  void reap();

  struct Sent {
    GlooWork work;
    int rank = 0;
    at::ThreadLocalState here{};  // so that who watches the sender's memory sees it let go
  };
  Lost lost_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Sent> sent_;
  GlooWork sending_;  // that the reaper waits for
  bool dropping_ = false;
  std::thread reaper_;
};

}  // namespace bigmac
