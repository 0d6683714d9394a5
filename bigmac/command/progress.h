#pragma once

#include <cstdint>
#include <string>

namespace bigmac {

// A bar on stderr with what is done, a note and the time left; silent where stderr is no terminal.
class Progress {
 public:
  Progress(std::string what, int64_t total);
  ~Progress();
  void done(int64_t count, const std::string& note);

 private:
  std::string what_;
  int64_t total_;
  double start_;
  bool shown_;
};

}  // namespace bigmac
