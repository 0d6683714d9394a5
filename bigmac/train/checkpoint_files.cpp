#include "bigmac/train/checkpoint_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "bigmac/common/error.h"

namespace bigmac::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";

[[noreturn]] void fail(const char* action, const std::string& path, const std::string& reason) {
  throw Failure(concat("cannot ", action, " ", path, ": ", reason));
}

template <class... Parts>
std::string format(const char* pattern, Parts... parts) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, parts...);
  return text;
}

std::string tagged(const std::string& folder, int64_t step, const SaveId& save, const char* ending) {
  return concat(whole_folder(folder, step), ".", format("%016llx", (unsigned long long)save.attempt), "-",
                save.serial, ending);
}

template <class Number>
bool parse_number(std::string_view text, Number& number, int base = 10) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::optional<int64_t> parse_step(std::string_view name) {
  int64_t step = 0;
  if (!name.starts_with(kPrefix) || !parse_number(name.substr(kPrefix.size()), step) || step < 0)
    return std::nullopt;
  // One spelling a step.
  if (fs::path(whole_folder("", step)).filename() != name) return std::nullopt;
  return step;
}

// "step-00000120.00c0ffee00c0ffee-7.part" -> the save; the ending must be given.
std::optional<SaveId> parse_tagged(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  name.remove_suffix(ending.size());
  auto dot = name.find('.'), dash = name.rfind('-');
  if (dot == name.npos || dash == name.npos || dash < dot || !parse_step(name.substr(0, dot)))
    return std::nullopt;
  SaveId save;
  if (!parse_number(name.substr(dot + 1, dash - dot - 1), save.attempt, 16) ||
      !parse_number(name.substr(dash + 1), save.serial))
    return std::nullopt;
  return save;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory) fail("list", folder, error.message());
  return names;
}

void rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail("rename", concat(from, " to ", to), strerror(errno));
}

// Both exist, and change names at once. False where the file system has no such operation.
bool exchange(const std::string& a, const std::string& b) {
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
  fail("rename", concat(a, " to ", b), strerror(errno));
}

void sync_folder(const std::string& path) {
  int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("open", path, strerror(errno));
  int result = fsync(descriptor), error = errno;
  close(descriptor);
  // Some file systems cannot sync a folder, and need not.
  if (result != 0 && error != EINVAL && error != ENOTSUP) fail("sync", path, strerror(error));
}

void remove_all(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error && error != std::errc::no_such_file_or_directory) fail("remove", path, error.message());
}

}  // namespace

std::string whole_folder(const std::string& folder, int64_t step) {
  return (fs::path(folder) / format("step-%08lld", (long long)step)).string();
}

std::string part_folder(const std::string& folder, int64_t step, const SaveId& save) {
  return tagged(folder, step, save, ".part");
}

std::string rank_file(int rank, const char* ending) {
  return format("rank-%03d", rank) + ending;
}

std::map<int64_t, std::string> whole_checkpoints(const std::string& folder) {
  std::map<int64_t, std::string> found;
  for (const auto& name : names_in(folder))
    if (auto step = parse_step(name)) found.emplace(*step, whole_folder(folder, *step));
  return found;
}

void make_folder(const std::string& path, bool writable) {
  std::error_code error;
  fs::create_directories(path, error);
  // Where another rank was faster there is no error; where a file has the name there may be none either.
  if (error) fail("make the folder", path, error.message());
  if (!fs::is_directory(path, error)) fail("make the folder", path, "it is a file");
  if (writable && faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    fail("write into", path, strerror(errno));
}

void sweep(const std::string& folder, const SaveId& save) {
  for (const auto& name : names_in(folder)) {
    auto part = parse_tagged(name, ".part");
    bool alive = part && part->attempt == save.attempt && part->serial >= save.serial;
    // A rank that was given up may still be writing into it. What stays is tried again at the next save.
    std::error_code ignored;
    if ((part && !alive) || parse_tagged(name, ".removed")) fs::remove_all(fs::path(folder) / name, ignored);
  }
}

void discard(const std::string& folder, int64_t step, const SaveId& save) {
  auto part = part_folder(folder, step, save), removed = tagged(folder, step, save, ".removed");
  std::error_code error;
  if (!fs::exists(part, error)) return;
  rename(part, removed);
  remove_all(removed);
}

void publish(const std::string& folder, int64_t step, const SaveId& save) {
  auto part = part_folder(folder, step, save), whole = whole_folder(folder, step);
  sync_folder(part);
  std::error_code error;
  if (!fs::exists(whole, error)) {
    rename(part, whole);
  } else if (exchange(part, whole)) {
    rename(part, tagged(folder, step, save, ".removed"));
  } else {
    auto aside = tagged(folder, step, save, ".aside");
    rename(whole, aside);
    rename(part, whole);
    rename(aside, tagged(folder, step, save, ".removed"));
  }
  sync_folder(folder);
}

void retire(const std::string& folder, int64_t step, const SaveId& save, int64_t keep) {
  auto whole = whole_checkpoints(folder);
  int older = 0;
  for (auto item = whole.rbegin(); item != whole.rend(); ++item) {
    if (item->first > step)
      rename(item->second, tagged(folder, item->first, save, ".aside"));
    else if (item->first < step && keep > 0 && ++older >= keep)
      rename(item->second, tagged(folder, item->first, save, ".removed"));
  }
  sync_folder(folder);
  for (const auto& name : names_in(folder))
    if (parse_tagged(name, ".removed")) remove_all((fs::path(folder) / name).string());
}

}  // namespace bigmac::train
