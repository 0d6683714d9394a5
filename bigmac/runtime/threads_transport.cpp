#include "bigmac/runtime/threads_transport.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace bigmac {
namespace {

struct Mailbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<Message> messages;
};

class Group {
 public:
  explicit Group(int ranks) : ranks_(ranks), boxes_(size_t(ranks) * size_t(ranks)) {
    for (auto& box : boxes_) box = std::make_unique<Mailbox>();
  }

  int ranks() const { return ranks_; }
  Mailbox& box(int from, int to) { return *boxes_[from * ranks_ + to]; }

  void fail(const std::string& reason) {
    {
      std::lock_guard lock(mutex_);
      if (failure_.empty()) failure_ = reason;
      failed_ = true;
    }
    reduced_.notify_all();
    for (auto& box : boxes_) {
      std::lock_guard lock(box->mutex);
      box->arrived.notify_all();
    }
  }

  bool failed() const { return failed_; }
  [[noreturn]] void throw_failure() {
    std::lock_guard lock(mutex_);
    throw RankFailure(failure_);
  }

  // Ranks' values are added in the order of ranks, so that a sum does not depend on who comes first.
  void all_reduce(int rank, torch::Tensor& values) {
    std::unique_lock lock(mutex_);
    if (failed_) throw RankFailure(failure_);
    parts_.resize(ranks_);
    parts_[rank] = values;
    int64_t round = round_;
    if (++present_ < ranks_) {
      reduced_.wait(lock, [&] { return round_ != round || failed_; });
      if (round_ == round) throw RankFailure(failure_);
    } else {
      sum_ = parts_[0].clone();
      for (int other = 1; other < ranks_; ++other) sum_.add_(parts_[other]);
      parts_.clear();
      present_ = 0;
      ++round_;
      reduced_.notify_all();
    }
    values.copy_(sum_);
  }

 private:
  int ranks_;
  std::vector<std::unique_ptr<Mailbox>> boxes_;

  std::mutex mutex_;
  std::condition_variable reduced_;
  std::vector<torch::Tensor> parts_;
  torch::Tensor sum_;
  int present_ = 0;
  int64_t round_ = 0;
  std::string failure_;
  std::atomic<bool> failed_{false};
};

class ThreadsTransport : public Transport {
 public:
  ThreadsTransport(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->ranks(); }

  void send(int peer, Message message) override {
    auto& box = group_->box(rank_, peer);
    {
      std::lock_guard lock(box.mutex);
      box.messages.push_back(std::move(message));
    }
    box.arrived.notify_one();
  }

  void post_receives(int, int64_t) override {}

  Message receive(int peer) override {
    auto& box = group_->box(peer, rank_);
    std::unique_lock lock(box.mutex);
    box.arrived.wait(lock, [&] { return !box.messages.empty() || group_->failed(); });
    if (group_->failed()) group_->throw_failure();
    Message message = std::move(box.messages.front());
    box.messages.pop_front();
    return message;
  }

  bool has_message(int peer) override {
    auto& box = group_->box(peer, rank_);
    std::lock_guard lock(box.mutex);
    return !box.messages.empty();
  }

  void all_reduce(torch::Tensor& values) override { group_->all_reduce(rank_, values); }
  void fail(const std::string& reason) override { group_->fail(reason); }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_threads_group(int ranks) {
  if (ranks < 1) throw InvalidInput(concat("[threads] ranks must be at least 1, got ", ranks));
  auto group = std::make_shared<Group>(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_unique<ThreadsTransport>(group, rank));
  return transports;
}

void run_threads(int ranks, const std::function<void(Transport&)>& body) {
  auto transports = make_threads_group(ranks);
  std::mutex mutex;
  std::string failure;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      std::string reason;
      try {
        body(*transports[rank]);
        return;
      } catch (const RankFailure& error) {
        reason = error.what();
      } catch (const std::exception& error) {
        reason = concat("rank ", rank, ": ", error.what());
      } catch (...) {
        reason = concat("rank ", rank, ": unknown error");
      }
      std::lock_guard lock(mutex);
      if (!failure.empty()) return;
      failure = reason;
      transports[rank]->fail(reason);
    });
  for (auto& thread : threads) thread.join();
  if (!failure.empty()) throw RankFailure(failure);
}

}  // namespace bigmac
