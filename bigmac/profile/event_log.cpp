#include "bigmac/profile/event_log.h"

#include <charconv>
#include <filesystem>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

namespace fs = std::filesystem;

// "rank12-0.events" -> 12
int64_t rank_of(const std::string& name) {
  constexpr std::string_view kBegin = "rank";
  if (!name.starts_with(kBegin) || !(name.ends_with(".events") || name.ends_with(".events.gz"))) return -1;
  int64_t rank = -1;
  std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), rank);
  return rank;
}

void put_aside(const fs::path& folder, const Profiled& of) {
  auto is_mine = [&](int64_t rank) { return rank == of.rank || (of.rank == 0 && rank >= of.ranks); };
  auto before = folder / "before";
  for (const auto& place : {before, folder}) {
    std::vector<fs::path> files;
    std::error_code none;
    for (fs::directory_iterator at(place, none), end; !none && at != end; at.increment(none))
      if (is_mine(rank_of(at->path().filename().string()))) files.push_back(at->path());
    if (place == folder && !files.empty()) fs::create_directories(before);
    for (const auto& file : files)
      if (place == before)
        fs::remove(file);
      else
        fs::rename(file, before / file.filename());
  }
}

}  // namespace

EventLog::EventLog(const std::string& folder, const Profiled& of, int64_t steps) {
  try {
    fs::create_directories(folder);
    put_aside(folder, of);
  } catch (const fs::filesystem_error& error) {
    throw Failure(concat("[profile] cannot write into '", folder, "': ", error.code().message()));
  }
  for (int64_t slot = 0; slot < steps; ++slot)
    files_.push_back(std::make_unique<EventFile>(
        (fs::path(folder) / concat("rank", of.rank, "-", slot, ".events")).string(), of));
}

void EventLog::begin(const StepBegin& step) {
  current_ = begun_++ % files_.size();
  file().begin(step);
}

}  // namespace bigmac
