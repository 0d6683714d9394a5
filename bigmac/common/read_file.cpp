#include "bigmac/common/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr size_t kBlock = 1 << 16;

class File {
 public:
  explicit File(const std::string& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) fail(std::strerror(errno));
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::string read_up_to(size_t most, std::string_view right) const {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) fail(std::strerror(errno));
    if (S_ISDIR(status.st_mode)) fail(concat("it is a folder; right would be ", right));
    size_t size = S_ISREG(status.st_mode) ? size_t(status.st_size) : 0;
    if (size > most) fail_too_large(most);
    std::string text(size + kBlock, '\0');
    size_t length = 0;
    while (true) {
      if (length == text.size()) text.resize(text.size() * 2);
      ssize_t count = ::read(descriptor_, text.data() + length, text.size() - length);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(std::strerror(errno));
      if (count == 0) break;
      length += size_t(count);
      if (length > most) fail_too_large(most);
    }
    text.resize(length);
    return text;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw InvalidInput(concat("cannot read '", path_, "': ", reason));
  }
  [[noreturn]] void fail_too_large(size_t most) const { fail(concat("it has more than ", most, " bytes")); }

  const std::string& path_;
  int descriptor_;
};

}  // namespace

std::string read_file(const std::string& path, size_t most_bytes, std::string_view right) {
  return File(path).read_up_to(most_bytes, right);
}

}  // namespace bigmac
