#include <algorithm>
#include <random>
#include <thread>

#include "bigmac/runtime/group.h"
#include "bigmac/runtime/recorder.h"
#include "tests/runtime/group_values.h"

namespace bigmac {
namespace {

using namespace std::chrono_literals;

void gather_from_windows(Transport& transport) {
  for (const auto& ranks : subsets_with(transport)) {
    auto group = transport.make_group(ranks);
    std::vector<std::unique_ptr<Window>> windows;
    auto shard_of = [](int rank, torch::ScalarType dtype, int version) {
      return whole_numbers(501, dtype, uint64_t(10 * rank + version));
    };
    for (auto dtype : kGathered) windows.push_back(group->make_window(shard_of(transport.rank(), dtype, 0)));
    auto nothing = group->make_window(torch::empty({0}));
    nothing->start_gather(torch::empty({0}))->wait();
    for (int version : {0, 1, 2}) {
      std::vector<torch::Tensor> values;
      std::vector<std::unique_ptr<Pending>> pending;
      for (size_t i = 0; i < windows.size(); ++i) {
        values.push_back(torch::zeros({group->size() * 501}, kGathered[i]));
        pending.push_back(windows[i]->start_gather(values.back()));
      }
      for (size_t i = windows.size(); i-- > 0;) {
        pending[i]->wait();
        for (int member = 0; member < group->size(); ++member)
          require(torch::equal(values[i].narrow(0, member * 501, 501),
                               shard_of(ranks[size_t(member)], kGathered[i], version)),
                  concat("shard ", version, " of ", kGathered[i], " of member ", member));
      }
      auto token = torch::zeros({1});
      group->start_all_reduce(token)->wait();
      for (size_t i = 0; i < windows.size(); ++i)
        windows[i]->set_shard(shard_of(transport.rank(), kGathered[i], version + 1));
      group->start_all_reduce(token)->wait();
    }
  }
}

// Rank 0's thread is busy until it hears that the others have gathered.
void gather_from_a_busy_rank(Transport& transport) {
  auto group = transport.make_group(all_of(transport));
  auto window = group->make_window(torch::full({1000}, double(transport.rank())));
  if (transport.rank() == 0) {
    for (int peer = 1; peer < transport.size(); ++peer) transport.post_receives(peer, 1);
    for (int peer = 1; peer < transport.size(); ++peer)
      for (double start = now(); !transport.has_message(peer);) {
        require(now() - start < 30, "the others to gather while rank 0 is busy");
        std::this_thread::sleep_for(1ms);
      }
    for (int peer = 1; peer < transport.size(); ++peer) transport.receive(peer);
    std::this_thread::sleep_for(300ms);
  } else {
    auto values = torch::empty({transport.size() * 1000});
    for (int repeat = 0; repeat < 10; ++repeat) {
      window->start_gather(values.zero_())->wait();
      require(torch::equal(values, torch::arange(transport.size()).repeat_interleave(1000)), "all shards");
    }
    window->add(transport.rank() - 1, values);
    transport.send(0, message_of(std::string("gathered")));
  }
  auto sum = window->take_sum(transport.size() - 1);
  require(torch::equal(sum, torch::full({1000}, double(transport.rank() * (transport.size() - 1)))),
          "the sum");
}

// Turns are taken in any order and at any time; members may be a step apart.
void turns(Transport& transport) {
  constexpr int kTurns = 13, kCount = 300;
  std::mt19937 random{uint32_t(transport.rank()) + 1};
  for (auto dtype : kFloats) {
    auto group = transport.make_group(all_of(transport));
    auto window = group->make_window(torch::zeros({kCount}, torch::kFloat32));
    auto values_of = [&](int turn) { return normal(group->size() * kCount, dtype, uint64_t(turn) + 7); };
    auto expected = values_of(0).to(dtype == torch::kBFloat16 ? torch::kFloat32 : dtype);
    for (int turn = 1; turn < kTurns; ++turn) expected += values_of(turn);
    expected = expected.narrow(0, group->index() * kCount, kCount).to(dtype);
    std::vector<int> own;
    for (int turn = 0; turn < kTurns; ++turn)
      if (turn % transport.size() == transport.rank()) own.push_back(turn);
    for (int step = 0; step < 20; ++step) {
      std::shuffle(own.begin(), own.end(), random);
      for (int turn : own) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
        window->add(turn, values_of(turn));
      }
      require(has_same_bits(window->take_sum(kTurns), expected), "the sum in the order of turns");
      if (step % 5 == 2) require(!window->take_sum(0).defined(), "no sum of no turns");
    }
  }
}

// What the first to leave has laid open and added is there for the others.
void close_early(Transport& transport) {
  auto group = transport.make_group(all_of(transport));
  auto window = group->make_window(torch::full({100'000}, double(transport.rank())));
  window->add(transport.rank(), torch::full({transport.size() * 100'000}, double(transport.rank() + 1)));
  if (transport.rank() == 0) return;
  std::this_thread::sleep_for(200ms * transport.rank());
  auto values = torch::empty({transport.size() * 100'000});
  window->start_gather(values)->wait();
  require(torch::equal(values, torch::arange(transport.size()).repeat_interleave(100'000)), "all shards");
  int64_t sum = transport.size() * (transport.size() + 1) / 2;
  require(torch::equal(window->take_sum(transport.size()), torch::full({100'000}, double(sum))), "the sum");
}

void refuse(Transport& transport) {
  auto group = transport.make_group({0, 1});
  auto two = torch::zeros({2}), three = torch::zeros({3}), matrix = torch::zeros({2, 2});
  auto window = group->make_window(two);
  require_refusal([&] { window->start_gather(three); },
                  "[group] values must be 2 shards of 2 elements, got 3");
  require_refusal([&] { window->add(0, three); },
                  "[group] values must be parts of 2 elements for 2 members, got 3");
  require_refusal(
      [&] { window->set_shard(three); },
      "[group] a window of 2 elements of Float on cpu cannot hold a shard of 3 elements of Float on cpu");
  require_refusal(
      [&] { window->add(-1, matrix); },
      "[window] turns of a step are each added once, from 0 and before its take_sum: turn -1 of step 0 "
      "is neg");
  if (transport.rank() == 0) window->add(0, matrix);
  transport.barrier();
  require(window->take_sum(1).defined(), "a sum after what was refused");
  transport.barrier();
}

void unlike_windows(Transport& transport) {
  auto group = transport.make_group(all_of(transport));
  group->make_window(torch::zeros({transport.rank() == 1 ? 3 : 2}));
}
void turn_twice(Transport& transport) {
  auto window = transport.make_group(all_of(transport))->make_window(torch::zeros({2}));
  window->add(0, torch::zeros({transport.size() * 2}));
  window->take_sum(transport.size());
}
void too_many_turns(Transport& transport) {
  auto window = transport.make_group(all_of(transport))->make_window(torch::zeros({2}));
  window->add(transport.rank(), torch::zeros({transport.size() * 2}));
  window->take_sum(1);
  transport.barrier();
}

const Bodies kBodies{{"gather_from_windows", gather_from_windows},
                     {"gather_from_a_busy_rank", gather_from_a_busy_rank},
                     {"turns", turns},
                     {"close_early", close_early},
                     {"refuse", refuse},
                     {"unlike_windows", unlike_windows},
                     {"turn_twice", turn_twice},
                     {"too_many_turns", too_many_turns}};
const bool added = add_bodies("window.", kBodies);

class Windows : public OverBoth {
 protected:
  void run(const std::string& body, int ranks) { run_body(GetParam(), "window.", kBodies, body, ranks); }
  std::string failure_of(const std::string& body, int ranks) {
    try {
      run(body, ranks);
    } catch (const RankFailure& failure) {
      return failure.what();
    }
    return "none";
  }
};

TEST_P(Windows, GiveTheShardsAndWhatReplacesThemInEveryDtype) {
  for (int ranks : sizes({2, 3, 4})) run("gather_from_windows", ranks);
}

TEST_P(Windows, AnswerWhileTheirRankIsBusy) {
  run("gather_from_a_busy_rank", 4);
}

TEST_P(Windows, SumInTheOrderOfTurnsWheneverTheyCome) {
  for (int ranks : sizes({1, 2, 3, 4})) run("turns", ranks);
}

TEST_P(Windows, OfARankThatHasLeftAreStillThere) {
  run("close_early", 4);
}

TEST_P(Windows, RefuseWhatDoesNotFitAndGoOn) {
  run("refuse", 2);
}

TEST_P(Windows, AreRefusedWhereShardsDifferAndSayHow) {
  auto failure = failure_of("unlike_windows", 2);
  bool names_both = failure.find("2 elements of Float") != std::string::npos ||
                    failure.find("2 of Float") != std::string::npos;
  EXPECT_TRUE(names_both && failure.find("[group] ") != std::string::npos) << failure;
  EXPECT_NE(failure.find("3"), std::string::npos) << failure;
}

TEST_P(Windows, TellOfATurnThatIsAddedTwice) {
  auto failure = failure_of("turn_twice", 2);
  EXPECT_NE(failure.find(": turn 0 of step 0 has been added before"), std::string::npos) << failure;
}

TEST_P(Windows, TellOfMoreTurnsThanAreTaken) {
  auto failure = failure_of("too_many_turns", 2);
  EXPECT_NE(failure.find("[window] "), std::string::npos) << failure;
}

INSTANTIATE_TEST_SUITE_P(Over, Windows, testing::Values(RanksAs::threads, RanksAs::processes), name_of);

}  // namespace
}  // namespace bigmac
