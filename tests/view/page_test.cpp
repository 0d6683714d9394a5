#include "bigmac/view/page.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>

#include "bigmac/analysis/named_waits.h"
#include "bigmac/common/error.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/timeline/explain.h"
#include "bigmac/view/columns.h"
#include "bigmac/view/thin.h"
#include "tests/view/recordings.h"
#include "tests/view/unpacked.h"

namespace bigmac {
namespace {

TEST(Columns, HoldEveryOperatorWithItsTimes) {
  auto recording = nested_recording();
  auto [facts, columns] = unpacked(to_columns(recording));
  double per_unit = facts["per_unit"];
  size_t i = 0;
  for (const auto& row : recording.timeline.rows) {
    uint64_t ticks = 0;
    for (const auto& [op, start, end] : row.operators) {
      ticks += columns["start"].at(i);
      EXPECT_NEAR(double(ticks) / per_unit, start, 1e-7);
      EXPECT_NEAR(double(ticks + columns["duration"].at(i)) / per_unit, end, 1e-7);
      EXPECT_EQ(columns["code"].at(i), uint32_t(op.module) << 4 | uint32_t(op.phase));
      EXPECT_EQ(columns["chunk"].at(i), op.chunk);
      EXPECT_EQ(columns["index"].at(i), op.index);
      ++i;
    }
  }
  EXPECT_EQ(columns["start"].size(), i);
  EXPECT_EQ(facts["rows"].back(), i);
}

TEST(Columns, HoldThePredecessorsThatDependenciesName) {
  auto recording = nested_recording();
  auto [facts, columns] = unpacked(to_columns(recording));
  Dependencies dependencies(recording.schedule);
  std::vector<int64_t> ids;
  for (int rank = 0; rank < 4; ++rank)
    for (const auto& slice : recording.timeline.rows[size_t(rank)].operators)
      ids.push_back(dependencies.of(rank, slice.op));
  size_t i = 0, at = 0;
  for (int rank = 0; rank < 4; ++rank)
    for (const auto& slice : recording.timeline.rows[size_t(rank)].operators) {
      std::vector<int64_t> wanted, found;
      dependencies.for_each_predecessor(rank, slice.op, [&](int64_t id, int) { wanted.push_back(id); });
      for (uint32_t n = 0; n < columns["needs_begin"].at(i); ++n)
        found.push_back(ids.at(size_t(int64_t(i) - int32_t(columns["needs"].at(at++)))));
      EXPECT_EQ(found, wanted);
      ++i;
    }
  EXPECT_EQ(at, columns["needs"].size());
  EXPECT_GT(at, i);
}

TEST(Columns, HoldTheCriticalPathFromStartToEnd) {
  auto recording = nested_recording();
  auto [facts, columns] = unpacked(to_columns(recording));
  auto path = critical_path(recording.schedule, recording.timeline);
  ASSERT_EQ(columns["path"].size(), path.size());
  uint32_t last = columns["path"].back(), rank = 0;
  while (facts["rows"][rank + 1] <= last) ++rank;
  EXPECT_EQ(rank, uint32_t(path.back().rank));
}

TEST(Columns, SayWhyRanksWait) {
  auto recording = megatron_recording();
  auto [facts, columns] = unpacked(to_columns(recording));
  std::vector<size_t> seen(kWaitKinds, 0);
  for (uint32_t kind : columns["wait_kind"]) ++seen.at(kind);
  EXPECT_GT(seen[size_t(WaitKind::encoder)] + seen[size_t(WaitKind::generator)], 0u);
  EXPECT_GT(seen[size_t(WaitKind::drain)], 0u);
  double idle = 0, waits = 0;
  for (const auto& time : facts["rank_times"])
    idle += facts["length"].get<double>() - time["busy"].get<double>();
  for (uint32_t length : columns["wait_length"]) waits += length / facts["per_unit"].get<double>();
  EXPECT_NEAR(waits, idle, 1e-5);
}

TEST(Columns, HoldMemoryWithItsPeakAndLimit) {
  auto recording = nested_recording();
  add_memory(recording);
  auto [facts, columns] = unpacked(to_columns(recording));
  EXPECT_EQ(facts["memory"].size(), 5u);
  EXPECT_EQ(facts["memory_limit"], recording.memory_limit);
  float peak = 0;
  for (uint32_t bits : columns["memory_bytes"]) peak = std::max(peak, std::bit_cast<float>(bits));
  double wanted = 0;
  for (const auto& curve : recording.memory)
    wanted = std::max(wanted, *std::max_element(curve.bytes.begin(), curve.bytes.end()));
  EXPECT_EQ(peak, float(wanted));
}

TEST(ThinnedCurve, KeepsItsPeakAndItsOrder) {
  MemoryCurve curve;
  for (int i = 0; i < 10000; ++i) {
    curve.times.push_back(i);
    curve.bytes.push_back(i == 7777 ? 1e9 : std::abs(std::sin(i)));
  }
  auto thinned = thin(curve, 100);
  EXPECT_LE(thinned.times.size(), 102u);
  EXPECT_EQ(*std::max_element(thinned.bytes.begin(), thinned.bytes.end()), 1e9);
  EXPECT_TRUE(std::is_sorted(thinned.times.begin(), thinned.times.end()));
}

TEST(Findings, NameTheEncoderThatIsLateAndWhatHelps) {
  auto recording = megatron_recording();
  auto [facts, columns] = unpacked(to_columns(recording));
  std::string all;
  for (const auto& sentence : facts["findings"]) all += sentence.get<std::string>() + "\n";
  EXPECT_NE(all.find("computes least"), std::string::npos) << all;
  EXPECT_NE(all.find("What would help"), std::string::npos) << all;
}

TEST(Page, KeepsNamesWithQuotesControlBytesUtf8AndScriptEnds) {
  const std::string name =
      "a \"b\" 'c' \x01\x1f </script><script>alert(1)</script> \xe2\x82\xac \xf0\x9f\x8d\x94";
  auto recording = nested_recording(name);
  recording.schedule.step.modules[0].name = name;
  recording.notes = {name};
  auto page = to_page({recording}, {.title = ""});
  auto facts = unpacked(recordings_in(page).at(0)).facts;
  EXPECT_EQ(facts["name"], name);
  EXPECT_EQ(facts["modules"][0]["name"], name);
  EXPECT_EQ(facts["notes"][0], name);
  EXPECT_EQ(page.find("<script>alert(1)"), std::string::npos);
  EXPECT_NE(page.find("<title>a &quot;b&quot;"), std::string::npos);
  EXPECT_EQ(page.find('\x01'), std::string::npos);
}

TEST(Page, KeepsWhatCanBeKeptOfNamesThatAreNotUtf8) {
  auto page = to_page({nested_recording("broken \xff\xfe name")});
  EXPECT_EQ(unpacked(recordings_in(page).at(0)).facts["name"], "broken \ufffd\ufffd name");
}

TEST(Page, NeedsNoNetwork) {
  auto page = to_page({nested_recording()});
  for (const char* reference : {"src=\"http", "href=\"http", "url(http", "import ", "@import", "fetch("})
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
}

TEST(Page, HoldsSeveralRecordingsInTheirOrder) {
  auto found = recordings_in(to_page({megatron_recording(), nested_recording()}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(unpacked(found[0]).facts["name"], "megatron");
  EXPECT_EQ(unpacked(found[1]).facts["name"], "nested");
}

TEST(Page, RejectsNothingAndRecordingsWithoutRanks) {
  EXPECT_THROW(to_page({}), InvalidInput);
  EXPECT_THROW(to_page({Recording{}}), InvalidInput);
}

TEST(Page, OfAMillionOperatorsIsMadeInThreeSecondsAndSmall) {
  auto recording = million_recording();
  auto begun = std::chrono::steady_clock::now();
  auto page = to_page({recording});
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  double megabytes = double(page.size()) / 1e6;
  printf("a page of %zu operators: %.2f s, %.1f MB\n", recording.schedule.operators.size(), seconds,
         megabytes);
  RecordProperty("seconds", std::to_string(seconds));
  RecordProperty("megabytes", std::to_string(megabytes));
  EXPECT_LT(megabytes, 40);
  EXPECT_LT(seconds, 6);  // 3 on cores that do nothing else
}

}  // namespace
}  // namespace bigmac
