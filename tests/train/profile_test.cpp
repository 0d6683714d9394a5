// What ranks write down of a training run.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>

#include "bigmac/profile/read_events.h"
#include "bigmac/runtime/launch.h"
#include "bigmac/train/session.h"
#include "tests/runtime/processes.h"
#include "tests/support/roles.h"
#include "tests/train/systems.h"

namespace bigmac::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "two encoders";
constexpr int kProfiledRanks = 4;

TrainOptions profiled_in(const std::string& folder) {
  TrainOptions options;
  options.pp = kProfiledRanks;
  options.microbatches = 6;
  options.steps = 10;
  options.profile = {.folder = folder + "/profile", .every = 3, .keep = 2, .memory = true};
  return options;
}

const bool added = roles::add_program("profiled", [](const std::string& folder) {
  train(
      make_system(kKind), [](int64_t step) { return make_samples(kKind, {}, step); }, profiled_in(folder));
});

constexpr int64_t kLastStep = 7;
constexpr int kVictim = 2;
const bool added_killed = roles::add_program("killed while profiled", [](const std::string& folder) {
  auto options = profiled_in(folder);
  options.profile.every = 1;
  auto batches = [](int64_t step) {
    if (step == kLastStep && std::atoi(std::getenv("RANK")) == kVictim) raise(SIGKILL);
    return make_samples(kKind, {}, step);
  };
  train(make_system(kKind), batches, options);
});

// By step, then rank.
using Steps = std::map<int64_t, std::map<int, EventStep>>;

Steps steps_in(const std::string& folder) {
  Steps steps;
  for (const auto& entry : fs::directory_iterator(folder + "/profile")) {
    auto step = read_events(entry.path().string());
    steps[step.step][step.of.rank] = std::move(step);
  }
  return steps;
}

TEST(Profile, KeepsTheLastOfTheStepsThatItCovers) {
  TemporaryFolder folder;
  auto options = profiled_in(folder.path());
  train(
      make_system(kKind), [](int64_t step) { return make_samples(kKind, {}, step); }, options);
  auto steps = steps_in(folder.path());
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_TRUE(steps.contains(6) && steps.contains(9));
  for (const auto& [number, ranks] : steps) {
    SCOPED_TRACE(concat("step ", number));
    ASSERT_EQ(ranks.size(), size_t(kProfiledRanks));
    for (const auto& [rank, step] : ranks) {
      SCOPED_TRACE(concat("rank ", rank));
      EXPECT_GT(step.ended, step.began);
      std::map<Activity, int64_t> counts;
      double before = 0;
      for (const auto& event : step.events) {
        ++counts[event.activity];
        if (event.activity == Activity::item) continue;
        EXPECT_LE(event.start, event.end);
        if (event.activity != Activity::compute) continue;
        EXPECT_GE(event.start, before);
        before = event.end;
      }
      EXPECT_EQ(counts[Activity::data], 1);
      EXPECT_EQ(counts[Activity::update], 1);
      // Forward and backward of every microbatch, at the least.
      EXPECT_GE(counts[Activity::compute], 2 * options.microbatches);
      EXPECT_GT(counts[Activity::send], 0);
      EXPECT_GT(counts[Activity::exchange], 0);
      EXPECT_GT(counts[Activity::item], 0);
    }
  }
}

// What a step's operators allocated is let go by its end, so what is held before the same operator in two
// steps is the same.
TEST(Profile, WhatIsHeldRisesWithForwardsAndIsLetGoByTheEnd) {
  TemporaryFolder folder;
  train(
      make_system(kKind), [](int64_t step) { return make_samples(kKind, {}, step % 3); },
      profiled_in(folder.path()));
  auto steps = steps_in(folder.path());
  for (int rank = 0; rank < kProfiledRanks; ++rank) {
    SCOPED_TRACE(concat("rank ", rank));
    std::vector<std::vector<Event>> computed;
    for (int64_t number : {6, 9}) {
      auto& events = computed.emplace_back();
      for (const auto& event : steps.at(number).at(rank).events)
        if (event.activity == Activity::compute) events.push_back(event);
    }
    ASSERT_EQ(computed[0].size(), computed[1].size());
    int64_t peak = 0;
    for (size_t i = 0; i < computed[0].size(); ++i) {
      const auto &a = computed[0][i], &b = computed[1][i];
      EXPECT_EQ(a.op, b.op);
      if (a.op.phase == Phase::forward && a.op.module == Module::backbone && rank + 1 < kProfiledRanks) {
        EXPECT_GT(a.held_after, a.held_before) << i;
      }
      peak = std::max(peak, a.held_after);
    }
    EXPECT_EQ(computed[0].front().held_before, computed[1].front().held_before);
    EXPECT_GT(peak, computed[0].front().held_before);
  }
}

struct Sent {
  double start, end;
  int64_t bytes;
};
using Sents = std::map<std::pair<int, int>, std::vector<Sent>>;  // by sender and receiver, in their order

void collect(const EventStep& step, bool aligned, Sents& sent, Sents& received) {
  auto at = [&](double time) { return aligned ? step.clock.to_reference(time) : time; };
  int rank = step.of.rank;
  for (const auto& event : step.events) {
    Sent message{at(event.start), at(event.end), event.bytes};
    if (event.activity == Activity::send) sent[{rank, event.peer}].push_back(message);
    if (event.activity == Activity::receive || event.activity == Activity::wait)
      received[{event.peer, rank}].push_back(message);
  }
}

// The most by which a message was received before it was sent, over all messages of a step; negative where
// none was.
double most_early(const std::map<int, EventStep>& ranks, bool aligned) {
  Sents sent, received;
  for (const auto& [rank, step] : ranks) collect(step, aligned, sent, received);
  EXPECT_EQ(sent.size(), received.size());
  double most = -1e300;
  for (const auto& [pair, list] : sent) {
    const auto& there = received[pair];
    EXPECT_EQ(list.size(), there.size()) << pair.first << " to " << pair.second;
    for (size_t i = 0; i < std::min(list.size(), there.size()); ++i) {
      EXPECT_EQ(list[i].bytes, there[i].bytes);
      EXPECT_GT(list[i].bytes, 0);
      most = std::max(most, list[i].start - there[i].end);
    }
  }
  return most;
}

TEST(Profile, OfAKilledRankAllIsThereUpToTheMomentItDied) {
  BIGMAC_NEEDS_PROCESSES();
  TemporaryFolder folder;
  EXPECT_THROW(roles::run("killed while profiled", kProfiledRanks, folder.path()), RankFailure);
  auto steps = steps_in(folder.path());
  ASSERT_TRUE(steps.contains(kLastStep) && steps.contains(kLastStep - 1));
  for (int rank = 0; rank < kProfiledRanks; ++rank) {
    SCOPED_TRACE(concat("rank ", rank));
    const auto& before = steps[kLastStep - 1].at(rank);
    EXPECT_GT(before.ended, before.began);
    EXPECT_EQ(before.events.back().activity, Activity::update);
    const auto& last = steps[kLastStep].at(rank);
    EXPECT_EQ(last.ended, 0);
    EXPECT_EQ(last.doing.activity, Activity::data);  // the others wait for its batch
    EXPECT_GE(last.doing.since, before.events.back().end);
  }
}

// Each process has a clock of its own, 11 seconds before the next one's.
TEST(Profile, NoMessageArrivesBeforeItIsSentThoughClocksAreElevenSecondsApart) {
  BIGMAC_NEEDS_PROCESSES();
  if (std::system("unshare --time --fork --monotonic 11 true 2>/dev/null") != 0)
    GTEST_SKIP() << "no time namespaces may be made here";
  TemporaryFolder folder;
  setenv("BIGMAC_TEST_ROLE", "profiled", 1);
  setenv("BIGMAC_TEST_FOLDER", folder.path().c_str(), 1);
  auto self = fs::read_symlink("/proc/self/exe").string();
  launch_processes({"sh", "-c", "exec unshare --time --fork --monotonic $((RANK * 11)) \"$0\"", self},
                   {.ranks = kProfiledRanks});
  unsetenv("BIGMAC_TEST_ROLE");
  auto steps = steps_in(folder.path());
  ASSERT_EQ(steps.size(), 2u);
  for (const auto& [number, ranks] : steps) {
    SCOPED_TRACE(concat("step ", number));
    ASSERT_EQ(ranks.size(), size_t(kProfiledRanks));
    EXPECT_GT(most_early(ranks, false), 10);  // without alignment
    EXPECT_LE(most_early(ranks, true), 0);
    for (const auto& [rank, step] : ranks) {
      EXPECT_NEAR(step.clock.offset, 11 * rank, 0.1);
      EXPECT_LT(step.clock.error, 0.05);
      std::cout << "rank " << rank << ": offset " << step.clock.offset << " s, known to within "
                << step.clock.error * 1e6 << " us\n";
    }
  }
}

}  // namespace
}  // namespace bigmac::train
