#include "tests/apps/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace bigmac {
namespace {

int checked(int result) {
  if (result < 0) throw std::system_error(errno, std::generic_category());
  return result;
}

struct Ends {
  int ours = -1;
  int theirs = -1;
};

Ends make_pipe() {
  int ends[2];
  checked(pipe2(ends, O_CLOEXEC));
  return {ends[0], ends[1]};
}

Ends make_terminal() {
  Ends ends;
  ends.ours = checked(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  checked(grantpt(ends.ours));
  checked(unlockpt(ends.ours));
  ends.theirs = checked(open(ptsname(ends.ours), O_RDWR | O_NOCTTY | O_CLOEXEC));
  return ends;
}

Ends make_stdout(Stdout kind) {
  if (kind == Stdout::terminal) return make_terminal();
  if (kind == Stdout::full_disk) return {-1, checked(open("/dev/full", O_WRONLY | O_CLOEXEC))};
  Ends ends = make_pipe();
  if (kind == Stdout::pipe_without_reader) {
    close(ends.ours);
    ends.ours = -1;
  }
  return ends;
}

[[noreturn]] void become_bigmac(const std::vector<std::string>& arguments, const Setting& setting,
                                int stdout_end, int stderr_end) {
  dup2(stdout_end, STDOUT_FILENO);
  dup2(stderr_end, STDERR_FILENO);
  unsetenv("NO_COLOR");
  setenv("TERM", "xterm", 1);
  for (const auto& [name, value] : setting.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv{const_cast<char*>("bigmac")};
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(BIGMAC_PROGRAM, argv.data());
  _exit(127);
}

// Reads both until both are closed; a terminal reports its end as an error.
void read_all(int out_end, std::string& out, int err_end, std::string& err) {
  pollfd ends[2] = {{out_end, POLLIN, 0}, {err_end, POLLIN, 0}};
  std::string* texts[2] = {&out, &err};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (poll(ends, 2, -1) < 0) continue;
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      char buffer[65536];
      ssize_t count = read(ends[i].fd, buffer, sizeof buffer);
      if (count > 0) {
        texts[i]->append(buffer, size_t(count));
      } else {
        close(ends[i].fd);
        ends[i].fd = -1;
      }
    }
  }
}

}  // namespace

Outcome run_bigmac(const std::vector<std::string>& arguments, const Setting& setting) {
  Ends out = make_stdout(setting.stdout_is);
  bool one_terminal = setting.stdout_is == Stdout::terminal;
  Ends err = one_terminal ? Ends{-1, out.theirs} : make_pipe();
  pid_t child = checked(fork());
  if (child == 0) become_bigmac(arguments, setting, out.theirs, err.theirs);
  close(out.theirs);
  if (!one_terminal) close(err.theirs);
  Outcome outcome;
  read_all(out.ours, outcome.out, err.ours, outcome.err);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Outcome run_bigmac(const std::string& arguments, const Setting& setting) {
  std::istringstream words(arguments);
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  return run_bigmac(list, setting);
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  bool found = text.find(part) != std::string::npos;
  auto result = found ? testing::AssertionSuccess() : testing::AssertionFailure();
  return result << "'" << part << (found ? "' stands in:\n" : "' does not stand in:\n") << text;
}

TemporaryFile::TemporaryFile(const std::string& name)
    : path_(testing::TempDir() + "bigmac_" + std::to_string(getpid()) + "_" + name) {}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::string TemporaryFile::text() const {
  std::ifstream in(path_);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace bigmac
