#include "bigmac/data/speech_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "bigmac/common/error.h"

extern char** environ;

namespace bigmac::data {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) {
  throw Failure(concat("cannot ", what, ": ", std::strerror(errno)));
}

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

// A file in memory. Unlike a pipe it takes all of its contents at once, and no reader's end breaks it.
int memory_file(const std::string& contents) {
  int file = memfd_create("bigmac", MFD_CLOEXEC);
  if (file < 0) fail("make a file in memory");
  for (size_t done = 0; done < contents.size();) {
    ssize_t count = write(file, contents.data() + done, contents.size() - done);
    if (count < 0 && errno != EINTR) {
      ::close(file);
      fail("write a file in memory");
    }
    done += static_cast<size_t>(std::max<ssize_t>(count, 0));
  }
  lseek(file, 0, SEEK_SET);
  return file;
}

// Appends what is there to read. False at the end.
bool read_some(int descriptor, std::string& text) {
  char block[1 << 16];
  ssize_t count = read(descriptor, block, sizeof block);
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  text.append(block, static_cast<size_t>(count));
  return true;
}

int start(pid_t& pid, const std::vector<std::string>& command, int in, int out, int err) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, in, 0);
  posix_spawn_file_actions_adddup2(&files, out, 1);
  posix_spawn_file_actions_adddup2(&files, err, 2);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const auto& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int error = posix_spawnp(&pid, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& command, const std::string& input,
                          std::chrono::milliseconds limit) {
  Descriptor in(memory_file(input)), messages(memory_file(""));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("make a pipe");
  Descriptor out(ends[0]), writer(ends[1]);

  ProgramResult result;
  pid_t pid = 0;
  result.not_started = start(pid, command, in.get(), writer.get(), messages.get());
  if (result.not_started != 0) return result;
  writer.close();

  auto deadline = Clock::now() + limit;
  bool in_time = true;
  for (bool more = true; more && in_time;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{out.get(), POLLIN, 0};
    int count = left <= 0 ? 0 : poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 1000000)));
    in_time = count != 0;
    if (count > 0) more = read_some(out.get(), result.output);
  }
  if (!in_time) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (!in_time)
    throw Failure(concat("'", command[0], "' has not ended after ", limit.count(), " ms and was killed"));
  result.succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  lseek(messages.get(), 0, SEEK_SET);
  while (read_some(messages.get(), result.messages)) continue;
  return result;
}

}  // namespace bigmac::data
