#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "bigmac/runtime/group.h"
#include "bigmac/runtime/recorder.h"
#include "tests/runtime/both_transports.h"
#include "tests/support/by_hand.h"

namespace bigmac {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 4;
constexpr double kMostSeconds = 10;  // from the first rank's end to the last's

// Ranks 0, 1 and 2 make a group, rank 3 waits for a message. `rank` throws or is killed while the others of
// the group wait in `call`.
struct Plan {
  std::string call;
  int rank = 1;
  std::string what = "throw";
};

const std::vector<std::string> kCalls{"make_group",  "all_reduce", "reduce_scatter", "all_gather",
                                      "make_window", "gather",     "take_sum"};

// Processes take seconds to start, so that some do. In every call, by hand:
// BIGMAC_KILLS=1 build/release/bin/test_runtime --gtest_filter='GroupFailure*'
std::vector<std::string> all_or(const std::vector<std::string>& some) {
  return std::getenv("BIGMAC_KILLS") ? kCalls : some;
}

void wait_in(const std::string& call, Transport& transport, Group& group, Window& window) {
  auto shard = torch::ones({100'000}), values = torch::ones({3 * 100'000});
  if (call == "make_group") transport.make_group(group.ranks());
  if (call == "all_reduce") group.start_all_reduce(values)->wait();
  if (call == "reduce_scatter") group.start_reduce_scatter(values, shard)->wait();
  if (call == "all_gather") group.start_all_gather(shard, values)->wait();
  if (call == "make_window") group.make_window(shard);
  if (call == "gather") window.start_gather(values)->wait();
  if (call == "take_sum") window.take_sum(1);  // nobody has turn 0
}

void run_until_failure(Transport& transport, const Plan& plan) {
  if (transport.rank() == 3) {
    transport.post_receives(0, 1);
    transport.receive(0);
    throw Failure("received what nobody sent");
  }
  auto group = transport.make_group({0, 1, 2});
  auto window = group->make_window(torch::ones({100'000}));
  for (int round = 0;; ++round) {
    if (transport.rank() == plan.rank && (round == 3 || plan.call == "take_sum")) {
      std::this_thread::sleep_for(100ms);
      if (plan.what == "kill") raise(SIGKILL);
      throw std::runtime_error("the picture is torn");
    }
    wait_in(plan.call, transport, *group, *window);
  }
}

std::string read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

struct Folder : TemporaryFolder {
  explicit Folder(const Plan& plan) {
    std::ofstream(path() + "/plan") << plan.call << " " << plan.rank << " " << plan.what;
  }
  std::string error(int rank) const { return read(concat(path(), "/error", rank)); }
};

const bool added = roles::add("failing in a group", [](Transport& transport, const std::string& folder) {
  Plan plan;
  std::ifstream(folder + "/plan") >> plan.call >> plan.rank >> plan.what;
  try {
    run_until_failure(transport, plan);
  } catch (const RankFailure& failure) {
    std::ofstream(concat(folder, "/error", transport.rank())) << failure.what();
    throw;
  }
});

// Rank 2 never closes its window.
const bool also_added = roles::add("dying while others leave", [](Transport& transport, const std::string&) {
  auto group = transport.make_group({0, 1, 2, 3});
  auto window = group->make_window(torch::ones({100'000}));
  if (transport.rank() != 2) return;
  std::this_thread::sleep_for(500ms);
  raise(SIGKILL);
});

TEST(GroupFailure, OfAThreadReachesAllInEveryCall) {
  for (const auto& call : kCalls) {
    SCOPED_TRACE(call);
    std::vector<std::string> caught(kRanks);
    double start = now();
    EXPECT_THROW(run_threads(kRanks,
                             [&](Transport& transport) {
                               try {
                                 run_until_failure(transport, {.call = call});
                               } catch (const RankFailure& failure) {
                                 caught[size_t(transport.rank())] = failure.what();
                                 throw;
                               }
                             }),
                 RankFailure);
    EXPECT_LT(now() - start, kMostSeconds);
    for (int rank : {0, 2, 3}) EXPECT_EQ(caught[size_t(rank)], "rank 1: the picture is torn") << rank;
  }
}

TEST(GroupFailure, OfAProcessReachesAllInEveryCall) {
  BIGMAC_NEEDS_PROCESSES();
  for (const std::string& call : all_or({"reduce_scatter", "make_window", "take_sum"})) {
    SCOPED_TRACE(call);
    Folder folder({.call = call});
    double start = now();
    EXPECT_THROW(roles::run("failing in a group", kRanks, folder.path()), RankFailure);
    EXPECT_LT(now() - start, 2 * kMostSeconds);  // with the start
    for (int rank : {0, 2, 3}) EXPECT_EQ(folder.error(rank), "rank 1: the picture is torn") << rank;
  }
}

// Without a launcher, so that only its neighbours can tell that a rank has gone.
bool end_in_time(const std::string& role, const std::string& folder) {
  roles::ByHand ranks(role, folder, kRanks);
  ranks.wait(kMostSeconds);
  return ranks.all_ended();
}

void expect_notice(const std::string& call, int rank) {
  SCOPED_TRACE(concat("rank ", rank, " in ", call));
  Folder folder({.call = call, .rank = rank, .what = "kill"});
  EXPECT_TRUE(end_in_time("failing in a group", folder.path()));
  for (int other = 0; other < kRanks; ++other) {
    if (other == rank) continue;
    EXPECT_TRUE(folder.error(other).starts_with(concat("rank ", rank, ": [gloo] "))) << folder.error(other);
  }
}

TEST(GroupFailure, OfAKilledProcessIsNoticedByItsNeighboursAndThenByAll) {
  BIGMAC_NEEDS_PROCESSES();
  for (const std::string& call : all_or({"make_group", "all_reduce", "gather", "take_sum"}))
    expect_notice(call, 1);
}

TEST(GroupFailure, OfTheKilledRankZeroIsNoticedByAll) {
  BIGMAC_NEEDS_PROCESSES();
  for (const std::string& call : all_or({"make_group", "gather"})) expect_notice(call, 0);
}

TEST(GroupFailure, WhileTheOthersCloseTheirWindowsDoesNotKeepThem) {
  BIGMAC_NEEDS_PROCESSES();
  TemporaryFolder folder;
  EXPECT_TRUE(end_in_time("dying while others leave", folder.path()));
}

}  // namespace
}  // namespace bigmac
