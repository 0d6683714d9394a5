#include "bigmac/command/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace bigmac {
namespace {

constexpr int kWidth = 24;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string clock_text(double left) {
  auto whole = std::llround(left);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)), total_(total), start_(seconds()), shown_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::done(int64_t count, const std::string& note) {
  if (!shown_ || total_ == 0) return;
  double share = double(count) / double(total_);
  double left = (seconds() - start_) * (1 - share) / std::max(share, 1e-9);
  int filled = int(share * kWidth);
  fmt::print(stderr, "\r\033[K{} {}{} {}/{}  {}  ETA {}", what_, std::string(size_t(filled), '#'),
             std::string(size_t(kWidth - filled), '.'), count, total_, note, clock_text(left));
  std::fflush(stderr);
}

}  // namespace bigmac
