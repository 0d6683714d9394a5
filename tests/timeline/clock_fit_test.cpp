#include "bigmac/timeline/clock_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "bigmac/common/error.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

// Another rank's clock, and messages that take from 20 us up, each way for itself, now and then milliseconds.
struct Other {
  double offset, drift;
  Random random;

  double shows(double time) const { return time + offset + drift * time; }
  double delay() {
    return 20e-6 + (integer(random, 0, 9) == 0 ? uniform(random, 0, 5e-3) : uniform(random, 0, 60e-6));
  }
  ClockProbe probe(double sent) {
    double arrived = sent + delay(), answered = arrived + uniform(random, 0, 1e-4);
    return {sent, shows(arrived), shows(answered), answered + delay()};
  }
};

TEST(ClockFit, FindsOffsetAndDriftToWithinTheErrorItGives) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    Random random(seed);
    Other other{uniform(random, -11, 11), uniform(random, -1e-4, 1e-4), Random(seed + 1000)};
    double length = uniform(random, 2, 30);
    std::vector<ClockProbe> probes;
    for (int i = 0; i < 16; ++i) probes.push_back(other.probe(uniform(random, 0, 0.01)));
    for (int i = 0; i < 16; ++i) probes.push_back(other.probe(length + uniform(random, 0, 0.01)));
    auto fit = fit_clock(probes);
    EXPECT_LT(fit.error, 2.5e-4);
    for (double time = 0; time <= length; time += length / 7)
      EXPECT_NEAR(fit.to_reference(other.shows(time)), time, fit.error + 1e-6);
  }
}

TEST(ClockFit, KnowsNoDriftOfProbesThatAreCloseTogether) {
  Other other{3, 1e-4, Random(7)};
  std::vector<ClockProbe> probes;
  for (int i = 0; i < 16; ++i) probes.push_back(other.probe(0.001 * i));
  auto fit = fit_clock(probes);
  EXPECT_EQ(fit.drift, 0);
  EXPECT_NEAR(fit.to_reference(other.shows(0.01)), 0.01, fit.error + 1e-5);
}

// Clocks shifted by 11 seconds: no receive ends before its send starts.
TEST(ClockFit, PutsMessagesBehindTheirSending) {
  Other other{11, 5e-5, Random(3)};
  std::vector<ClockProbe> probes;
  for (int i = 0; i < 32; ++i) probes.push_back(other.probe(i < 16 ? 0.001 * i : 10 + 0.001 * i));
  auto fit = fit_clock(probes);
  for (int i = 0; i < 1000; ++i) {
    auto message = other.probe(0.01 * i);
    EXPECT_GE(fit.to_reference(message.arrived), message.sent - fit.error);
    EXPECT_LE(fit.to_reference(message.answered), message.back + fit.error);
  }
}

TEST(ClockFit, OfNoProbesOrOfOneClockIsThatClock) {
  EXPECT_EQ(fit_clock({}).to_reference(5), 5);
  std::vector<ClockProbe> probes{{1, 1.5, 1.5, 2}};
  auto fit = fit_clock(probes);
  EXPECT_EQ(fit.offset, 0);
  EXPECT_EQ(fit.error, 0.5);
  EXPECT_EQ(fit.to_reference(7), 7);
}

}  // namespace
}  // namespace bigmac
