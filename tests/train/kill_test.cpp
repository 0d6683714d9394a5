// Training runs whose ranks are killed, and that go on from their last checkpoint.
//   BIGMAC_KILLS=50 build/release/bin/test_train --gtest_filter='Kill.*'

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <future>
#include <iostream>
#include <random>
#include <thread>

#include "bigmac/common/error.h"
#include "bigmac/runtime/recorder.h"
#include "bigmac/runtime/transport.h"
#include "tests/runtime/processes.h"
#include "tests/support/by_hand.h"
#include "tests/support/roles.h"
#include "tests/train/training_role.h"

namespace bigmac::train {
namespace {

namespace fs = std::filesystem;

constexpr double kMostSeconds = 10;  // from the kill until every rank has ended
constexpr const char* kShardings[] = {"", "full one-sided", "states", "full collective"};

// Parts of checkpoints that are being written or were left behind.
std::set<std::string> parts_in(const std::string& folder) {
  std::set<std::string> parts;
  std::error_code gone;  // what is being renamed meanwhile
  for (fs::directory_iterator entry(folder + "/checkpoints", gone), end; !gone && entry != end;
       entry.increment(gone))
    if (auto name = entry->path().filename().string(); name.ends_with(".part")) parts.insert(name);
  return parts;
}

enum class Moment { computing, writing, starting };
constexpr const char* kMoments[] = {"while it computes", "while it writes", "while it starts"};

struct Kill {
  int victim;
  Moment moment;
  int64_t steps;  // of this start, before it
  int delay;      // microseconds
};

Kill draw_kill(std::mt19937& random) {
  Kill kill{};
  kill.victim = int(random() % kRanks);
  kill.moment = random() % 8 == 0   ? Moment::starting
                : random() % 2 == 0 ? Moment::writing
                                    : Moment::computing;
  kill.steps = int64_t(random() % 6);
  int most[] = {60'000, 1'000, 1'500'000};
  kill.delay = int(random() % unsigned(most[int(kill.moment)]));
  return kill;
}

struct Tally {
  int64_t kills = 0, left_parts = 0, starting = 0;
  double longest = 0;
};

template <class Condition>
bool wait_until(const Condition& holds, double seconds) {
  double start = now();
  while (!holds()) {
    if (now() - start > seconds) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  return true;
}

void expect_error(const std::string& folder, int rank, int victim) {
  auto text = error_of(folder, rank);
  EXPECT_TRUE(text.starts_with(concat("rank ", victim, ": "))) << "rank " << rank << " says '" << text << "'";
}

// Ranks that nobody looks after. False where the run was done before.
bool kill_one_of_many(const std::string& folder, const Kill& kill, Tally& tally) {
  int64_t had = count_losses(folder);
  auto old_parts = parts_in(folder);
  roles::ByHand ranks("training", folder, kRanks);
  auto is_writing = [&] {
    for (const auto& part : parts_in(folder))
      if (!old_parts.contains(part)) return true;
    return false;
  };
  bool ended = false;
  auto is_time = [&] {
    ended = ranks.all_ended();
    return ended || (fs::exists(folder + "/begun") && count_losses(folder) >= had + kill.steps &&
                     (kill.moment != Moment::writing || is_writing()));
  };
  if (!wait_until(is_time, 120)) {
    ADD_FAILURE() << "no progress";
    return false;
  }
  std::this_thread::sleep_for(std::chrono::microseconds(kill.delay));
  if (ended || ranks.statuses()[size_t(kill.victim)] != -1) {
    for (int status : ranks.wait(kMostSeconds)) EXPECT_EQ(status, 0);
    return false;
  }
  double killed = now();
  ranks.kill(kill.victim);
  auto statuses = ranks.wait(kMostSeconds, kMostSeconds);
  tally.longest = std::max(tally.longest, now() - killed);
  ++tally.kills;
  tally.left_parts += is_writing();
  // A rank that had nothing left to do may have gone in peace.
  bool complete = count_losses(folder) > 0 && losses_of(folder).contains(kSteps - 1);
  for (int rank = 0; rank < kRanks; ++rank) {
    int status = statuses[size_t(rank)];
    EXPECT_NE(status, -1) << "rank " << rank << " still runs";
    if (rank == kill.victim || (complete && status == 0)) continue;
    EXPECT_TRUE(roles::has_failed(status)) << "rank " << rank << " has status " << status;
    expect_error(folder, rank, kill.victim);
  }
  return true;
}

// Under the local launcher also before they have met.
bool kill_one_launched(const std::string& folder, const Kill& kill, Tally& tally) {
  auto run = std::async(std::launch::async, [&] { roles::run("training", kRanks, folder); });
  auto pid_file = concat(folder, "/pid", kill.victim);
  if (!wait_until([&] { return !read_text(pid_file).empty(); }, 60)) {
    ADD_FAILURE() << "it did not start";
    return false;
  }
  std::this_thread::sleep_for(std::chrono::microseconds(kill.delay));
  double killed = now();
  ::kill(std::stoi(read_text(pid_file)), SIGKILL);
  try {
    run.get();
    return false;  // it was done
  } catch (const RankFailure& failure) {
    EXPECT_EQ(failure.what(), concat("rank ", kill.victim, ": killed by signal 9 (Killed)"));
  }
  double took = now() - killed;
  EXPECT_LT(took, kMostSeconds);
  tally.longest = std::max(tally.longest, took);
  ++tally.kills;
  ++tally.starting;
  for (int rank = 0; rank < kRanks; ++rank)
    if (rank != kill.victim && !error_of(folder, rank).empty()) expect_error(folder, rank, kill.victim);
  return true;
}

const Losses& undisturbed(const std::string& sharding) {
  static std::map<std::string, Losses> known;
  auto [place, added] = known.try_emplace(sharding);
  if (added) {
    TemporaryFolder folder;
    write_text(folder.path() + "/sharding", sharding);
    roles::run("training", kRanks, folder.path());
    place->second = losses_of(folder.path());
  }
  return place->second;
}

TEST(Kill, OfAnyRankAtAnyMomentEndsAllAndTheResumedRunIsTheUndisturbedOneBitForBit) {
  BIGMAC_NEEDS_PROCESSES();
  int64_t wanted = count_from("BIGMAC_KILLS", 3);
  unsigned seed = std::getenv("BIGMAC_KILLS") ? std::random_device()() : 5u;
  SCOPED_TRACE(concat("seed ", seed));
  std::mt19937 random(seed);
  Tally tally;
  for (int run = 0; tally.kills < wanted && !HasFailure(); ++run) {
    std::string sharding = kShardings[size_t(run) % std::size(kShardings)];
    TemporaryFolder temporary;
    const auto& folder = temporary.path();
    write_text(folder + "/sharding", sharding);
    for (unsigned more = 1 + random() % 3; more > 0 && tally.kills < wanted; --more) {
      auto kill = draw_kill(random);
      SCOPED_TRACE(concat("kill ", tally.kills, ", sharding '", sharding, "': rank ", kill.victim, " ",
                          kMoments[int(kill.moment)], ", after ", kill.steps, " steps and ", kill.delay,
                          " us"));
      forget_start(folder);
      bool killed = kill.moment == Moment::starting ? kill_one_launched(folder, kill, tally)
                                                    : kill_one_of_many(folder, kill, tally);
      if (!killed || HasFailure()) break;
    }
    forget_start(folder);
    roles::ByHand ranks("training", folder, kRanks);
    for (int status : ranks.wait(60, 200)) EXPECT_EQ(status, 0) << "the resumed run does not end well";
    auto losses = losses_of(folder);
    EXPECT_EQ(losses.size(), size_t(kSteps));
    EXPECT_EQ(losses, undisturbed(sharding)) << "after kills, sharding '" << sharding << "'";
  }
  RecordProperty("longest_seconds", std::to_string(tally.longest));
  std::cout << tally.kills << " kills, of which " << tally.left_parts
            << " left a checkpoint half written and " << tally.starting
            << " came at any moment of a launched start; at most " << tally.longest
            << " s until all ranks had ended\n";
}

}  // namespace
}  // namespace bigmac::train
