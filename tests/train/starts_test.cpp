// Starts whose ranks come at different times.
//   BIGMAC_STARTS=200 build/release/bin/test_train --gtest_filter='Starts.*'

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

#include "bigmac/runtime/gloo_transport.h"
#include "bigmac/runtime/threads_transport.h"
#include "bigmac/train/trainer.h"
#include "tests/runtime/processes.h"
#include "tests/support/by_hand.h"
#include "tests/support/roles.h"
#include "tests/train/systems.h"
#include "tests/train/training_role.h"

namespace bigmac::train {
namespace {

using namespace std::chrono_literals;

constexpr const char* kKind = "captioning";
constexpr int kMostMilliseconds = 50;
constexpr int kLateCalls = 12;  // of a rank, that may come late

void sleep_a_while(std::mt19937& random) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % (kMostMilliseconds * 1000)));
}

// Sleeps before the first call, and before some of those that follow.
class Late : public Transport {
 public:
  Late(Transport& inner, unsigned seed) : inner_(inner), random_(seed) { sleep_a_while(random_); }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void send(int peer, Message message) override {
    come_late();
    inner_.send(peer, std::move(message));
  }
  void post_receives(int peer, int64_t count) override {
    come_late();
    inner_.post_receives(peer, count);
  }
  Message receive(int peer) override {
    come_late();
    return inner_.receive(peer);
  }
  bool has_message(int peer) override { return inner_.has_message(peer); }
  void all_reduce(torch::Tensor& values) override {
    come_late();
    inner_.all_reduce(values);
  }
  std::unique_ptr<Group> make_group(std::vector<int> ranks) override {
    come_late();
    return inner_.make_group(std::move(ranks));
  }
  void fail(const std::string& reason) override { inner_.fail(reason); }
  void check() override { inner_.check(); }

 private:
  void come_late() {
    if (random_() % 4 == 0 && late_ < kLateCalls) {
      ++late_;
      sleep_a_while(random_);
    }
  }

  Transport& inner_;
  std::mt19937 random_;
  int late_ = 0;
};

// One step, in a layout that changes from start to start.
double train_one_step(Transport& world, int64_t start) {
  at::set_num_threads(1);
  Late late(world, unsigned(start * world.size() + world.rank()));
  TrainOptions options;
  options.pp = start % 3 == 2 ? 2 : 4;
  options.dp = world.size() / options.pp;
  options.vpp = start % 3 == 1 ? 2 : 1;
  options.microbatches = 3;
  options.dtype = "float64";
  if (start % 2 == 1) {
    options.shard["vision"] = Sharding::full;
    options.gather = Gather::one_sided;
  }
  auto system = make_system(kKind);
  Trainer trainer(
      system, [](int64_t step) { return make_samples(kKind, {}, step); }, options, late);
  return trainer.train_step(0).loss;
}

int64_t starts() {
  return count_from("BIGMAC_STARTS", 10);
}

TEST(Starts, WithThreadsAtDifferentTimesNeverHangAndComeToTheSameLoss) {
  std::map<int64_t, std::set<double>> losses;  // by layout
  double longest = 0;
  for (int64_t start = 0; start < starts(); ++start) {
    auto began = std::chrono::steady_clock::now();
    auto run = std::async(std::launch::async, [&] {
      double loss = 0;
      run_threads(kRanks, [&](Transport& world) {
        auto own = train_one_step(world, start);
        if (world.rank() == 0) loss = own;
      });
      return loss;
    });
    if (run.wait_for(60s) != std::future_status::ready) {
      std::cerr << "start " << start << " hangs" << std::endl;
      std::abort();
    }
    losses[start % 6].insert(run.get());
    longest =
        std::max(longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  for (const auto& [layout, values] : losses) EXPECT_EQ(values.size(), 1) << "layout " << layout;
  std::cout << starts() << " starts, the longest took " << longest << " s\n";
}

// Connects again and again, as the first thing and as the last, at ports that the test has looked out.
const bool added = roles::add_program("starting", [](const std::string& folder) {
  int rank = std::atoi(std::getenv("RANK"));
  std::mt19937 random(unsigned(rank) + 1);
  std::istringstream ports(read_text(folder + "/ports"));
  std::string losses;
  int64_t start = 0;
  for (int port = 0; ports >> port; ++start) {
    sleep_a_while(random);
    Environment environment{
        .rank = rank, .size = kRanks, .address = "127.0.0.1", .port = port, .launcher = "torchrun"};
    auto transport = connect_gloo(environment);
    losses += concat(start, " ", std::bit_cast<uint64_t>(train_one_step(*transport, start)), "\n");
    write_text(concat(folder, "/losses", rank), losses);
  }
});

TEST(Starts, WithProcessesThatConnectAtDifferentTimesNeverHangAndComeToTheSameLoss) {
  BIGMAC_NEEDS_PROCESSES();
  TemporaryFolder folder;
  std::set<int> ports;
  while (int64_t(ports.size()) < starts()) ports.insert(roles::free_port());
  std::string text;
  for (int port : ports) text += concat(port, "\n");
  write_text(folder.path() + "/ports", text);
  roles::ByHand ranks("starting", folder.path(), kRanks);
  for (int status : ranks.wait(60, 60 + 5.0 * double(starts()))) EXPECT_EQ(status, 0);
  std::map<int64_t, std::set<std::string>> losses;  // by layout
  for (int rank = 0; rank < kRanks; ++rank) {
    std::istringstream in(read_text(concat(folder.path(), "/losses", rank)));
    int64_t start = 0, count = 0;
    for (std::string bits; in >> start >> bits; ++count) losses[start % 6].insert(bits);
    EXPECT_EQ(count, starts()) << "on rank " << rank;
  }
  for (const auto& [layout, values] : losses) EXPECT_EQ(values.size(), 1) << "layout " << layout;
}

}  // namespace
}  // namespace bigmac::train
