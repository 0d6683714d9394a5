#pragma once

#include <string>

#include "bigmac/simulate/simulate.h"

namespace bigmac {

// The report for people: the step's figures with their definitions, then a line a rank.
std::string to_text(const Step& step, const Costs& costs, const StepReport& report);

}  // namespace bigmac
