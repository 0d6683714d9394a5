#include "bigmac/runtime/gloo_transport.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "bigmac/runtime/store.h"

namespace bigmac {
namespace {

using namespace std::chrono_literals;

constexpr auto kPoll = 100ms;
// How long a rank that loses a connection waits for the reason to be published by who knows it better.
constexpr auto kReasonGrace = 2s;

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
  std::thread thread;
};

class GlooTransport : public Transport {
 public:
  GlooTransport(const Environment& environment, const GlooOptions& options)
      : rank_(environment.rank), size_(environment.size), lanes_(environment.size) {
    bool serves = rank_ == 0 && !environment.hosted;
    auto connection = connect_store(environment.address, environment.port, serves, options.connect_timeout);
    store_ = connection.store;
    watch_store_ = connect_store(environment.address, connection.port, false, options.connect_timeout).store;
    auto gloo = c10d::ProcessGroupGloo::Options::create(options.collective_timeout);
    gloo->devices.push_back(make_device(environment));
    gloo->threads = 1;
    try {
      store_->setTimeout(options.connect_timeout);
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>("gloo", store_), rank_, size_, gloo);
    } catch (const std::exception& error) {
      std::string text = error.what();
      throw Failure(concat("rank ", rank_, ": [gloo] not all ", size_, " ranks came together within ",
                           options.connect_timeout.count() / 1000.0,
                           " s: ", text.substr(0, text.find('\n'))));
    }
    for (auto& lane : lanes_) lane = std::make_unique<Lane>();
    watcher_ = std::thread([this] { watch(); });
    reaper_ = std::thread([this] { reap(); });
  }

  // After a failure threads may hang in Gloo on a connection that nobody serves any more; they are left
  // behind, as the process is about to end.
  ~GlooTransport() override {
    closing_ = true;
    for (auto& lane : lanes_) {
      std::lock_guard lock(lane->mutex);
      lane->closing = true;
      lane->changed.notify_all();
    }
    {
      std::lock_guard lock(sent_mutex_);
      sent_changed_.notify_all();
    }
    watcher_.join();
    if (failed_.is_set()) {
      reaper_.detach();
      for (auto& lane : lanes_)
        if (lane->thread.joinable()) lane->thread.detach();
      leave_behind();
      return;
    }
    reaper_.join();
    for (auto& lane : lanes_)
      if (lane->thread.joinable()) lane->thread.join();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int peer, Message message) override {
    failed_.check();
    auto body = pack(message);
    auto size = torch::full({1}, body.numel(), torch::kInt64);
    try {
      for (auto part : {size, body}) {
        std::vector<at::Tensor> tensors{part};
        auto work = group_->send(tensors, peer, 0);
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
    std::shared_ptr<std::exception> error;
    try {
      auto work = group_->allreduce(tensors);
      while (!work->isCompleted()) {
        failed_.check();
        std::this_thread::sleep_for(50us);
      }
      work->wait();
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
      publish_failure(*store_, reason);
    } catch (const std::exception&) {
      // The store is gone with its host; the others see that for themselves.
    }
    failed_.set(reason);
  }

 private:
  static std::shared_ptr<::gloo::transport::Device> make_device(const Environment& environment) {
    if (environment.address == "127.0.0.1" || environment.address == "localhost")
      return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
    if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"))
      return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
    return c10d::ProcessGroupGloo::createDefaultDevice();
  }

  void receive_part(at::Tensor& part, int peer) {
    std::vector<at::Tensor> tensors{part};
    group_->recv(tensors, peer, 0)->wait(std::chrono::hours(24 * 365));
  }

  void receive_all(int peer) {
    auto& lane = *lanes_[peer];
    for (;;) {
      {
        std::unique_lock lock(lane.mutex);
        lane.changed.wait(lock, [&] { return lane.posted > 0 || lane.closing; });
        if (lane.posted == 0) return;
        --lane.posted;
      }
      try {
        auto size = torch::empty({1}, torch::kInt64);
        receive_part(size, peer);
        auto body = torch::empty({size.item<int64_t>()}, torch::kUInt8);
        receive_part(body, peer);
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
      Sent sent;
      {
        std::unique_lock lock(sent_mutex_);
        sent_changed_.wait(lock, [&] { return !sent_.empty() || closing_; });
        if (sent_.empty()) return;
        sent = std::move(sent_.front());
        sent_.pop_front();
      }
      try {
        sent.work->wait(std::chrono::hours(24 * 365));
      } catch (const std::exception& error) {
        if (!closing_) lost(sent.peer, error);
        return;
      }
    }
  }

  void watch() {
    while (!closing_) {
      try {
        if (auto reason = published_failure(*watch_store_)) {
          failed_.set(*reason);
          break;
        }
      } catch (const std::exception&) {
        if (!closing_)
          failed_.set(concat("rank ", rank_, ": [gloo] lost the group's store: its host has ended"));
        break;
      }
      std::this_thread::sleep_for(kPoll);
    }
    while (!closing_ && failed_.is_set()) {
      for (auto& lane : lanes_) lane->changed.notify_all();
      std::this_thread::sleep_for(kPoll);
    }
  }

  // A connection broke. Whoever knows why has published it or is about to.
  void lost(int peer, const std::exception& error) {
    if (failed_.wait_for(kReasonGrace)) return;
    std::string text = error.what();
    text = text.substr(0, text.find('\n'));
    fail(peer < 0 ? concat("rank ", rank_, ": [gloo] a collective failed: ", text)
                  : concat("rank ", peer, ": [gloo] its connection to rank ", rank_, " broke: ", text));
  }

  // Keeps what abandoned threads still use alive until the process ends.
  void leave_behind() {
    new c10::intrusive_ptr<c10d::ProcessGroupGloo>(group_);
    new std::vector<std::unique_ptr<Lane>>(std::move(lanes_));
  }

  struct Sent {
    c10::intrusive_ptr<c10d::Work> work;
    int peer = 0;
  };

  int rank_;
  int size_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Store> watch_store_;  // the watcher's own connection
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  Failed failed_;
  std::atomic<bool> closing_{false};
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::mutex sent_mutex_;
  std::condition_variable sent_changed_;
  std::deque<Sent> sent_;
  std::thread watcher_;
  std::thread reaper_;
};

}  // namespace

std::unique_ptr<Transport> connect_gloo(const Environment& environment, const GlooOptions& options) {
  return std::make_unique<GlooTransport>(environment, options);
}

}  // namespace bigmac
