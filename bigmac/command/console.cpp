#include "bigmac/command/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

// 0, or the errno of what went wrong.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(descriptor, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(size_t(written));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

Failure cannot_write(std::string_view what, int error) {
  return Failure(concat("cannot write ", what, ": ", std::strerror(error)));
}

void print(std::string_view kind, const char* colour, std::string_view message) {
  bool coloured = wants_colour(STDERR_FILENO);
  write_all(STDERR_FILENO, concat("bigmac: ", coloured ? colour : "", kind, ":", coloured ? "\033[0m" : "",
                                  " ", message, "\n"));
}

}  // namespace

bool wants_colour(int descriptor) {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) && !(refused && *refused) && !(terminal && std::strcmp(terminal, "dumb") == 0);
}

void print_error(std::string_view message) {
  print("error", "\033[1;31m", message);
}

void print_note(std::string_view message) {
  print("note", "\033[1;36m", message);
}

void write_stdout(std::string_view text) {
  int error = write_all(STDOUT_FILENO, text);
  if (error != 0 && error != EPIPE) throw cannot_write("to standard output", error);
}

void write_file(const std::string& path, std::string_view text) {
  auto quoted = concat("'", path, "'");
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) throw cannot_write(quoted, errno);
  int error = write_all(file, text);
  if (close(file) != 0 && error == 0) error = errno;
  if (error != 0) throw cannot_write(quoted, error);
}

}  // namespace bigmac
