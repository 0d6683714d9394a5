#include "bigmac/profile/event_log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <csignal>
#include <cstring>

#include <filesystem>
#include <fstream>

#include "bigmac/common/error.h"
#include "bigmac/profile/read_events.h"
#include "tests/schedule/support.h"
#include "tests/support/folder.h"

namespace bigmac {
namespace {

namespace fs = std::filesystem;

Profiled rank_of(int rank) {
  return {
      rank, 4, 2, {{"image \"\x01\xc3\xa9\n", Module::encoder, false}, {"draw", Module::generator, true}}};
}

Event event_of(int64_t n) {
  Event event;
  event.start = double(n) / 3;
  event.end = event.start + 0.25;
  event.held_before = n * 7;
  event.held_after = -n;
  event.bytes = n << 40;
  event.op = n % 2 ? encoder_forward(n) : backbone_backward(1, n);
  event.microbatch = uint32_t(n + 1);
  event.number = uint32_t(n + 2);
  event.module = n % 2 ? 0 : -1;
  event.peer = int16_t(n % 4);
  event.activity = n % 3 ? Activity::compute : Activity::wait;
  return event;
}

void expect_event(const Event& got, const Event& right) {
  EXPECT_EQ(
      std::tuple(got.start, got.end, got.held_before, got.held_after, got.bytes, got.microbatch),
      std::tuple(right.start, right.end, right.held_before, right.held_after, right.bytes, right.microbatch));
  EXPECT_EQ(std::tuple(got.op.index, got.op.chunk, got.op.module, got.op.phase, got.number),
            std::tuple(right.op.index, right.op.chunk, right.op.module, right.op.phase, right.number));
  EXPECT_EQ(std::tuple(got.module, got.peer, got.activity),
            std::tuple(right.module, right.peer, right.activity));
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class EventLogTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name); }
  std::string slot(int64_t number) const { return path(concat("rank2-", number, ".events")); }
  std::string refusal(const std::string& file) const {
    try {
      read_events(file);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "none";
  }

  TemporaryFolder folder_;
};

TEST_F(EventLogTest, KeepsTheLastStepsWhateverTheirLength) {
  EventLog log(folder_.path(), rank_of(2), 3);
  const int64_t lengths[] = {5, 20'000, 3, 9'000, 0};
  for (int64_t step = 0; step < 5; ++step) {
    log.begin({step, 8 + step, 100.0 + double(step), 0, {1, 11, 1e-5, 2e-6}});
    for (int64_t n = 0; n < lengths[step]; ++n) log.add(event_of(n));
    log.began(100.5 + double(step));
    log.end(200.0 + double(step));
  }
  for (int64_t step : {2, 3, 4}) {
    auto read = read_events(slot(step % 3));
    EXPECT_EQ(read.step, step);
    EXPECT_EQ(read.microbatches, 8 + step);
    EXPECT_EQ(std::tuple(read.began, read.ended), std::tuple(100.5 + double(step), 200.0 + double(step)));
    EXPECT_EQ(std::tuple(read.clock.at, read.clock.offset, read.clock.drift, read.clock.error),
              std::tuple(1, 11, 1e-5, 2e-6));
    EXPECT_EQ(std::tuple(read.of.rank, read.of.ranks, read.of.chunks), std::tuple(2, 4, 2));
    ASSERT_EQ(read.of.modules.size(), 2u);
    EXPECT_EQ(read.of.modules[0].name, "image \"\x01\xc3\xa9\n");
    EXPECT_FALSE(read.of.modules[0].trained);
    EXPECT_EQ(read.of.modules[1].kind, Module::generator);
    EXPECT_TRUE(read.notes.empty());
    ASSERT_EQ(int64_t(read.events.size()), lengths[step]);
    for (int64_t n = 0; n < lengths[step]; ++n) expect_event(read.events[size_t(n)], event_of(n));
  }
}

// What a run before wrote is kept, once, with that of ranks that there are no more.
TEST_F(EventLogTest, WhatLiesThereOfARunBeforeIsPutAside) {
  auto step_in = [&](const std::string& file) {
    return fs::exists(path(file)) ? read_events(path(file)).step : -2;
  };
  for (int64_t run : {1, 2, 3})
    for (int rank : {0, 2, 5}) {
      auto of = rank_of(rank);
      if (run > 1 && rank == 5) continue;
      if (run == 1) of.ranks = 6;
      EventLog log(folder_.path(), of, 1);
      log.begin({run, 8, 5, 0, {}});
    }
  EXPECT_EQ(step_in("rank0-0.events"), 3);
  EXPECT_EQ(step_in("rank2-0.events"), 3);
  EXPECT_EQ(step_in("before/rank0-0.events"), 2);
  EXPECT_EQ(step_in("before/rank2-0.events"), 2);
  EXPECT_EQ(step_in("rank5-0.events"), -2);
}

TEST_F(EventLogTest, OfAProcessThatWasKilledAllIsThereAndWhatItWaitedFor) {
  pid_t child = fork();
  if (child == 0) {
    EventLog log(folder_.path(), rank_of(2), 1);
    log.begin({17, 8, 5, 0, {}});
    for (int64_t n = 0; n < 10'000; ++n) log.add(event_of(n));
    log.doing(
        {.since = 7, .op = backbone_forward(1, 3), .microbatch = 6, .peer = 1, .activity = Activity::wait});
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto read = read_events(slot(0));
  EXPECT_EQ(read.step, 17);
  EXPECT_EQ(read.ended, 0);
  EXPECT_EQ(read.events.size(), 10'000u);
  EXPECT_EQ(read.doing.activity, Activity::wait);
  EXPECT_EQ(read.doing.peer, 1);
  EXPECT_EQ(read.doing.since, 7);
  EXPECT_EQ(read.doing.op, backbone_forward(1, 3));
  EXPECT_EQ(read.doing.microbatch, 6u);
}

TEST_F(EventLogTest, CutOffAtAnyByteGivesWhatStandsBeforeIt) {
  {
    EventLog log(folder_.path(), rank_of(2), 1);
    log.begin({3, 8, 5, 0, {}});
    for (int64_t n = 0; n < 20; ++n) log.add(event_of(n));
    log.end(9);
  }
  auto whole = bytes_of(slot(0));
  uint64_t first = 0;
  std::memcpy(&first, whole.data() + offsetof(EventHeader, first), sizeof(first));
  for (size_t bytes = 0; bytes < first + 20 * sizeof(Event); ++bytes) {
    write_bytes(path("cut"), whole.substr(0, bytes));
    if (refusal(path("cut")) != "none") {
      EXPECT_LT(bytes, first) << refusal(path("cut"));
      continue;
    }
    auto read = read_events(path("cut"));
    size_t there = bytes < first ? 0 : (bytes - first) / sizeof(Event);
    ASSERT_EQ(read.events.size(), there) << bytes;
    ASSERT_EQ(read.notes.size(), 1u) << bytes;
    EXPECT_NE(read.notes[0].find(concat("cut off behind ", there, " of 20 events")), std::string::npos);
  }
}

TEST_F(EventLogTest, IsReadFromGzipToo) {
  {
    EventLog log(folder_.path(), rank_of(2), 1);
    log.begin({3, 8, 5, 0, {}});
    for (int64_t n = 0; n < 5'000; ++n) log.add(event_of(n));
  }
  auto whole = bytes_of(slot(0));
  auto zipped = path("rank2-0.events.gz");
  auto* file = gzopen(zipped.c_str(), "wb");
  gzwrite(file, whole.data(), unsigned(whole.size()));
  gzclose(file);
  auto read = read_events(zipped);
  ASSERT_EQ(read.events.size(), 5'000u);
  expect_event(read.events.back(), event_of(4'999));
  fs::resize_file(zipped, fs::file_size(zipped) / 2);
  auto half = read_events(zipped);
  EXPECT_GT(half.events.size(), 0u);
  EXPECT_LT(half.events.size(), 5'000u);
  EXPECT_EQ(half.notes.size(), 1u);
}

TEST_F(EventLogTest, WhatIsNoEventFileIsRefusedAndSaysWhy) {
  EXPECT_NE(refusal(path("none")).find("cannot read"), std::string::npos);
  write_bytes(path("empty"), "");
  EXPECT_NE(refusal(path("empty")).find("cut off in its first bytes"), std::string::npos);
  write_bytes(path("junk"), std::string(5000, 'x'));
  EXPECT_NE(refusal(path("junk")).find("begin with 'bigmacEV'"), std::string::npos);
  EventLog log(folder_.path(), rank_of(2), 1);
  EXPECT_EQ(read_events(slot(0)).step, -1);
  auto newer = bytes_of(slot(0));
  newer[offsetof(EventHeader, version)] = 9;
  write_bytes(path("newer"), newer);
  EXPECT_NE(refusal(path("newer")).find("version 9"), std::string::npos);
  auto broken = bytes_of(slot(0));
  broken[sizeof(EventHeader)] = '[';
  write_bytes(path("broken"), broken);
  EXPECT_NE(refusal(path("broken")).find("its declaration is none"), std::string::npos);
}

// Any bytes changed anywhere: never a crash, and what is read are events that can be.
TEST_F(EventLogTest, DamagedBytesAreRefusedOrLeftOut) {
  {
    EventLog log(folder_.path(), rank_of(2), 1);
    log.begin({3, 8, 5, 0, {}});
    for (int64_t n = 0; n < 50; ++n) log.add(event_of(n));
  }
  auto whole = bytes_of(slot(0)).substr(0, 4096 + 50 * sizeof(Event));
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    Random random(seed);
    auto damaged = whole;
    for (int64_t n = integer(random, 1, 8); n > 0; --n)
      damaged[size_t(integer(random, 0, int64_t(seed % 2 ? damaged.size() : 300) - 1))] =
          char(integer(random, 0, 255));
    write_bytes(path("damaged"), damaged);
    if (refusal(path("damaged")) != "none") continue;
    auto read = read_events(path("damaged"));
    EXPECT_LE(read.events.size(), 50u);
    for (const auto& event : read.events) {
      EXPECT_TRUE(std::isfinite(event.start) && std::isfinite(event.end));
      EXPECT_LT(event.module, int64_t(read.of.modules.size()));
    }
  }
}

TEST_F(EventLogTest, AFolderThatCannotBeWrittenIsNamed) {
  write_bytes(path("file"), "x");
  try {
    EventLog log(path("file"), rank_of(2), 1);
    FAIL();
  } catch (const Failure& error) {
    EXPECT_NE(std::string(error.what()).find(concat("cannot write into '", path("file"), "'")),
              std::string::npos);
  }
}

}  // namespace
}  // namespace bigmac
