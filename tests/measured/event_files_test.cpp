#include "bigmac/measured/read_event_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "bigmac/measured/recorded.h"
#include "bigmac/profile/event_log.h"
#include "bigmac/schedule/make.h"
#include "bigmac/simulate/simulate.h"
#include "tests/schedule/support.h"
#include "tests/support/folder.h"

namespace bigmac {
namespace {

namespace fs = std::filesystem;

// Steps of which every rank writes its row as it was simulated, each on a clock of its own.
class EventFiles : public testing::Test {
 protected:
  EventFiles() {
    auto step = nested_step(4, 2, 8, true, true);
    step.base = Base::interleaved;
    Random random(3);
    step.modules[0].items = random_items(random, step.microbatches, 2, 3);
    step.modules[1].trained = true;
    schedule_ = make_schedule(step);
    timeline_ = simulate(schedule_, Costs{.modules = {{0.5, 1}, {1, 2}}});
  }

  Profiled of(int rank) const {
    Profiled of{rank, int32_t(schedule_.step.ranks), int32_t(schedule_.step.chunks), {}};
    for (const auto& module : schedule_.step.modules)
      of.modules.push_back({module.name, module.kind, module.trained});
    return of;
  }

  // Its first `count` operators; -1: all.
  void write(EventLog& log, int rank, int64_t step, int64_t count = -1) const {
    Dependencies dependencies(schedule_);
    ClockFit clock{0, 11.0 * rank, 0, 1e-5};
    auto at = [&](double time) { return 100.0 * double(step) + time + clock.offset; };
    log.begin({step, schedule_.step.microbatches, at(0), 1.78e9, clock});
    const auto& row = timeline_.rows[size_t(rank)].operators;
    for (size_t n = 0; n < row.size() && int64_t(n) != count; ++n) {
      const auto& [op, start, end] = row[n];
      Event event;
      event.op = op;
      if (op.module == Module::backbone) {
        event.microbatch = schedule_.step.declared(op.index);
        event.number = uint32_t(dependencies.stage(rank, op.chunk));
      } else {
        const auto& share = schedule_.shares.list[op.index];
        event.module = int16_t(share.module);
        if (op.phase != Phase::backward)
          for (uint32_t item : schedule_.shares.items_of(share)) {
            auto of_item = event;
            const auto& it = schedule_.module_of(share).items[item];
            of_item.activity = Activity::item;
            of_item.number = item;
            of_item.microbatch = it.microbatch;
            of_item.start = it.size;
            log.add(of_item);
          }
        event.number = uint32_t(share.unit);
      }
      auto wait = event;
      wait.activity = Activity::wait;
      wait.start = wait.end = at(start);
      wait.bytes = 77;
      wait.peer = 1;
      log.add(wait);
      event.activity = Activity::compute;
      event.start = at(start);
      event.end = at(end);
      event.held_before = int64_t(n + 1);
      event.held_after = int64_t(n + 2);
      log.add(event);
    }
    if (count < 0) {
      log.end(at(timeline_.length()));
    } else {
      const auto& next = row[size_t(count)];
      log.doing({.since = at(next.start) - 1,
                 .op = next.op,
                 .microbatch = next.op.index,
                 .number = 3,
                 .peer = 2,
                 .activity = Activity::wait});
    }
  }

  Schedule schedule_;
  Timeline timeline_;
  TemporaryFolder folder_;
};

TEST_F(EventFiles, AreTheScheduleAndTheTimelineThatWereWrittenOnOneClock) {
  for (int rank = 0; rank < 4; ++rank) {
    EventLog log(folder_.path(), of(rank), 2);
    for (int64_t step : {3, 4, 5}) write(log, rank, step);
  }
  auto measurement = read_measured({folder_.path()});
  ASSERT_EQ(measurement.steps.size(), 2u);
  for (const auto& step : measurement.steps) {
    SCOPED_TRACE(step.name);
    EXPECT_EQ(step.name, &step == &measurement.steps[0] ? "4" : "5");
    EXPECT_TRUE(step.missing.empty());
    EXPECT_NEAR(step.length(), timeline_.length(), 1e-6);
    for (int rank = 0; rank < 4; ++rank) {
      const auto& row = step.timeline.rows[size_t(rank)];
      const auto& right = timeline_.rows[size_t(rank)].operators;
      ASSERT_EQ(row.operators.size(), right.size());
      ASSERT_EQ(row.intervals.size(), right.size());
      for (size_t n = 0; n < right.size(); ++n) {
        EXPECT_EQ(describe(step.schedule, row.operators[n].op), describe(schedule_, right[n].op));
        EXPECT_EQ(row.intervals[n].op, row.operators[n].op);
        EXPECT_EQ(row.intervals[n].bytes, 77);
        double start = right[n].start + 100.0 * std::stod(step.name);
        EXPECT_NEAR(row.operators[n].start, start, 1e-6);
        EXPECT_EQ(step.memory[size_t(rank)].bytes[2 * n + 1], double(n + 2));
      }
    }
  }
}

TEST_F(EventFiles, OfARunThatWasStoppedSayWhatEachRankDidLast) {
  for (int rank = 0; rank < 4; ++rank) {
    EventLog log(folder_.path(), of(rank), 2);
    write(log, rank, 3);
    if (rank != 3) write(log, rank, 4, 10 + rank);
  }
  EXPECT_EQ(read_measured({folder_.path()}).steps.size(), 1u);  // step 3
  auto recording = recorded_step({folder_.path()}, {}, "4");
  EXPECT_FALSE(recording.missing.empty());
  auto says = [&](const std::string& part) {
    for (const auto& note : recording.notes)
      if (note.find(part) != std::string::npos) return true;
    return false;
  };
  EXPECT_TRUE(says("step 4 has not ended; when the last event was written, at 2026-"));
  EXPECT_TRUE(says("rank 0: waits for a message of rank 2 to run "));
  EXPECT_TRUE(says("rank 3: has ended step 3"));
  EXPECT_TRUE(says("step 4: "));  // without rank 3
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(recording.timeline.rows[size_t(rank)].operators.size(), rank == 3 ? 0u : 10u + size_t(rank));
  EXPECT_TRUE(recorded_step({folder_.path()}).missing.empty());  // step 3
}

TEST_F(EventFiles, OfDifferentRunsOrTwiceAreRefused) {
  auto refusal = [&] {
    try {
      read_measured({folder_.path()});
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (int rank = 0; rank < 4; ++rank) {
    EventLog log(folder_.path(), of(rank), 1);
    write(log, rank, 3);
  }
  EXPECT_EQ(refusal(), "");
  fs::copy_file(folder_.file("rank1-0.events"), folder_.file("again.events"));
  EXPECT_NE(refusal().find("step 3 of rank 1 is in two files"), std::string::npos) << refusal();
  fs::remove(folder_.file("again.events"));
  auto other = of(3);
  other.modules[0].name = "other";
  { EventLog log(folder_.path(), other, 1); }
  EXPECT_NE(refusal().find("is of another run than"), std::string::npos) << refusal();
  EXPECT_EQ(recorded_step({folder_.path()}).timeline.rows.size(), 4u);  // what there is
  fs::remove(folder_.file("rank3-0.events"));
  EXPECT_NE(refusal().find("rank"), std::string::npos);
  for (int rank = 0; rank < 4; ++rank) EventLog log(folder_.path(), of(rank), 1);
  EXPECT_NE(refusal().find("no step: none was begun"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace bigmac
