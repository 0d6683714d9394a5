#include "bigmac/profile/event_log.h"

#include <filesystem>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

namespace fs = std::filesystem;

void remove_files_of(const std::string& folder, const std::string& begin) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    auto name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(".events")) fs::remove(entry.path());
  }
}

}  // namespace

EventLog::EventLog(const std::string& folder, const Profiled& of, int64_t steps) {
  auto begin = concat("rank", of.rank, "-");
  try {
    fs::create_directories(folder);
    remove_files_of(folder, begin);
  } catch (const fs::filesystem_error& error) {
    throw Failure(concat("[profile] cannot write into '", folder, "': ", error.code().message()));
  }
  for (int64_t slot = 0; slot < steps; ++slot)
    files_.push_back(
        std::make_unique<EventFile>((fs::path(folder) / concat(begin, slot, ".events")).string(), of));
}

void EventLog::begin(const StepBegin& step) {
  current_ = begun_++ % files_.size();
  file().begin(step);
}

}  // namespace bigmac
