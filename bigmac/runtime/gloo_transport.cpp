#include "bigmac/runtime/gloo_transport.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "bigmac/runtime/recorder.h"
#include "bigmac/runtime/store.h"

namespace bigmac {
namespace {

using namespace std::chrono_literals;

constexpr auto kPoll = 100ms;
constexpr auto kForever = std::chrono::hours(24 * 365);
// How long a rank that loses a connection waits for the reason to be published by who knows it better.
constexpr auto kReasonGrace = 2s;
// How long rank 0 keeps its store up after a failure.
constexpr auto kReadReason = 1s;
// Seconds that a pending collective gets to notice a failure.
constexpr double kCollectiveGrace = 2;

constexpr int kMessageTag = 0, kProbeTag = 1;

std::string first_line(const std::exception& error) {
  std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

// The group's failure as this process knows it.
class Failed {
 public:
  void set(const std::string& reason) {
    {
      std::lock_guard lock(mutex_);
      if (!reason_.empty()) return;
      reason_ = reason;
      flag_ = true;
    }
    changed_.notify_all();
  }
  bool is_set() const { return flag_; }
  void check() {
    if (!flag_) return;
    std::lock_guard lock(mutex_);
    throw RankFailure(reason_);
  }
  // Waits a while for a failure to become known.
  bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return flag_.load(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string reason_;
  std::atomic<bool> flag_{false};
};

// Runs the receives of one peer in the background, in order.
struct Lane {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t posted = 0;
  std::deque<Message> messages;
  bool closing = false;
  c10::intrusive_ptr<c10d::Work> work;  // the receive in progress
  std::thread thread;
};

class GlooTransport : public Transport {
 public:
  GlooTransport(const Environment& environment, const GlooOptions& options)
      : rank_(environment.rank),
        size_(environment.size),
        hosted_(environment.hosted),
        collective_timeout_(options.collective_timeout),
        lanes_(environment.size) {
    bool serves = rank_ == 0 && !hosted_;
    auto connection = connect_store(environment.address, environment.port, serves, options.connect_timeout);
    store_ = connection.store;
    watch_store_ = connect_store(environment.address, connection.port, false, options.connect_timeout).store;
    meet(options.connect_timeout);
    auto gloo = c10d::ProcessGroupGloo::Options::create(options.collective_timeout);
    gloo->devices.push_back(make_device(environment));
    gloo->threads = 1;
    try {
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>("gloo", store_), rank_, size_, gloo);
    } catch (const std::exception& error) {
      throw Failure(
          concat("rank ", rank_, ": [gloo] cannot connect to the other ranks: ", first_line(error)));
    }
    for (auto& lane : lanes_) lane = std::make_unique<Lane>();
    watcher_ = std::thread([this] { watch(); });
    reaper_ = std::thread([this] { reap(); });
  }

  // Waits until what was sent has been taken, unless the group has failed.
  ~GlooTransport() override {
    if (!failed_.is_set()) {
      try {
        take_leave();
      } catch (const std::exception&) {
        // A rank has failed meanwhile; nobody is left to tell.
      }
    }
    closing_ = true;
    for (auto& lane : lanes_) {
      std::lock_guard lock(lane->mutex);
      lane->closing = true;
      if (lane->work) lane->work->abort();
      lane->changed.notify_all();
    }
    {
      std::lock_guard lock(sent_mutex_);
      dropping_ = true;
      if (sending_) sending_->abort();
      sent_changed_.notify_all();
    }
    watcher_.join();
    reaper_.join();
    for (auto& lane : lanes_)
      if (lane->thread.joinable()) lane->thread.join();
    // The store with the reason goes with rank 0, so the others get time to read it.
    if (failed_.is_set() && rank_ == 0 && !hosted_) std::this_thread::sleep_for(kReadReason);
    // A collective ends with an error once the other ranks close their ends. One that does not is left
    // behind.
    for (double start = now(); reducing_ && !reducing_->isCompleted();) {
      if (now() - start > kCollectiveGrace) {
        static_cast<void>(group_.release());
        return;
      }
      std::this_thread::sleep_for(1ms);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int peer, Message message) override {
    failed_.check();
    auto body = pack(message);
    auto size = torch::full({1}, body.numel(), torch::kInt64);
    try {
      for (const auto& part : {size, body}) {
        std::vector<at::Tensor> tensors{part};
        auto work = group_->send(tensors, peer, kMessageTag);
        std::lock_guard lock(sent_mutex_);
        sent_.push_back({work, peer});
      }
    } catch (const std::exception& error) {
      lost(peer, error);
      failed_.check();
    }
    sent_changed_.notify_one();
  }

  void post_receives(int peer, int64_t count) override {
    auto& lane = *lanes_.at(peer);
    {
      std::lock_guard lock(lane.mutex);
      lane.posted += count;
    }
    if (!lane.thread.joinable()) lane.thread = std::thread([this, peer] { receive_all(peer); });
    lane.changed.notify_all();
  }

  Message receive(int peer) override {
    auto& lane = *lanes_.at(peer);
    std::unique_lock lock(lane.mutex);
    while (lane.messages.empty()) {
      failed_.check();
      lane.changed.wait_for(lock, kPoll);
    }
    Message message = std::move(lane.messages.front());
    lane.messages.pop_front();
    return message;
  }

  bool has_message(int peer) override {
    auto& lane = *lanes_.at(peer);
    std::lock_guard lock(lane.mutex);
    return !lane.messages.empty();
  }

  void all_reduce(torch::Tensor& values) override {
    failed_.check();
    if (size_ == 1) return;
    auto host = values.to(torch::kCPU);
    std::vector<at::Tensor> tensors{host};
    try {
      reducing_ = group_->allreduce(tensors);
      while (!reducing_->isCompleted()) {
        failed_.check();
        std::this_thread::sleep_for(50us);
      }
      reducing_->wait();
    } catch (const RankFailure&) {
      throw;
    } catch (const std::exception& gloo_error) {
      lost(-1, gloo_error);
      failed_.check();
    }
    if (!host.is_same(values)) values.copy_(host);
  }

  void fail(const std::string& reason) override {
    try {
      failed_.set(publish_failure(*store_, reason));
    } catch (const std::exception&) {
      // The store is gone with its host; the others see that for themselves.
      failed_.set(reason);
    }
  }

 private:
  static std::shared_ptr<::gloo::transport::Device> make_device(const Environment& environment) {
    if (environment.address == "127.0.0.1" || environment.address == "localhost")
      return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
    if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"))
      return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
    return c10d::ProcessGroupGloo::createDefaultDevice();
  }

  // Waits until all ranks have come to the store.
  void meet(std::chrono::milliseconds timeout) {
    auto here = [](int rank) { return concat("bigmac/here/", rank); };
    std::vector<std::string> all;
    for (int rank = 0; rank < size_; ++rank) all.push_back(here(rank));
    try {
      store_->set(here(rank_), std::vector<uint8_t>{1});
      auto start = std::chrono::steady_clock::now();
      while (!store_->check(all)) {
        if (auto reason = published_failure(*store_)) throw RankFailure(*reason);
        if (std::chrono::steady_clock::now() - start > timeout) {
          std::string missing;
          for (int rank = 0; rank < size_; ++rank)
            if (!store_->check({here(rank)})) missing += concat(missing.empty() ? "" : ", ", rank);
          throw Failure(concat("rank ", rank_, ": [gloo] not all ", size_, " ranks came together within ",
                               double(timeout.count()) / 1000, " s; missing: rank ", missing));
        }
        std::this_thread::sleep_for(20ms);
      }
    } catch (const Failure&) {
      throw;
    } catch (const std::exception& error) {
      throw Failure(concat(store_lost(), " (", first_line(error), ")"));
    }
  }

  // Rank 0 ends last where the store is its own.
  void take_leave() {
    if (hosted_) {
    } else if (rank_ != 0) {
      send(0, {});
    } else {
      for (int peer = 1; peer < size_; ++peer) post_receives(peer, 1);
      for (int peer = 1; peer < size_; ++peer) receive(peer);
    }
    std::unique_lock lock(sent_mutex_);
    for (double start = now(); (sending_ || !sent_.empty()) && !failed_.is_set();) {
      if (now() - start > std::chrono::duration<double>(collective_timeout_).count()) return;
      sent_changed_.wait_for(lock, kPoll);
    }
  }

  // Whether it was received; false when the transport closes.
  bool receive_part(Lane& lane, at::Tensor& part, int peer) {
    std::vector<at::Tensor> tensors{part};
    {
      std::lock_guard lock(lane.mutex);
      if (lane.closing) return false;
      lane.work = group_->recv(tensors, peer, kMessageTag);
    }
    return lane.work->wait(kForever);
  }

  void receive_all(int peer) {
    auto& lane = *lanes_[peer];
    for (;;) {
      {
        std::unique_lock lock(lane.mutex);
        lane.changed.wait(lock, [&] { return lane.posted > 0 || lane.closing; });
        if (lane.closing) return;
        --lane.posted;
      }
      try {
        auto size = torch::empty({1}, torch::kInt64);
        if (!receive_part(lane, size, peer)) return;
        auto body = torch::empty({size.item<int64_t>()}, torch::kUInt8);
        if (!receive_part(lane, body, peer)) return;
        std::lock_guard lock(lane.mutex);
        lane.messages.push_back(unpack(body));
      } catch (const std::exception& error) {
        if (!closing_) lost(peer, error);
        return;
      }
      lane.changed.notify_all();
    }
  }

  void reap() {
    for (;;) {
      int peer = 0;
      {
        std::unique_lock lock(sent_mutex_);
        sending_.reset();
        sent_changed_.notify_all();
        sent_changed_.wait(lock, [&] { return !sent_.empty() || dropping_; });
        if (dropping_) return;
        sending_ = sent_.front().work;
        peer = sent_.front().peer;
        sent_.pop_front();
      }
      try {
        if (!sending_->wait(kForever)) return;
      } catch (const std::exception& error) {
        if (!closing_) lost(peer, error);
        return;
      }
    }
  }

  std::string store_lost() const {
    return hosted_ ? "[gloo] the launcher has ended, and with it the group's store"
                   : "rank 0: [gloo] has ended, and with it the group's store";
  }

  void watch() {
    while (!closing_ && !failed_.is_set()) {
      try {
        if (auto reason = published_failure(*watch_store_)) failed_.set(*reason);
      } catch (const std::exception&) {
        if (!closing_) failed_.set(store_lost());
      }
      failed_.wait_for(kPoll);
    }
  }

  // A connection broke; of a collective it is not known which (-1). Whoever knows why has published it or is
  // about to.
  void lost(int peer, const std::exception& error) {
    if (failed_.wait_for(kReasonGrace)) return;
    if (peer < 0) peer = find_gone();
    auto text = first_line(error);
    fail(peer < 0 ? concat("rank ", rank_, ": [gloo] a collective failed: ", text)
                  : concat("rank ", peer, ": [gloo] its connection to rank ", rank_, " broke: ", text));
  }

  // The first rank whose connection is closed, or -1: Gloo refuses to post a receive on it.
  int find_gone() {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      std::vector<at::Tensor> tensors{torch::empty({1}, torch::kUInt8)};
      try {
        group_->recv(tensors, peer, kProbeTag);
      } catch (const std::exception&) {
        return peer;
      }
    }
    return -1;
  }

  struct Sent {
    c10::intrusive_ptr<c10d::Work> work;
    int peer = 0;
  };

  int rank_;
  int size_;
  bool hosted_;
  std::chrono::milliseconds collective_timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Store> watch_store_;  // the watcher's own connection
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  c10::intrusive_ptr<c10d::Work> reducing_;  // the last collective
  Failed failed_;
  std::atomic<bool> closing_{false};
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::mutex sent_mutex_;
  std::condition_variable sent_changed_;
  std::deque<Sent> sent_;
  c10::intrusive_ptr<c10d::Work> sending_;  // the send that the reaper waits for
  bool dropping_ = false;                   // what is still in sent_
  std::thread watcher_;
  std::thread reaper_;
};

}  // namespace

std::unique_ptr<Transport> connect_gloo(const Environment& environment, const GlooOptions& options) {
  return std::make_unique<GlooTransport>(environment, options);
}

}  // namespace bigmac
