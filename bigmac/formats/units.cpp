#include "bigmac/formats/units.h"

#include <charconv>
#include <cmath>
#include <span>

#include "bigmac/common/error.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac {
namespace {

// number * factor / over, of which one is 1, so that 5us is exactly 5e-6.
struct Unit {
  std::string_view name;
  double factor;
  double over = 1;
};

constexpr double kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi;

constexpr Unit kBytes[] = {{"B", 1},     {"kB", 1e3},  {"KB", 1e3},  {"MB", 1e6},  {"GB", 1e9},
                           {"TB", 1e12}, {"KiB", kKi}, {"MiB", kMi}, {"GiB", kGi}, {"TiB", kTi}};
constexpr Unit kCounts[] = {{"K", kKi}, {"M", kMi}};
constexpr Unit kSeconds[] = {{"s", 1}, {"ms", 1, 1e3}, {"us", 1, 1e6}, {"ns", 1, 1e9}};
constexpr Unit kBandwidths[] = {{"B/s", 1},     {"kB/s", 1e3},  {"MB/s", 1e6},   {"GB/s", 1e9},
                                {"TB/s", 1e12}, {"KiB/s", kKi}, {"MiB/s", kMi},  {"GiB/s", kGi},
                                {"TiB/s", kTi}, {"kb/s", 125},  {"Mb/s", 125e3}, {"Gb/s", 125e6},
                                {"Tb/s", 125e9}};
constexpr Unit kFlops[] = {{"FLOP/s", 1}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};

[[noreturn]] void refuse(std::string_view text, std::string_view what, std::string_view such) {
  throw InvalidInput(concat("must be ", what, " such as ", such, ", got ", in_quotes(text)));
}

double parsed(std::string_view text, std::span<const Unit> units, std::string_view what,
              std::string_view such) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || std::signbit(number)) refuse(text, what, such);
  auto name = text.substr(size_t(end - text.data()));
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  if (name.empty()) return number;
  for (const auto& unit : units)
    if (unit.name == name && std::isfinite(number * unit.factor)) return number * unit.factor / unit.over;
  refuse(text, what, such);
}

}  // namespace

double bytes_from(std::string_view text) {
  return parsed(text, kBytes, "bytes", "80GiB, 512MiB, 80GB or 4096");
}

int64_t count_from(std::string_view text) {
  constexpr std::string_view kWhat = "a whole number", kSuch = "8192, 8K or 1M";
  double count = parsed(text, kCounts, kWhat, kSuch);
  if (count != std::floor(count) || count > 9e15) refuse(text, kWhat, kSuch);
  return int64_t(count);
}

double seconds_from(std::string_view text) {
  return parsed(text, kSeconds, "a time", "3us, 0.5ms or 1e-5");
}

double bandwidth_from(std::string_view text) {
  return parsed(text, kBandwidths, "bytes a second", "200GB/s, 400Gb/s (bits) or 50e9");
}

double flops_from(std::string_view text) {
  return parsed(text, kFlops, "operations a second", "989TFLOP/s or 989e12");
}

}  // namespace bigmac
