#pragma once

#include <string>
#include <vector>

#include "bigmac/analysis/named_waits.h"
#include "bigmac/analysis/waits.h"

namespace bigmac {

// "rank 2 is slow: ...; costs 5 % of the step"
std::string sentence(const Finding& finding);
std::string share_in_percent(double share);  // "5.3 %", from 10 % on without the point

// What there is to see of a step, without a simulation: its model, its longest waits with their kinds, and in
// sentences what costs how much, the dearest first, what ranks wait for, and what the step's end hangs on.
struct Explained {
  StepModel model;
  std::vector<std::vector<NamedWait>> waits;
  std::vector<std::string> sentences;
};
Explained explain(const Recording& recording, size_t most_waits);

}  // namespace bigmac
