#include <arpa/inet.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "bigmac/runtime/gloo_transport.h"
#include "bigmac/runtime/launch.h"
#include "bigmac/runtime/threads_transport.h"
#include "tests/runtime/processes.h"
#include "tests/runtime/toy_model.h"
#include "tests/support/by_hand.h"

namespace bigmac {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 4;
constexpr double kMostSeconds = 10;  // until every rank has stopped

// What goes wrong: on `rank`, before its operator number `after` and `delay` milliseconds later.
struct Plan {
  int rank = 0;
  std::string what = "throw";
  int after = 7;
  int delay = 0;
  bool only_collectives = false;
};

void carry_out(const std::string& what) {
  if (what == "throw") throw std::runtime_error("the picture is torn");
  if (what == "throw an int") throw 3;
  if (what == "kill") raise(SIGKILL);
  if (what == "crash") {
    signal(SIGSEGV, SIG_DFL);  // sanitizers have a handler of their own
    raise(SIGSEGV);
  }
  if (what == "exit 3") _exit(3);
  if (what == "exit 0") _exit(0);
}

// Steps without end, or collectives alone.
void run_until_failure(Transport& transport, const Plan& plan) {
  if (plan.only_collectives)
    for (int count = 0;; ++count) {
      if (transport.rank() == plan.rank && count == plan.after) carry_out(plan.what);
      transport.barrier();
    }
  ToyOptions options{toy_step(transport.size(), 2, 2 * transport.size(), Arrangement::nested), {}};
  auto schedule = toy_schedule(options);
  ToyModel model(options, schedule.step, transport.rank());
  SharedGradients gradients(transport, model.parameters());
  int count = 0;
  model.on_call = [&](const ToyCall&) {
    if (transport.rank() != plan.rank || count++ != plan.after) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(plan.delay));
    carry_out(plan.what);
  };
  for (;;) {
    Executor(schedule, transport).run(model);
    gradients.sum();
  }
}

void write(const std::string& file, const std::string& text) {
  std::ofstream(file) << text;
}
std::string read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// A folder in which every rank leaves its process's number, and the error it stopped with.
struct Folder : TemporaryFolder {
  std::string file(const std::string& name, int rank) const { return concat(path(), "/", name, rank); }
  std::string error(int rank) const { return read(file("error", rank)); }
  bool is_running(int rank) const {
    auto pid = read(file("pid", rank));
    return !pid.empty() && kill(std::stoi(pid), 0) == 0;
  }
};

const bool added = roles::add("failing", [](Transport& transport, const std::string& folder) {
  auto file = [&](const std::string& name) { return concat(folder, "/", name, transport.rank()); };
  write(file("pid"), std::to_string(getpid()));
  std::istringstream in(read(folder + "/plan"));
  Plan plan;
  std::getline(in, plan.what);
  in >> plan.rank >> plan.after >> plan.delay >> plan.only_collectives;
  try {
    run_until_failure(transport, plan);
  } catch (const RankFailure& failure) {
    write(file("error"), failure.what());
    throw;
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    throw Failure("unknown error");
  }
});

void write_plan(const Folder& folder, const Plan& plan) {
  write(folder.path() + "/plan",
        concat(plan.what, "\n", plan.rank, " ", plan.after, " ", plan.delay, " ", plan.only_collectives));
}

double seconds_since(double start) {
  return now() - start;
}

struct Outcome {
  std::string failure;
  double seconds = 0;  // for the whole, of which starting takes some
};

Outcome launch(const Folder& folder, const Plan& plan, int ranks = kRanks) {
  write_plan(folder, plan);
  Outcome outcome;
  double start = now();
  try {
    roles::run("failing", ranks, folder.path());
  } catch (const RankFailure& failure) {
    outcome.failure = failure.what();
  }
  outcome.seconds = seconds_since(start);
  return outcome;
}

void expect_all_stopped(const Folder& folder, const Plan& plan, const std::string& text, int ranks = kRanks) {
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_FALSE(folder.is_running(rank)) << "rank " << rank;
    if (rank == plan.rank) continue;
    EXPECT_EQ(folder.error(rank), text) << "on rank " << rank;
  }
}

class FailureOn : public testing::TestWithParam<int> {};

TEST_P(FailureOn, OneThreadStopsAllWithItsError) {
  std::vector<std::string> caught(kRanks);
  double start = now();
  try {
    run_threads(kRanks, [&](Transport& transport) {
      try {
        run_until_failure(transport, {.rank = GetParam()});
      } catch (const RankFailure& failure) {
        caught[size_t(transport.rank())] = failure.what();
        throw;
      }
    });
    FAIL() << "no rank failed";
  } catch (const RankFailure& failure) {
    EXPECT_EQ(failure.what(), concat("rank ", GetParam(), ": the picture is torn"));
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(caught[size_t(rank)], rank == GetParam() ? "" : failure.what()) << "on rank " << rank;
  }
  EXPECT_LT(seconds_since(start), kMostSeconds);
}

TEST_P(FailureOn, OneProcessStopsAllWithItsError) {
  BIGMAC_NEEDS_PROCESSES();
  Folder folder;
  Plan plan{.rank = GetParam()};
  auto outcome = launch(folder, plan);
  EXPECT_EQ(outcome.failure, concat("rank ", plan.rank, ": the picture is torn"));
  EXPECT_LT(outcome.seconds, kMostSeconds);
  expect_all_stopped(folder, plan, outcome.failure);
}

INSTANTIATE_TEST_SUITE_P(Rank, FailureOn, testing::Range(0, kRanks),
                         [](const auto& rank) { return std::to_string(rank.param); });

TEST(Failure, OfAThreadThatThrowsSomethingElseThanAnExceptionStopsAll) {
  try {
    run_threads(kRanks, [](Transport& transport) {
      run_until_failure(transport, {.rank = 2, .what = "throw an int"});
    });
    FAIL() << "no rank failed";
  } catch (const RankFailure& failure) {
    EXPECT_STREQ(failure.what(), "rank 2: unknown error");
  }
}

TEST(Failure, OfAProcessThatThrowsSomethingElseThanAnExceptionStopsAll) {
  BIGMAC_NEEDS_PROCESSES();
  Folder folder;
  Plan plan{.rank = 1, .what = "throw an int"};
  auto outcome = launch(folder, plan);
  EXPECT_EQ(outcome.failure, "rank 1: unknown error");
  EXPECT_LT(outcome.seconds, kMostSeconds);
  expect_all_stopped(folder, plan, outcome.failure);
}

TEST(Failure, OfAKilledRankNamesTheRankAndTheSignal) {
  BIGMAC_NEEDS_PROCESSES();
  std::mt19937 random(5);
  for (int rank : {0, 3, 1}) {
    Folder folder;
    Plan plan{.rank = rank, .what = "kill", .after = int(random() % 30), .delay = int(random() % 50)};
    auto outcome = launch(folder, plan);
    SCOPED_TRACE(concat("rank ", rank, " after ", plan.after, " operators"));
    EXPECT_EQ(outcome.failure, concat("rank ", rank, ": killed by signal 9 (Killed)"));
    EXPECT_LT(outcome.seconds, kMostSeconds);
    expect_all_stopped(folder, plan, outcome.failure);
  }
}

TEST(Failure, OfACrashedRankNamesTheRankAndTheSignal) {
  BIGMAC_NEEDS_PROCESSES();
  Folder folder;
  Plan plan{.rank = 2, .what = "crash"};
  auto outcome = launch(folder, plan);
  EXPECT_EQ(outcome.failure, "rank 2: killed by signal 11 (Segmentation fault)");
  expect_all_stopped(folder, plan, outcome.failure);
}

TEST(Failure, OfARankThatExitsEarlyNamesItsExitCode) {
  BIGMAC_NEEDS_PROCESSES();
  Folder folder;
  Plan plan{.rank = 1, .what = "exit 3"};
  auto outcome = launch(folder, plan);
  EXPECT_EQ(outcome.failure, "rank 1: ended with exit code 3");
  EXPECT_LT(outcome.seconds, kMostSeconds);
  expect_all_stopped(folder, plan, outcome.failure);
}

TEST(Failure, OfARankThatLeavesInTheMiddleAsIfAllWereWellIsNoticed) {
  BIGMAC_NEEDS_PROCESSES();
  Folder folder;
  Plan plan{.rank = 2, .what = "exit 0"};
  auto outcome = launch(folder, plan);
  EXPECT_TRUE(outcome.failure.starts_with("rank 2: [gloo] its connection to rank ")) << outcome.failure;
  EXPECT_LT(outcome.seconds, kMostSeconds);
  expect_all_stopped(folder, plan, outcome.failure);
}

void expect_stop_without_a_launcher(const Plan& plan, const std::string& beginning) {
  SCOPED_TRACE(concat(plan.what, " on rank ", plan.rank));
  Folder folder;
  write_plan(folder, plan);
  roles::ByHand ranks("failing", folder.path(), kRanks);
  auto statuses = ranks.wait(kMostSeconds);
  std::string text = folder.error(plan.rank == 1 ? 2 : 1);
  EXPECT_TRUE(text.starts_with(beginning)) << text;
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_NE(statuses[size_t(rank)], -1) << "rank " << rank << " still runs";
    if (rank == plan.rank) continue;
    EXPECT_TRUE(WIFEXITED(statuses[size_t(rank)]) && WEXITSTATUS(statuses[size_t(rank)]) == 1)
        << "rank " << rank << " ended with status " << statuses[size_t(rank)];
    EXPECT_EQ(folder.error(rank), text) << "on rank " << rank;
  }
}

TEST(Failure, WithoutALauncherOfAKilledRankIsNoticedByItsNeighbours) {
  BIGMAC_NEEDS_PROCESSES();
  expect_stop_without_a_launcher({.rank = 2, .what = "kill"}, "rank 2: [gloo] its connection to rank ");
}

TEST(Failure, WithoutALauncherOfARankKilledInACollectiveIsNoticedByItsNeighbours) {
  BIGMAC_NEEDS_PROCESSES();
  for (int rank : {1, 3})
    expect_stop_without_a_launcher({.rank = rank, .what = "kill", .after = 20, .only_collectives = true},
                                   concat("rank ", rank, ": [gloo] its connection to rank "));
}

TEST(Failure, WithoutALauncherOfTheKilledRankZeroIsNoticedByAll) {
  BIGMAC_NEEDS_PROCESSES();
  expect_stop_without_a_launcher(
      {.rank = 0, .what = "kill"},
      "rank 0: [gloo] has ended or is out of reach, and with it the group's store");
}

TEST(Failure, WithoutALauncherReachesAllAlsoFromRankZero) {
  BIGMAC_NEEDS_PROCESSES();
  for (int rank : {0, 3})
    expect_stop_without_a_launcher({.rank = rank}, concat("rank ", rank, ": the picture is torn"));
}

TEST(Failure, OfTheLauncherStopsTheRanks) {
  BIGMAC_NEEDS_PROCESSES();
  Folder folder;
  write_plan(folder, {.rank = -1});
  pid_t launcher = fork();
  if (launcher == 0) {
    setenv("BIGMAC_TEST_ROLE", "failing", 1);
    setenv("BIGMAC_TEST_FOLDER", folder.path().c_str(), 1);
    try {
      launch_processes({"/proc/self/exe"}, {.ranks = 2});
    } catch (...) {
    }
    _exit(0);
  }
  auto both = [&](auto&& condition) { return condition(0) && condition(1); };
  for (double start = now(); !both([&](int rank) { return folder.is_running(rank); });) {
    ASSERT_LT(seconds_since(start), 60);
    std::this_thread::sleep_for(10ms);
  }
  std::this_thread::sleep_for(200ms);
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  double start = now();
  auto stopped = [&](int rank) { return !folder.error(rank).empty(); };
  while (!both(stopped) && seconds_since(start) < kMostSeconds) std::this_thread::sleep_for(10ms);
  for (int rank : {0, 1})
    EXPECT_EQ(folder.error(rank),
              "[gloo] the launcher has ended or is out of reach, and with it the group's store");
}

const bool leaving = roles::add("leaving", [](Transport& transport, const std::string& folder) {
  transport.barrier();
  if (transport.rank() != 0) std::this_thread::sleep_for(500ms);
  if (transport.rank() == 1) transport.send(2, message_of(std::string("late")));
  if (transport.rank() == 2) {
    transport.post_receives(1, 1);
    write(folder + "/got", text_of(transport.receive(1)));
  }
});

TEST(RankZero, ThatServesTheStoreLeavesLast) {
  BIGMAC_NEEDS_PROCESSES();
  Folder folder;
  roles::ByHand ranks("leaving", folder.path(), kRanks);
  for (int status : ranks.wait(60)) EXPECT_EQ(status, 0);
  EXPECT_EQ(read(folder.path() + "/got"), "late");
}

const bool writing = roles::add("writing to a closed socket", [](Transport& transport, const std::string&) {
  raise(SIGPIPE);
  transport.barrier();
});

TEST(Failure, OfARankDoesNotEndThoseThatWriteToIt) {
  BIGMAC_NEEDS_PROCESSES();
  EXPECT_NO_THROW(roles::run("writing to a closed socket", 2));
  raise(SIGPIPE);  // the launcher writes to ranks too
}

// By hand: BIGMAC_KILLS=50 build/release/bin/test_runtime --gtest_filter='Kills.*'
TEST(Kills, AtRandomTimesOfRandomRanksNeverHangOrCrashTheOthers) {
  BIGMAC_NEEDS_PROCESSES();
  const char* loops = std::getenv("BIGMAC_KILLS");
  int count = loops ? std::stoi(loops) : 3;
  std::mt19937 random(loops ? std::random_device()() : 11u);
  double longest = 0;
  for (int loop = 0; loop < count; ++loop) {
    Plan plan{.rank = int(random() % kRanks),
              .what = random() % 3 == 0 ? "throw" : "kill",
              .after = int(random() % 60),
              .delay = int(random() % 20)};
    SCOPED_TRACE(concat("loop ", loop, ": ", plan.what, " on rank ", plan.rank, " after ", plan.after,
                        " and ", plan.delay, " ms"));
    Folder folder;
    write_plan(folder, plan);
    roles::ByHand ranks("failing", folder.path(), kRanks);
    auto statuses = ranks.wait(kMostSeconds);
    longest = std::max(longest, ranks.took());
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == plan.rank && plan.what == "kill") continue;
      EXPECT_TRUE(WIFEXITED(statuses[size_t(rank)]) && WEXITSTATUS(statuses[size_t(rank)]) == 1)
          << "rank " << rank << " has status " << statuses[size_t(rank)];
      if (rank == plan.rank) continue;
      EXPECT_TRUE(folder.error(rank).starts_with(concat("rank ", plan.rank, ": "))) << folder.error(rank);
    }
  }
  RecordProperty("longest_seconds", std::to_string(longest));
  std::cout << "at most " << longest << " s from the first rank's end to the last's\n";
}

class Listener {
 public:
  Listener() : socket_(::socket(AF_INET6, SOCK_STREAM, 0)) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    socklen_t length = sizeof(address);
    if (bind(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(socket_, 8) != 0) return;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    port = ntohs(address.sin6_port);
  }
  ~Listener() { close(socket_); }
  int port = 0;

 private:
  int socket_;
};

std::string connect_error(Environment environment, std::chrono::milliseconds timeout) {
  try {
    connect_gloo(environment, {.connect_timeout = timeout});
    return "connected";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(Connecting, ToAPortInUseIsRefusedAndNamesThePort) {
  BIGMAC_NEEDS_PROCESSES();
  Listener listener;
  if (listener.port == 0) GTEST_SKIP() << "no IPv6 here to listen on";
  Environment environment{
      .rank = 0, .size = 2, .address = "127.0.0.1", .port = listener.port, .launcher = "torchrun"};
  EXPECT_THROW(connect_gloo(environment, {.connect_timeout = 5s}), InvalidInput);
  auto text = connect_error(environment, 5s);
  EXPECT_TRUE(text.starts_with(concat("[launch] cannot listen on port ", listener.port))) << text;
  EXPECT_THROW(launch_processes({"true"}, {.ranks = 1, .port = listener.port}), InvalidInput);
}

TEST(Connecting, WhereNobodyListensEndsWithinTheTimeoutAndNamesTheAddress) {
  BIGMAC_NEEDS_PROCESSES();
  int port = roles::free_port();
  double start = now();
  auto text =
      connect_error({.rank = 1, .size = 2, .address = "127.0.0.1", .port = port, .launcher = "torchrun"}, 1s);
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_TRUE(text.starts_with(concat("[launch] cannot reach rank 0's store at 127.0.0.1:", port))) << text;
}

TEST(Connecting, ToAHostWithoutAnAddressNamesTheHost) {
  BIGMAC_NEEDS_PROCESSES();
  double start = now();
  auto text = connect_error(
      {.rank = 1, .size = 2, .address = "no-such-host.invalid", .port = 1234, .launcher = "torchrun"}, 1s);
  EXPECT_LT(seconds_since(start), 20);
  EXPECT_TRUE(text.starts_with("[launch] cannot reach rank 0's store at no-such-host.invalid:1234")) << text;
}

TEST(Connecting, WithoutSomeRanksEndsWithinTheTimeoutAndNamesThem) {
  BIGMAC_NEEDS_PROCESSES();
  Environment environment{
      .rank = 0, .size = 4, .address = "127.0.0.1", .port = roles::free_port(), .launcher = "torchrun"};
  double start = now();
  std::string second;
  std::thread other([&] {
    std::this_thread::sleep_for(
        200ms);  // one that comes before the store is there tries again a second later
    auto rank_2 = environment;
    rank_2.rank = 2;
    second = connect_error(rank_2, 3s);
  });
  auto first = connect_error(environment, 1s);
  other.join();
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_EQ(first, "rank 0: [gloo] not all 4 ranks came together within 1 s; missing: rank 1, 3");
  EXPECT_NE(second, "connected");
}

TEST(Launch, OfACommandThatDoesNotExistSaysSo) {
  try {
    launch_processes({"no-such-command-here"}, {.ranks = 2});
    FAIL() << "launched";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "[launch] cannot start 'no-such-command-here': No such file or directory");
  }
}

TEST(Launch, RefusesToStartNoRanks) {
  EXPECT_THROW(launch_processes({"true"}, {.ranks = 0}), InvalidInput);
}

TEST(Launch, GivesEachRankTheEnvironmentOfTorchrunAndTheCallersOwn) {
  Folder folder;
  setenv("BIGMAC_TEST_OWN", "kept", 1);
  setenv("RANK", "77", 1);
  launch_processes(
      {"sh", "-c",
       "echo $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR $TORCHELASTIC_USE_AGENT_STORE $BIGMAC_TEST_OWN > " +
           folder.path() + "/$RANK; test $MASTER_PORT -gt 0"},
      {.ranks = 3});
  unsetenv("BIGMAC_TEST_OWN");
  unsetenv("RANK");
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(read(concat(folder.path(), "/", rank)), concat(rank, " ", rank, " 3 127.0.0.1 True kept\n"));
}

TEST(Launch, KillsWhatIsLeftAfterTheGrace) {
  Folder folder;
  double start = now();
  try {
    launch_processes(
        {"sh", "-c", "echo $$ > " + folder.path() + "/pid$RANK; test $RANK != 1 || exit 9; exec sleep 1000"},
        {.ranks = 3, .grace_seconds = 0.5});
    FAIL() << "all ended well";
  } catch (const RankFailure& failure) {
    EXPECT_STREQ(failure.what(), "rank 1: ended with exit code 9");
  }
  EXPECT_LT(seconds_since(start), kMostSeconds);
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(folder.is_running(rank));
}

}  // namespace
}  // namespace bigmac
