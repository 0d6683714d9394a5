#include "bigmac/runtime/align_clocks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bigmac/common/error.h"
#include "bigmac/runtime/gather.h"
#include "bigmac/runtime/threads_transport.h"

namespace bigmac {
namespace {

// Rank r's clock: r * 11 s ahead, and faster by r in 100,000.
double shown_by(int rank, double time) {
  return time * (1 + rank * 1e-5) + rank * 11;
}

TEST(AlignClocks, OffsetAndDriftOfEachRankAreFoundToWithinTheErrorTheyGive) {
  for (int ranks : {1, 2, 4}) {
    SCOPED_TRACE(concat(ranks, " ranks"));
    double zero = now();
    run_threads(ranks, [&](Transport& transport) {
      int rank = transport.rank();
      double pretended = 0;  // a minute between the exchanges
      Clock clock = [&] { return shown_by(rank, now() - zero + pretended); };
      ClockAligner aligner;
      aligner.exchange(transport, 16, clock);
      pretended = 60;
      aligner.exchange(transport, 16, clock);
      auto fit = aligner.fit();
      EXPECT_LT(fit.error, 0.02);
      for (double time : {0.0, 30.0, 60.0})
        EXPECT_NEAR(fit.to_reference(shown_by(rank, time)), time, fit.error + 1e-5);
      if (rank == 0) {
        EXPECT_EQ(fit.to_reference(5), 5);
      }
    });
  }
}

// A rank's row, memory and begin are laid on rank 0's clock when they are gathered.
TEST(AlignClocks, GatheredStepsAreOnRankZerosClock) {
  constexpr int kRanks = 3;
  run_threads(kRanks, [&](Transport& transport) {
    int rank = transport.rank();
    auto at = [&](double time) { return shown_by(rank, time); };
    RankStep step;
    step.clock = {at(0) - rank * 11, double(rank) * 11, rank * 1e-5, rank * 1e-6};
    step.began = at(1);
    step.ended = at(2 + rank);
    step.record.row.operators = {{backbone_forward(0, rank), at(1.25), at(1.5)}};
    step.record.row.intervals = {
        {Spent::transfer, 0, backbone_forward(0, rank), at(1.5), at(1.75), 40, true}};
    step.record.memory = {{at(1.25), at(1.5)}, {10, 20}};
    auto gathered = gather_step(transport, step);
    EXPECT_EQ(gathered.clock_error, 2e-6);
    EXPECT_NEAR(gathered.timeline.start, 1, 1e-9);
    EXPECT_NEAR(gathered.timeline.end, 4, 1e-9);
    ASSERT_EQ(gathered.timeline.rows.size(), size_t(kRanks));
    for (int r = 0; r < kRanks; ++r) {
      const auto& row = gathered.timeline.rows[size_t(r)];
      EXPECT_EQ(row.operators.at(0).op, backbone_forward(0, r));
      EXPECT_NEAR(row.operators[0].start, 1.25, 1e-9);
      EXPECT_NEAR(row.intervals.at(0).end, 1.75, 1e-9);
      EXPECT_EQ(row.intervals[0].bytes, 40);
      EXPECT_TRUE(row.intervals[0].sends);
      EXPECT_NEAR(gathered.memory.at(size_t(r)).times.at(1), 1.5, 1e-9);
      EXPECT_EQ(gathered.memory[size_t(r)].bytes, (std::vector<double>{10, 20}));
    }
  });
}

}  // namespace
}  // namespace bigmac
