// Where the wall time of real training over gloo goes.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include "bigmac/profile/read_events.h"
#include "bigmac/train/session.h"
#include "tests/demo/emoji.h"
#include "tests/runtime/processes.h"
#include "tests/support/roles.h"

namespace bigmac::demo {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 4, kSteps = 6;
constexpr double kMostUnexplained = 0.005;

const bool added = roles::add_program("profiled demo", [](const std::string& folder) {
  auto config = emoji_config(kRanks, 2);
  config.options.steps = kSteps;
  config.options.profile = {.folder = folder, .keep = kSteps};
  auto dataset = noise_dataset(64, config.encoder.picture);
  train::train(make_system(config), make_batches(config, dataset), config.options, {});
});

// The parts of a step's wall time, as shares of it.
struct Parts {
  std::map<Activity, double> shares;
  double sum = 0;
};
Parts parts_of(const EventStep& step) {
  Parts parts;
  double wall = step.ended - step.began, before = step.began;
  for (const auto& event : step.events) {
    bool outside = event.activity == Activity::item || event.activity == Activity::data ||
                   event.activity == Activity::update;
    if (outside) continue;
    EXPECT_GE(event.start, before) << "events overlap";
    EXPECT_LE(event.end, step.ended);
    before = event.end;
    parts.shares[event.activity] += (event.end - event.start) / wall;
    parts.sum += (event.end - event.start) / wall;
  }
  return parts;
}

TEST(Profile, ThePartsOfEachRanksWallTimeAddUpToIt) {
  BIGMAC_NEEDS_PROCESSES();
  TemporaryFolder folder;
  roles::run("profiled demo", kRanks, folder.path());
  std::map<int, std::vector<Parts>> by_rank;
  std::map<int, std::map<int64_t, int64_t>> held;  // by rank and step, before its first operator
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    auto step = read_events(entry.path().string());
    EXPECT_TRUE(step.notes.empty()) << step.notes[0];
    for (const auto& event : step.events)
      if (event.activity == Activity::compute) held[step.of.rank].emplace(step.step, event.held_before);
    if (step.step > 0) by_rank[step.of.rank].push_back(parts_of(step));
  }
  ASSERT_EQ(by_rank.size(), size_t(kRanks));
  for (auto& [rank, steps] : by_rank) {
    SCOPED_TRACE(concat("rank ", rank));
    // What was sent, received and made in a step has been let go.
    EXPECT_GT(held[rank].at(1), 0);
    EXPECT_NEAR(double(held[rank].at(kSteps - 1)) / double(held[rank].at(1)), 1, 0.05);
    ASSERT_EQ(steps.size(), size_t(kSteps - 1));
    std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.sum < b.sum; });
    const auto& middle = steps[steps.size() / 2];
    std::cout << "rank " << rank << ": all parts " << middle.sum * 100 << " %:";
    for (auto [activity, share] : middle.shares) std::cout << " " << name(activity) << " " << share * 100;
    std::cout << "\n";
    EXPECT_LE(middle.sum, 1 + 1e-9);
    EXPECT_GE(middle.sum, 1 - kMostUnexplained);
  }
}

}  // namespace
}  // namespace bigmac::demo
