#include "bigmac/common/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;

// Brings a rename to the disk too; not every file system can, and the file is in place already.
void sync_folder(const std::string& path) {
  auto folder = std::filesystem::path(path).parent_path();
  int directory = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  fsync(directory);
  close(directory);
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  static std::atomic<int> serial{0};
  auto temporary = concat(path, ".tmp.", getpid(), ".", serial++);
  descriptor_ = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("create");
  temporary_ = std::move(temporary);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t count) {
  const auto* bytes = static_cast<const char*>(data);
  while (count > 0) {
    ssize_t written = ::write(descriptor_, bytes, std::min(count, kMostAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    bytes += written;
    count -= size_t(written);
  }
}

void AtomicFile::publish() {
  if (fsync(descriptor_) != 0 || close(std::exchange(descriptor_, -1)) != 0) fail("write");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename the temporary file to");
  temporary_.clear();
  sync_folder(path_);
}

void AtomicFile::fail(const char* action) {
  throw Failure(concat("cannot ", action, " ", path_, ": ", std::strerror(errno)));
}

}  // namespace bigmac
