#pragma once

#include <string>

#include "bigmac/schedule/table.h"

namespace bigmac {

// The first microbatches of a permuted step, as the caller counts them; empty where they stand as they come.
std::string order_line(const Step& step);

// What the cells of a grid mean, as far as the table has such.
std::string grid_legend(const Schedule& schedule);

// What the cells do not say: the items of shares that have some of several microbatches, a line a share, the
// first of them where there are many. Empty where there are no such.
std::string share_list(const Schedule& schedule);

}  // namespace bigmac
