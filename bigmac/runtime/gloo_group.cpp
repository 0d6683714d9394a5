#include "bigmac/runtime/gloo_group.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/runtime/group_input.h"
#include "bigmac/runtime/turn_sum.h"

namespace bigmac {

GlooMesh::~GlooMesh() {
  stop();
  if (!is_done()) static_cast<void>(gloo.release());
}

GlooWork GlooMesh::keep(GlooWork work) {
  while (!works_.empty() && works_.front()->isCompleted()) works_.pop_front();
  works_.push_back(work);
  return work;
}

WindowServer& GlooMesh::server() {
  if (!server_) server_ = std::make_unique<WindowServer>(*this);
  return *server_;
}

bool GlooMesh::is_idle() {
  return !server_ || server_->is_idle();
}

bool GlooMesh::is_done() {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isCompleted(); });
}

void GlooMesh::stop() {
  if (server_) server_->stop();
}

namespace {

torch::Tensor bytes_of(const torch::Tensor& row) {
  return row.view(torch::kUInt8);
}

class GlooPending : public Pending {
 public:
  GlooPending(std::shared_ptr<GlooMesh> mesh, GlooWork work, std::function<void()> then)
      : mesh_(std::move(mesh)), work_(std::move(work)), then_(std::move(then)) {}
  void wait() override {
    if (!work_) return;
    finish(work_, mesh_->host.failed, mesh_->host.lost, mesh_->ranks);
    work_.reset();
    then_();
  }

 private:
  std::shared_ptr<GlooMesh> mesh_;
  GlooWork work_;
  std::function<void()> then_;  // what is left to do on this rank's thread
};

class GlooGroup : public Group {
 public:
  explicit GlooGroup(std::shared_ptr<GlooMesh> mesh) : mesh_(std::move(mesh)) {}

  const std::vector<int>& ranks() const override { return mesh_->ranks; }
  int index() const override { return mesh_->index; }

  std::unique_ptr<Pending> start_all_reduce(torch::Tensor values) override {
    auto row = check_sum(values);
    auto host = row.to(torch::kCPU, sum_type(row.scalar_type()));
    return start(
        row.numel(),
        [&] {
          std::vector<at::Tensor> tensors{host};
          return mesh_->gloo->allreduce(tensors);
        },
        [row, host] {
          if (!host.is_same(row)) row.copy_(host);
        });
  }

  // Gloo has no reduce_scatter of its own; c10d's, where there is one, sends everything to everyone.
  std::unique_ptr<Pending> start_reduce_scatter(torch::Tensor values, torch::Tensor shard) override {
    auto rows = check_parts(check_sum(values), shard, size());
    auto host = rows.values.to(torch::kCPU), parts = torch::empty_like(host);
    return start(
        host.numel(),
        [&] {
          auto from = bytes_of(host), to = bytes_of(parts);
          std::vector<int64_t> equal;
          return mesh_->gloo->alltoall_base(to, from, equal, equal);
        },
        [rows, parts, members = size()] {
          int64_t count = rows.shard.numel();
          auto sum = parts.narrow(0, 0, count).to(sum_type(parts.scalar_type()));
          for (int member = 1; member < members; ++member) sum.add_(parts.narrow(0, member * count, count));
          rows.shard.copy_(sum);
        });
  }

  std::unique_ptr<Pending> start_all_gather(torch::Tensor shard, torch::Tensor values) override {
    auto rows = check_parts(values, shard, size());
    bool on_host = rows.values.device().is_cpu();
    auto host = on_host ? rows.values : torch::empty_like(rows.values, torch::kCPU);
    return start(
        host.numel(),
        [&] {
          std::vector<at::Tensor> from{bytes_of(rows.shard.to(torch::kCPU))};
          std::vector<std::vector<at::Tensor>> to{bytes_of(host).chunk(size())};
          return mesh_->gloo->allgather(to, from);
        },
        [rows, host, on_host] {
          if (!on_host) rows.values.copy_(host);
        });
  }

  std::unique_ptr<Window> make_window(torch::Tensor shard) override {
    auto row = check_shard(shard);
    auto own = torch::tensor({row.numel(), int64_t(row.scalar_type())}), all = own.repeat({size()});
    auto window = make_gloo_window(mesh_, row);
    start_all_gather(own, all)->wait();  // nobody asks before all have opened theirs
    for (int member = 0; member < size(); ++member) {
      auto other = all.narrow(0, int64_t(2) * member, 2);
      if (torch::equal(other, own)) continue;
      throw InvalidInput(concat("[group] shards of a window must be alike; rank ", mesh_->rank(), " has ",
                                row.numel(), " elements of ", row.scalar_type(), ", rank ",
                                ranks()[size_t(member)], " ", other[0].item<int64_t>(), " of ",
                                torch::ScalarType(other[1].item<int64_t>())));
    }
    return window;
  }

 private:
  template <class Start>
  std::unique_ptr<Pending> start(int64_t elements, const Start& start_work, std::function<void()> then) {
    mesh_->host.failed.check();
    GlooWork work;
    if (elements > 0) try {
        work = mesh_->keep(start_work());
      } catch (const std::exception& error) {
        mesh_->host.lost(mesh_->ranks, error);
        mesh_->host.failed.check();
        throw;
      }
    return std::make_unique<GlooPending>(mesh_, std::move(work), std::move(then));
  }

  std::shared_ptr<GlooMesh> mesh_;
};

}  // namespace

std::unique_ptr<Group> make_gloo_group(std::shared_ptr<GlooMesh> mesh) {
  return std::make_unique<GlooGroup>(std::move(mesh));
}

}  // namespace bigmac
