#include "bigmac/train/reducer.h"

#include "tests/train/small_system.h"

namespace bigmac::train {
namespace {

// What happens on a rank, in order.
using Log = std::vector<std::string>;
thread_local Log rank_log;  // of the rank whose thread it is

// Writes down every sum over a group of two of more than a few elements.
class LoggedGroup : public Group {
 public:
  LoggedGroup(std::unique_ptr<Group> inner, Log& log) : inner_(std::move(inner)), log_(log) {}
  const std::vector<int>& ranks() const override { return inner_->ranks(); }
  int index() const override { return inner_->index(); }
  std::unique_ptr<Pending> start_all_reduce(torch::Tensor values) override {
    if (values.numel() > 16) log_.push_back(concat("sum of ", values.numel()));
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
  std::unique_ptr<Group> inner_;
  Log& log_;
};

class LoggedTransport : public Transport {
 public:
  LoggedTransport(Transport& inner, Log& log) : inner_(inner), log_(log) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void send(int peer, Message message) override { inner_.send(peer, std::move(message)); }
  void post_receives(int peer, int64_t count) override { inner_.post_receives(peer, count); }
  Message receive(int peer) override { return inner_.receive(peer); }
  bool has_message(int peer) override { return inner_.has_message(peer); }
  void all_reduce(torch::Tensor& values) override { inner_.all_reduce(values); }
  std::unique_ptr<Group> make_group(std::vector<int> ranks) override {
    return std::make_unique<LoggedGroup>(inner_.make_group(std::move(ranks)), log_);
  }
  void fail(const std::string& reason) override { inner_.fail(reason); }
  void check() override { inner_.check(); }

 private:
  Transport& inner_;
  Log& log_;
};

// The last chunk's gradients are summed over the replicas while the first one's are still being made.
TEST(Reducer, StartsAChunksSumBehindItsLastBackwardAndBeforeTheOthers) {
  auto system = small_system({.layers = 5, .vision = false, .on_first = [](torch::Tensor& hidden) {
                                hidden = hidden.view_as(hidden);
                                hidden.register_hook([](const torch::Tensor& gradient) {
                                  rank_log.push_back("backward of layer 0");
                                  return gradient;
                                });
                              }});
  auto samples = small_samples(std::vector<SampleShape>(8), false);
  std::mutex mutex;
  int checked = 0;
  run_threads(2, [&](Transport& world) {
    LoggedTransport logged(world, rank_log);
    Trainer trainer(system, always(samples), layout(1, 2, 2, 4), logged);
    rank_log.clear();
    trainer.compute_gradients(0);
    int64_t first = 0, second = 0;
    for (const auto& parameter : trainer.model().parameters_of_chunk(0)) first += parameter.leaves[0].numel();
    for (const auto& parameter : trainer.model().parameters_of_chunk(1))
      second += parameter.leaves[0].numel();
    std::lock_guard lock(mutex);
    const auto& log = rank_log;
    auto at = [&](const std::string& what) { return std::find(log.begin(), log.end(), what) - log.begin(); };
    auto backwards = std::count(log.begin(), log.end(), "backward of layer 0");
    auto last = log.rend() - std::find(log.rbegin(), log.rend(), "backward of layer 0") - 1;
    ASSERT_NE(first, second);
    EXPECT_EQ(backwards, 4);
    EXPECT_LT(at(concat("sum of ", second)), last);
    EXPECT_GT(at(concat("sum of ", first)), last);
    EXPECT_LT(at(concat("sum of ", first)), int64_t(log.size()));
    ++checked;
  });
  EXPECT_EQ(checked, 2);
}

}  // namespace
}  // namespace bigmac::train
