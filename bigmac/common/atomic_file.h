#pragma once

#include <cstddef>
#include <string>

namespace bigmac {

// A file written beside its path, brought to the disk and renamed: the path holds either its old contents or
// all of the new ones. What is not published is removed. Throws Failure naming the path and the reason.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t count);
  void publish();

 private:
  [[noreturn]] void fail(const char* action);

  std::string path_, temporary_;
  int descriptor_ = -1;
};

}  // namespace bigmac
