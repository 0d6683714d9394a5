#include <gtest/gtest.h>

#include <sstream>

#include "tests/simulate/memory_support.h"

namespace bigmac {
namespace {

TEST(OutOfMemory, SaysNothingWhereAllFits) {
  auto schedule = make_schedule(backbone_step(4, 1, 8));
  auto timeline = simulate(schedule, {});
  EXPECT_EQ(explain_out_of_memory(schedule, timeline, {.stage = {1}}, 4), "");
  EXPECT_NE(explain_out_of_memory(schedule, timeline, {.stage = {1}}, 3.99), "");
}

// Rank 0 of 1F1B with P=4: 30 GiB of parameters, 8 of optimizer states and up to four microbatches of 12 GiB,
// over 80 GiB with the fourth, that starts at 3; the most is held when recompute adds 2.5 at the first
// backward, from 10 to 12, where the gradient of 0.5 has come as well.
TEST(OutOfMemory, NamesTheRankTheMomentAndTheLargestHolders) {
  auto schedule = make_schedule(backbone_step(4, 1, 8));
  auto timeline = simulate(schedule, {});
  Bytes bytes{.constant = {{{"parameters", 30 * kGiB}, {"optimizer states", 8 * kGiB}, {"buckets", 1024}}},
              .stage = {12 * kGiB, kGiB, kGiB, kGiB},
              .stage_work = {2.5 * kGiB},
              .boundary = 0.5 * kGiB};
  EXPECT_EQ(explain_out_of_memory(schedule, timeline, bytes, 80 * kGiB),
            "out of memory on rank 0: 89.0 GiB of 80.0 GiB, first at 3 in backbone F chunk 0 microbatch 3\n"
            "  48.0 GiB  activations of stage 0 (4 microbatches)\n"
            "  30.0 GiB  parameters\n"
            "  8.00 GiB  optimizer states\n"
            "  2.50 GiB  recomputed activations of stage 0\n"
            "   512 MiB  received gradients of stage 0 (1 microbatch)\n");
}

TEST(OutOfMemory, NamesItemsAndWhatTheyHandOver) {
  Step step = nested_step(2, 1, 4, true, true);
  auto schedule = make_schedule(step);
  auto timeline = simulate(schedule, {.modules = {{1, 1}}});
  Bytes bytes{.forward_work = {1}, .item = {7}, .item_work = {3}, .item_out = {2}};
  std::set<std::string> names;
  for (int rank = 0; rank < 2; ++rank)
    for (double time = 0; time < timeline.end; time += 0.25)
      for (const auto& holder : holders_at(schedule, timeline, bytes, rank, time)) names.insert(holder.what);
  for (const char* what :
       {"forward workspace of stage 0", "forward workspace of stage 1", "image activations (1 item)",
        "image activations (2 items)", "recomputed activations of image", "image outputs",
        "image output gradients", "picture activations (1 item)", "recomputed activations of picture",
        "picture inputs", "picture input gradients"})
    EXPECT_TRUE(names.contains(what)) << what;
}

TEST(OutOfMemory, ListsHoldersThatAddUpToNoMoreThanTheTotal) {
  Random random(kSeed);
  int told = 0;
  for (int round = 0; round < 210; ++round) {
    auto schedule = random_table(random, kArrangements[round % 7], {.modules = {{1, 2}}});
    if (!schedule) continue;
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(schedule->step)));
    auto timeline = random_timeline(random, *schedule, random_costs_of(random, schedule->step, 0));
    Bytes bytes = random_bytes(random, schedule->step);
    auto peaks = peak_memory(*schedule, timeline, bytes);
    auto worst = std::max_element(peaks.begin(), peaks.end(),
                                  [](const auto& a, const auto& b) { return a.peak < b.peak; });
    double limit = uniform(random, 0, 1.2 * worst->peak);
    auto text = explain_out_of_memory(*schedule, timeline, bytes, limit);
    EXPECT_EQ(text.empty(), worst->peak <= limit);
    if (text.empty()) continue;
    ++told;
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    EXPECT_TRUE(line.starts_with(concat("out of memory on rank ", worst - peaks.begin(), ": ",
                                        bytes_text(worst->peak), " of ", bytes_text(limit), ", first at ")))
        << line;
    auto holders = holders_at(*schedule, timeline, bytes, int(worst - peaks.begin()), worst->peak_time);
    double sum = 0;
    size_t listed = 0;
    for (; std::getline(lines, line); ++listed) {
      ASSERT_LT(listed, std::min<size_t>(5, holders.size()));
      EXPECT_TRUE(contains(line, holders[listed].what)) << line;
      EXPECT_TRUE(contains(line, bytes_text(holders[listed].bytes))) << line;
      sum += holders[listed].bytes;
    }
    EXPECT_EQ(listed, std::min<size_t>(5, holders.size()));
    EXPECT_LE(sum, worst->peak * (1 + 1e-9));
    if (HasFailure()) return;
  }
  EXPECT_GT(told, 80);
}

TEST(BytesText, HasThreeDigitsAndTheLargestUnitThatFits) {
  const std::pair<double, const char*> cases[] = {{0, "0 bytes"},
                                                  {1, "1 byte"},
                                                  {17, "17 bytes"},
                                                  {1023, "1023 bytes"},
                                                  {1023.7, "1.00 KiB"},
                                                  {1024, "1.00 KiB"},
                                                  {1536, "1.50 KiB"},
                                                  {10234, "9.99 KiB"},
                                                  {10239, "10.0 KiB"},
                                                  {102391, "100 KiB"},
                                                  {1023.4 * 1024, "1023 KiB"},
                                                  {1023.6 * 1024, "1.00 MiB"},
                                                  {512.0 * 1024 * 1024, "512 MiB"},
                                                  {93.1 * kGiB, "93.1 GiB"},
                                                  {80 * kGiB, "80.0 GiB"},
                                                  {2.5 * 1024 * kGiB, "2.50 TiB"},
                                                  {3 * 1024 * 1024 * kGiB, "3.00 PiB"},
                                                  {5000 * 1024.0 * 1024 * 1024 * kGiB, "5000 EiB"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(bytes_text(bytes), text);
}

}  // namespace
}  // namespace bigmac
