#include "bigmac/measured/recorded.h"

#include "bigmac/simulate/links.h"
#include "bigmac/timeline/trace.h"
#include "tests/measured/support.h"

namespace bigmac {
namespace {

class Recorded : public InFolder {};

TEST_F(Recorded, HasTheWaitsTransfersAndMemoryOfOurTraces) {
  auto schedule = make_schedule(nested_step(3, 1, 6, true, false), Costs{.modules = {{0.5, 1}}});
  Links links{.exchange = Exchange::batched, .inside = {0.2, 0}, .between = {0.2, 0}};
  Recording wrote{.name = "step",
                  .schedule = schedule,
                  .timeline = simulate(schedule, Costs{.modules = {{0.5, 1}}}, links)};
  wrote.measured = true;
  wrote.memory = {{{0, 5, 9}, {10, 30, 20}}, {{0, 4}, {11, 12}}, {{0, 1}, {7, 8}}};
  wrote.memory_limit = 40;
  for (const char* name : {"trace.json", "trace.json.gz"}) {
    write_trace(wrote, path(name));
    auto read = recorded_step({path(name)});
    ASSERT_EQ(read.timeline.rows.size(), 3u);
    EXPECT_NEAR(read.timeline.length(), wrote.timeline.length(), 1e-9);
    for (size_t rank = 0; rank < 3; ++rank) {
      const auto &found = read.timeline.rows[rank].intervals, &given = wrote.timeline.rows[rank].intervals;
      ASSERT_EQ(found.size(), given.size());
      for (size_t n = 0; n < given.size(); ++n) {
        EXPECT_EQ(found[n].spent, given[n].spent);
        EXPECT_EQ(found[n].peer, given[n].peer);
        EXPECT_NEAR(found[n].start - read.timeline.start, given[n].start, 1e-9);
        EXPECT_NEAR(found[n].end - read.timeline.start, given[n].end, 1e-9);
      }
      ASSERT_EQ(read.memory[rank].bytes, wrote.memory[rank].bytes);
      for (size_t n = 0; n < wrote.memory[rank].times.size(); ++n)
        EXPECT_NEAR(read.memory[rank].times[n] - read.timeline.start, wrote.memory[rank].times[n], 1e-9);
    }
    EXPECT_EQ(read.memory_limit, 40);
    std::filesystem::remove(path(name));
  }
}

TEST_F(Recorded, IsReadFromAFolder) {
  auto schedule = make_schedule(backbone_step(2, 1, 4));
  Links links{.exchange = Exchange::batched, .inside = {0.2, 0}, .between = {0.2, 0}};
  write_trace(schedule, simulate(schedule, Costs{}, links), path("trace.json"));
  auto read = recorded_step({folder()});
  EXPECT_FALSE(read.timeline.rows[0].intervals.empty());
  EXPECT_TRUE(read.memory.empty());
}

}  // namespace
}  // namespace bigmac
