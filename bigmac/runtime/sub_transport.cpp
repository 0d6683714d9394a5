#include "bigmac/runtime/sub_transport.h"

#include "bigmac/runtime/group_input.h"

namespace bigmac {
namespace {

class SubTransport : public Transport {
 public:
  SubTransport(Transport& whole, std::vector<int> ranks)
      : whole_(whole), group_(whole.make_group(std::move(ranks))) {}

  int rank() const override { return group_->index(); }
  int size() const override { return group_->size(); }
  bool shares_process() const override { return whole_.shares_process(); }

  void send(int peer, Message message) override { whole_.send(in_whole(peer), std::move(message)); }
  void post_receives(int peer, int64_t count) override { whole_.post_receives(in_whole(peer), count); }
  Message receive(int peer) override { return whole_.receive(in_whole(peer)); }
  bool has_message(int peer) override { return whole_.has_message(in_whole(peer)); }

  void all_reduce(torch::Tensor& values) override { group_->start_all_reduce(values)->wait(); }

  std::unique_ptr<Group> make_group(std::vector<int> ranks) override {
    check_members(ranks, rank(), size());
    return std::make_unique<SubGroup>(ranks, whole_.make_group(in_whole(ranks)));
  }

  void fail(const std::string& reason) override { whole_.fail(reason); }
  void check() override { whole_.check(); }

 private:
  // A group of the whole under the ranks of the part.
  class SubGroup : public Group {
   public:
    SubGroup(std::vector<int> ranks, std::unique_ptr<Group> inner)
        : ranks_(std::move(ranks)), inner_(std::move(inner)) {}
    const std::vector<int>& ranks() const override { return ranks_; }
    int index() const override { return inner_->index(); }
    std::unique_ptr<Pending> start_all_reduce(torch::Tensor values) override {
      return inner_->start_all_reduce(std::move(values));
    }
    std::unique_ptr<Pending> start_reduce_scatter(torch::Tensor values, torch::Tensor shard) override {
      return inner_->start_reduce_scatter(std::move(values), std::move(shard));
    }
    std::unique_ptr<Pending> start_all_gather(torch::Tensor shard, torch::Tensor values) override {
      return inner_->start_all_gather(std::move(shard), std::move(values));
    }
    std::unique_ptr<Window> make_window(torch::Tensor shard) override {
      return inner_->make_window(std::move(shard));
    }

   private:
    std::vector<int> ranks_;
    std::unique_ptr<Group> inner_;
  };

  int in_whole(int rank) const { return group_->ranks().at(size_t(rank)); }
  std::vector<int> in_whole(std::vector<int> ranks) const {
    for (int& rank : ranks) rank = in_whole(rank);
    return ranks;
  }

  Transport& whole_;
  std::unique_ptr<Group> group_;
};

}  // namespace

std::unique_ptr<Transport> make_sub_transport(Transport& whole, std::vector<int> ranks) {
  return std::make_unique<SubTransport>(whole, std::move(ranks));
}

}  // namespace bigmac
