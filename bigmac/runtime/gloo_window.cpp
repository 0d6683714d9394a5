#include "bigmac/runtime/gloo_window.h"

#include <algorithm>

#include "bigmac/runtime/gloo_group.h"
#include "bigmac/runtime/group_input.h"
#include "bigmac/runtime/transport.h"

namespace bigmac {
namespace {

constexpr int kTag = 0;

// A message is a header {what, window, step, turn, dtype, elements}, and its elements if there are any.
enum What : int64_t { kFetch, kShard, kPart, kClose };
constexpr int64_t kHeader = 6;

}  // namespace

WindowServer::WindowServer(GlooMesh& mesh)
    : mesh_(mesh), sends_(mesh.host.lost), lanes_(size_t(mesh.size())) {
  for (int member = 0; member < mesh.size(); ++member)
    if (member != mesh.index) lanes_[size_t(member)].thread = std::thread([this, member] { serve(member); });
}

WindowServer::~WindowServer() {
  stop();
}

void WindowServer::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& lane : lanes_)
      if (lane.work) lane.work->abort();
  }
  for (auto& lane : lanes_)
    if (lane.thread.joinable()) lane.thread.join();
  sends_.stop();
}

std::shared_ptr<OpenWindow> WindowServer::open(torch::Tensor shard) {
  auto window = std::make_shared<OpenWindow>();
  window->shard = std::move(shard);
  std::lock_guard lock(mutex_);
  window->number = opened_++;
  windows_[window->number] = window;
  return window;
}

void WindowServer::close(OpenWindow& window) {
  for (int member = 0; member < mesh_.size(); ++member)
    if (member != mesh_.index) send(member, {kClose, window.number});
  count_closed(window);
}

void WindowServer::count_closed(OpenWindow& window) {
  std::lock_guard lock(mutex_);
  if (++window.closed == mesh_.size()) windows_.erase(window.number);
}

void WindowServer::fetch(const OpenWindow& window, int member, torch::Tensor values,
                         std::shared_ptr<int> missing) {
  {
    std::lock_guard lock(mutex_);
    lanes_[size_t(member)].expected.push_back({std::move(values), std::move(missing)});
  }
  send(member, {kFetch, window.number});
}

void WindowServer::send_part(const OpenWindow& window, int member, int64_t step, int64_t turn,
                             const torch::Tensor& part) {
  send(member, {kPart, window.number, step, turn, int64_t(part.scalar_type()), part.numel()}, part);
}

void WindowServer::wait_until(const std::function<bool()>& holds) {
  std::unique_lock lock(mutex_);
  while (!holds()) {
    mesh_.host.failed.check();
    changed_.wait_for(lock, kPoll);
  }
}

bool WindowServer::is_idle() {
  std::lock_guard lock(mutex_);
  bool answered = std::all_of(lanes_.begin(), lanes_.end(), [](auto& lane) { return lane.expected.empty(); });
  return windows_.empty() && answered && sends_.is_empty();
}

std::shared_ptr<OpenWindow> WindowServer::find(int64_t number) {
  std::lock_guard lock(mutex_);
  return windows_.at(number);
}

void WindowServer::serve(int member) {
  auto header = torch::empty({kHeader}, torch::kInt64);
  try {
    while (receive(member, header)) take(member, header.data_ptr<int64_t>());
  } catch (const RankFailure&) {
    // Known to all.
  } catch (const InvalidInput& error) {
    mesh_.host.fail(concat("rank ", mesh_.rank(), ": ", error.what()));
  } catch (const std::exception& error) {
    {
      std::lock_guard lock(mutex_);
      if (windows_.empty() || stopping_) return;  // it had a right to leave
    }
    mesh_.host.lost({mesh_.ranks[size_t(member)]}, error);
  }
}

void WindowServer::take(int member, const int64_t* header) {
  if (header[0] == kShard) {
    Answer answer;
    {
      std::lock_guard lock(mutex_);
      answer = lanes_[size_t(member)].expected.front();
    }
    if (!receive(member, answer.values)) return;
    std::lock_guard lock(mutex_);
    lanes_[size_t(member)].expected.pop_front();
    --*answer.missing;
  } else if (auto window = find(header[1]); header[0] == kFetch) {
    torch::Tensor shard;
    {
      std::lock_guard lock(window->mutex);
      shard = window->shard;
    }
    send(member, {kShard, window->number}, shard);
  } else if (header[0] == kPart) {
    auto part = torch::empty({header[5]}, torch::ScalarType(header[4]));
    if (part.numel() > 0 && !receive(member, part)) return;
    std::lock_guard lock(window->mutex);
    window->sum.add(header[2], header[3], part);
  } else {
    count_closed(*window);
  }
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

// False when the server stops.
bool WindowServer::receive(int member, torch::Tensor values) {
  std::vector<at::Tensor> tensors{std::move(values)};
  GlooWork work;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
    work = mesh_.gloo->recv(tensors, member, kTag);
    lanes_[size_t(member)].work = work;
  }
  return work->wait(kForever);
}

void WindowServer::send(int member, std::vector<int64_t> header, const torch::Tensor& body) {
  header.resize(kHeader);
  int rank = mesh_.ranks[size_t(member)];
  std::vector<at::Tensor> head{torch::tensor(header)}, rest{body};
  try {
    std::lock_guard lock(sending_);
    sends_.push(mesh_.gloo->send(head, member, kTag), rank);
    if (body.defined() && body.numel() > 0) sends_.push(mesh_.gloo->send(rest, member, kTag), rank);
  } catch (const std::exception& error) {
    mesh_.host.lost({rank}, error);
    mesh_.host.failed.check();
    throw;
  }
}

namespace {

class GlooWindow : public Window {
 public:
  GlooWindow(std::shared_ptr<GlooMesh> mesh, const torch::Tensor& shard)
      : mesh_(std::move(mesh)),
        server_(mesh_->server()),
        shard_(shard),
        own_(server_.open(shard.to(torch::kCPU))) {}

  ~GlooWindow() override {
    if (mesh_->host.failed.is_set()) return;
    try {
      server_.close(*own_);
    } catch (const std::exception&) {
      // A rank has failed meanwhile; nobody is left to tell.
    }
  }

  std::unique_ptr<Pending> start_gather(torch::Tensor values) override {
    auto row = check_parts(values, shard_, mesh_->size()).values;
    auto host = row.device().is_cpu() ? row : torch::empty_like(row, torch::kCPU);
    auto missing = std::make_shared<int>(0);
    if (row.numel() == 0) return std::make_unique<Gather>(mesh_, host, row, missing);
    mesh_->host.failed.check();
    *missing = mesh_->size() - 1;
    for (int ahead = 1; ahead < mesh_->size(); ++ahead) {
      int member = (mesh_->index + ahead) % mesh_->size();
      server_.fetch(*own_, member, part_of(host, member), missing);
    }
    part_of(host, mesh_->index).copy_(own_->shard);
    return std::make_unique<Gather>(mesh_, host, row, missing);
  }

  void add(int64_t turn, torch::Tensor values) override {
    mesh_->host.failed.check();
    auto host = check_added(values, shard_, mesh_->size()).to(torch::kCPU);
    {
      std::lock_guard lock(own_->mutex);
      own_->sum.add(step_, turn, part_of(host, mesh_->index));
    }
    for (int ahead = 1; ahead < mesh_->size(); ++ahead) {
      int member = (mesh_->index + ahead) % mesh_->size();
      server_.send_part(*own_, member, step_, turn, part_of(host, member));
    }
  }

  torch::Tensor take_sum(int64_t turns) override {
    server_.wait_until([&] {
      std::lock_guard lock(own_->mutex);
      return own_->sum.has(turns);
    });
    ++step_;
    std::lock_guard lock(own_->mutex);
    auto sum = own_->sum.take(turns);
    return sum.defined() ? sum.to(shard_.device()) : sum;
  }

  void set_shard(const torch::Tensor& shard) override {
    shard_ = check_shard(shard, shard_);
    std::lock_guard lock(own_->mutex);
    own_->shard = shard_.to(torch::kCPU);
  }

 private:
  class Gather : public Pending {
   public:
    Gather(std::shared_ptr<GlooMesh> mesh, torch::Tensor host, torch::Tensor values,
           std::shared_ptr<int> missing)
        : mesh_(std::move(mesh)),
          host_(std::move(host)),
          values_(std::move(values)),
          missing_(std::move(missing)) {}
    void wait() override {
      mesh_->server().wait_until([&] { return *missing_ == 0; });
      if (!host_.is_same(values_)) values_.copy_(host_);
    }

   private:
    std::shared_ptr<GlooMesh> mesh_;
    torch::Tensor host_, values_;
    std::shared_ptr<int> missing_;
  };

  torch::Tensor part_of(const torch::Tensor& values, int member) const {
    return values.narrow(0, member * shard_.numel(), shard_.numel());
  }

  std::shared_ptr<GlooMesh> mesh_;
  WindowServer& server_;
  torch::Tensor shard_;  // as handed in; the window's is on the CPU
  std::shared_ptr<OpenWindow> own_;
  int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Window> make_gloo_window(std::shared_ptr<GlooMesh> mesh, const torch::Tensor& shard) {
  return std::make_unique<GlooWindow>(std::move(mesh), shard);
}

}  // namespace bigmac
