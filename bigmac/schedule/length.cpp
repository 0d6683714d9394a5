#include "bigmac/schedule/length.h"

#include "bigmac/schedule/timing.h"

namespace bigmac {

double length_of(const Schedule& schedule, const Costs& costs) {
  Durations durations(schedule, costs);
  std::vector<double> ends;
  double length = 0;
  run_table(schedule, Dependencies(schedule), durations, durations.latency(), ends,
            [&](int, const Operator&, double, double end) { length = std::max(length, end); });
  return length;
}

}  // namespace bigmac
