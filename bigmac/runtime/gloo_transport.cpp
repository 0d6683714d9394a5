#include "bigmac/runtime/gloo_transport.h"

#include <ATen/ThreadLocalState.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <exception>
#include <map>
#include <numeric>

#include "bigmac/runtime/gloo_connect.h"
#include "bigmac/runtime/gloo_group.h"
#include "bigmac/runtime/gloo_parts.h"
#include "bigmac/runtime/group_input.h"
#include "bigmac/runtime/recorder.h"
#include "bigmac/runtime/store.h"
#include "bigmac/runtime/threads_group.h"

namespace bigmac {
namespace {

using namespace std::chrono_literals;

// How long a rank that loses a connection waits for the reason to be published by who knows it better.
constexpr auto kReasonGrace = 2s;
// How long rank 0 keeps its store up after a failure.
constexpr auto kReadReason = 1s;
// Seconds that a pending collective gets to notice a failure.
constexpr double kCollectiveGrace = 2;
// How often a rank that waits for others to make a group looks whether they are there.
constexpr auto kProbe = 1s;
// Seconds between two looks, while ranks connect, for one that could not.
constexpr double kLook = 0.2;

constexpr int kMessageTag = 0, kProbeTag = 1;

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
      : environment_(environment),
        options_(options),
        rank_(environment.rank),
        size_(environment.size),
        hosted_(environment.hosted),
        all_(size_t(environment.size)),
        lanes_(size_t(environment.size)) {
    std::iota(all_.begin(), all_.end(), 0);
    bool serves = rank_ == 0 && !hosted_;
    auto connection = connect_store(environment.address, environment.port, serves, options.connect_timeout);
    store_ = connection.store;
    environment_.port = connection.port;
    watch_store_ = another_store();
    try {
      meet(*store_, "bigmac/here/", all_, rank_, options.connect_timeout, [&] {
        if (auto reason = published_failure(*store_)) throw RankFailure(*reason);
      });
    } catch (const Failure&) {
      throw;
    } catch (const std::exception& error) {
      throw Failure(concat(store_lost(), " (", first_line(error), ")"));
    }
    group_ = connect_to_all();
    for (auto& lane : lanes_) lane = std::make_unique<Lane>();
    watcher_ = std::thread([this] { watch(); });
  }

  // Waits until what was sent has been taken and all have closed their windows, unless a rank has failed or
  // this one is about to.
  ~GlooTransport() override {
    if (!failed_.is_set() && std::uncaught_exceptions() == 0) {
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
    for (auto& mesh : meshes_) mesh->stop();
    sends_.stop();
    watcher_.join();
    for (auto& lane : lanes_)
      if (lane->thread.joinable()) lane->thread.join();
    // The store with the reason goes with rank 0, so the others get time to read it.
    if (failed_.is_set() && rank_ == 0 && !hosted_) std::this_thread::sleep_for(kReadReason);
    // A collective ends with an error once the other ranks close their ends. One that does not is left
    // behind.
    auto reduced = [&] { return !reducing_ || reducing_->isCompleted(); };
    auto all_done = [&] {
      return reduced() &&
             std::all_of(meshes_.begin(), meshes_.end(), [](auto& mesh) { return mesh->is_done(); });
    };
    for (double start = now(); !all_done() && now() - start < kCollectiveGrace;)
      std::this_thread::sleep_for(1ms);
    if (!reduced()) static_cast<void>(group_.release());
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
        sends_.push(group_->send(tensors, peer, kMessageTag), peer);
      }
    } catch (const std::exception& error) {
      lost({peer}, error);
      failed_.check();
    }
  }

  void post_receives(int peer, int64_t count) override {
    auto& lane = *lanes_.at(peer);
    {
      std::lock_guard lock(lane.mutex);
      lane.posted += count;
    }
    if (!lane.thread.joinable())
      lane.thread = std::thread([this, peer, state = at::ThreadLocalState()] {
        at::ThreadLocalStateGuard as_here(state);  // what it allocates is seen by whoever watches this thread
        receive_all(peer);
      });
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
    } catch (const std::exception& error) {
      lost(all_, error);
      failed_.check();
    }
    finish(reducing_, failed_, as_lost(), all_);
    if (!host.is_same(values)) values.copy_(host);
  }

  std::unique_ptr<Group> make_group(std::vector<int> ranks) override {
    failed_.check();
    int index = check_members(ranks, rank_, size_);
    if (ranks.size() == 1) return make_lone_group(rank_);
    std::erase_if(meshes_,
                  [](auto& mesh) { return mesh.use_count() == 1 && mesh->is_idle() && mesh->is_done(); });
    meshes_.push_back(connect_members(std::move(ranks), index));
    return make_gloo_group(meshes_.back());
  }

  void fail(const std::string& reason) override {
    try {
      failed_.set(publish_failure(*store_, reason));
    } catch (const std::exception&) {
      // The store is gone with its host; the others see that for themselves.
      failed_.set(reason);
    }
  }
  void check() override { failed_.check(); }

 private:
  // What goes wrong here on one rank is told to the others, which would wait for it.
  c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_to_all() {
    double start = now(), next_look = start;
    auto look = [&] {
      if (now() < next_look) return;
      next_look += kLook;
      if (auto reason = published_failure(*watch_store_)) throw RankFailure(*reason);
      double seconds = std::chrono::duration<double>(options_.connect_timeout).count();
      if (now() - start > seconds) throw Failure(concat("not within ", seconds, " s"));
    };
    std::string text;
    try {
      return connect_all(c10::make_intrusive<c10d::PrefixStore>("gloo", store_), environment_.address, rank_,
                         size_, options_.collective_timeout, look);
    } catch (const RankFailure&) {
      throw;
    } catch (const InvalidInput& error) {
      tell(error.what());
      throw;
    } catch (const std::exception& error) {
      text = concat("[gloo] cannot connect to the other ranks (", first_line(error), "); it listens on ",
                    listens_on(environment_.address), ", GLOO_SOCKET_IFNAME names another interface");
    }
    tell(text);
    throw Failure(concat("rank ", rank_, ": ", text));
  }
  void tell(const std::string& text) {
    try {
      publish_failure(*watch_store_, concat("rank ", rank_, ": ", text));
    } catch (const std::exception&) {
      // The store is gone with its host; the others see that for themselves.
    }
  }

  c10::intrusive_ptr<c10d::Store> another_store() {
    return connect_store(environment_.address, environment_.port, false, options_.connect_timeout).store;
  }

  std::shared_ptr<GlooMesh> connect_members(std::vector<int> ranks, int index) {
    std::string name = "bigmac/group/";
    for (int rank : ranks) name += concat(rank, ",");
    name += concat(groups_made_[ranks]++, "/");
    auto next_probe = std::chrono::steady_clock::now() + kProbe;
    auto look = [&] {
      failed_.check();
      if (std::chrono::steady_clock::now() < next_probe) return;
      next_probe += kProbe;
      if (int gone = find_gone(ranks); gone >= 0) lost({gone}, Failure("it is closed"));
      failed_.check();
    };
    try {
      if (!group_store_) group_store_ = another_store();
      meet(*group_store_, name, ranks, rank_, options_.collective_timeout, look);
    } catch (const Failure&) {
      throw;
    } catch (const std::exception&) {
      if (!failed_.wait_for(kReasonGrace)) fail(store_lost());
      failed_.check();
    }
    try {
      auto gloo =
          connect_all(c10::make_intrusive<c10d::PrefixStore>(name, group_store_), environment_.address, index,
                      int(ranks.size()), options_.collective_timeout, look);
      return std::make_shared<GlooMesh>(std::move(gloo), ranks, index,
                                        GlooHost{failed_, as_lost(), [this](auto& reason) { fail(reason); }});
    } catch (const RankFailure&) {
      throw;
    } catch (const std::exception& error) {
      lost(ranks, error);
      failed_.check();
      throw;
    }
  }

  // Rank 0 ends last where the store is its own.
  void take_leave() {
    for (auto& mesh : meshes_)
      while (!mesh->is_idle()) {
        failed_.check();
        std::this_thread::sleep_for(1ms);
      }
    if (hosted_) {
    } else if (rank_ != 0) {
      send(0, {});
    } else {
      for (int peer = 1; peer < size_; ++peer) post_receives(peer, 1);
      for (int peer = 1; peer < size_; ++peer) receive(peer);
    }
    for (double start = now(); !sends_.is_empty() && !failed_.is_set();) {
      if (now() - start > std::chrono::duration<double>(options_.collective_timeout).count()) return;
      sends_.wait_for(kPoll);
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
        lost({peer}, error);
        return;
      }
      lane.changed.notify_all();
    }
  }

  std::string store_lost() const {
    return hosted_ ? "[gloo] the launcher has ended or is out of reach, and with it the group's store"
                   : "rank 0: [gloo] has ended or is out of reach, and with it the group's store";
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

  // The connection to one of these ranks broke. Whoever knows why has published it or is about to.
  void lost(const std::vector<int>& ranks, const std::exception& error) {
    if (closing_ || failed_.wait_for(kReasonGrace)) return;
    int peer = ranks.size() == 1 ? ranks[0] : find_gone(ranks);
    // A rank that gave up first may have closed its end before this one has seen the dead rank's close.
    for (double start = now(); peer < 0 && now() - start < kCollectiveGrace; peer = find_gone(ranks))
      if (failed_.wait_for(kPoll)) return;
    auto text = first_line(error);
    fail(peer < 0 ? concat("rank ", rank_, ": [gloo] a collective failed: ", text)
                  : concat("rank ", peer, ": [gloo] its connection to rank ", rank_, " broke: ", text));
  }
  Lost as_lost() {
    return [this](const std::vector<int>& ranks, const std::exception& error) { lost(ranks, error); };
  }

  // The first of the ranks whose connection is closed, or -1: Gloo refuses to post a receive on it.
  int find_gone(const std::vector<int>& ranks) {
    for (int peer : ranks) {
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

  Environment environment_;
  GlooOptions options_;
  int rank_;
  int size_;
  bool hosted_;
  std::vector<int> all_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Store> watch_store_;  // the watcher's own connection
  c10::intrusive_ptr<c10d::Store> group_store_;  // for groups, once there are any
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  c10::intrusive_ptr<c10d::Work> reducing_;  // the last collective
  Failed failed_;
  std::atomic<bool> closing_{false};
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::shared_ptr<GlooMesh>> meshes_;
  std::map<std::vector<int>, int> groups_made_;  // by their ranks
  std::thread watcher_;
  Sends sends_{as_lost()};
};

}  // namespace

std::unique_ptr<Transport> connect_gloo(const Environment& environment, const GlooOptions& options) {
  return std::make_unique<GlooTransport>(environment, options);
}

}  // namespace bigmac
