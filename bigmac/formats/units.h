#pragma once

#include <cstdint>
#include <string_view>

namespace bigmac {

// Figures with their unit, as people write them: "80GiB", "80 GiB", "8192", "1.5e3 us". A number alone has
// the first unit named below. Throws InvalidInput for anything else, what is below 0 or not finite, naming
// the units.

double bytes_from(std::string_view text);  // B; kB, MB, GB, TB (powers of 1000); KiB, MiB, GiB, TiB (of 1024)
int64_t count_from(std::string_view text);     // a whole number; "8K" is 8192, "1M" is 1048576
double seconds_from(std::string_view text);    // s; ms, us, ns
double bandwidth_from(std::string_view text);  // B/s; kB/s .. TB/s, KiB/s .. TiB/s; bits: kb/s .. Tb/s
double flops_from(std::string_view text);      // FLOP/s; GFLOP/s, TFLOP/s, PFLOP/s

}  // namespace bigmac
