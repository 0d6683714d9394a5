#include "bigmac/runtime/threads_transport.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
#include <thread>

#include "bigmac/runtime/threads_group.h"

namespace bigmac {
namespace {

struct Mailbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<Message> messages;
};

// What the ranks share.
struct Shared {
  explicit Shared(int count) : ranks(count), boxes(size_t(count) * size_t(count)) {
    for (auto& box : boxes) box = std::make_unique<Mailbox>();
  }
  Mailbox& box(int from, int to) { return *boxes[size_t(from) * size_t(ranks) + size_t(to)]; }

  int ranks;
  std::vector<std::unique_ptr<Mailbox>> boxes;
  std::shared_ptr<Hall> hall = std::make_shared<Hall>();
  ThreadsGroups groups{hall};
  std::atomic<bool> failed{false};
};

class ThreadsTransport : public Transport {
 public:
  ThreadsTransport(std::shared_ptr<Shared> shared, int rank)
      : shared_(std::move(shared)),
        rank_(rank),
        all_(shared_->groups.join(all_ranks(), rank_, shared_->ranks)) {}

  int rank() const override { return rank_; }
  int size() const override { return shared_->ranks; }
  bool shares_process() const override { return shared_->ranks > 1; }

  void send(int peer, Message message) override {
    auto& box = shared_->box(rank_, peer);
    {
      std::lock_guard lock(box.mutex);
      box.messages.push_back(std::move(message));
    }
    box.arrived.notify_one();
  }

  void post_receives(int, int64_t) override {}

  Message receive(int peer) override {
    auto& box = shared_->box(peer, rank_);
    std::unique_lock lock(box.mutex);
    box.arrived.wait(lock, [&] { return !box.messages.empty() || shared_->failed; });
    if (shared_->failed) shared_->hall->check();
    Message message = std::move(box.messages.front());
    box.messages.pop_front();
    return message;
  }

  bool has_message(int peer) override {
    auto& box = shared_->box(peer, rank_);
    std::lock_guard lock(box.mutex);
    return !box.messages.empty();
  }

  void all_reduce(torch::Tensor& values) override { all_->start_all_reduce(values)->wait(); }
  std::unique_ptr<Group> make_group(std::vector<int> ranks) override {
    return shared_->groups.join(std::move(ranks), rank_, shared_->ranks);
  }

  void fail(const std::string& reason) override {
    shared_->hall->fail(reason);
    shared_->failed = true;
    for (auto& box : shared_->boxes) {
      std::lock_guard lock(box->mutex);
      box->arrived.notify_all();
    }
  }

  void check() override { shared_->hall->check(); }

 private:
  std::vector<int> all_ranks() const {
    std::vector<int> ranks(size_t(shared_->ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  std::shared_ptr<Shared> shared_;
  int rank_;
  std::unique_ptr<Group> all_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_threads_group(int ranks) {
  if (ranks < 1) throw InvalidInput(concat("[threads] ranks must be at least 1, got ", ranks));
  auto shared = std::make_shared<Shared>(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_unique<ThreadsTransport>(shared, rank));
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
