#include "tests/controls/served.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace bigmac {
namespace {

std::string first_line(int output) {
  std::string line;
  char letter = 0;
  while (read(output, &letter, 1) == 1 && letter != '\n') line += letter;
  return line;
}

}  // namespace

Served::Served(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{BIGMAC_PROGRAM, "view", "--serve", "--port", "0"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  int error = posix_spawn(&program_, BIGMAC_PROGRAM, &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  auto line = error == 0 ? first_line(ends[0]) : "";
  close(ends[0]);
  auto begin = line.find("http://"), last = line.find(' ', begin);
  if (begin == std::string::npos) throw std::runtime_error("bigmac does not serve: " + line);
  address_ = line.substr(begin, last - begin);
}

Served::~Served() {
  if (program_ > 0) end(SIGKILL);
}

int Served::port() const {
  return std::stoi(address_.substr(address_.rfind(':') + 1));
}

int Served::end(int signal) {
  kill(program_, signal);
  int status = 0;
  waitpid(program_, &status, 0);
  program_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace bigmac
