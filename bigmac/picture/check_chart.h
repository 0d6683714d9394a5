#pragma once

#include "bigmac/picture/chart.h"

namespace bigmac {

// Throws InvalidInput as to_svg(chart) says.
void check_chart(const Chart& chart);

}  // namespace bigmac
