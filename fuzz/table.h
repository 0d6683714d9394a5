#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "bigmac/common/error.h"
#include "bigmac/schedule/check.h"

namespace bigmac {

// One input for a format's reader and writer: what can be read can be checked, and written back as the same
// table.
template <class Read, class Write>
int fuzz_table(std::string_view text, Read&& read, Write&& write) {
  Schedule schedule;
  try {
    schedule = read(text, "fuzz");
  } catch (const InvalidInput&) {
    return 0;
  }
  bool fits = check(schedule).empty();
  fits = check(schedule, Sends::blocking).empty() && fits;
  if (fits) peak_live(schedule);
  if (read(write(schedule), "fuzz") != schedule) std::abort();
  return 0;
}

}  // namespace bigmac
