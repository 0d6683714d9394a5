#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace bigmac {

// `bigmac view ... --serve --port 0`, running.
class Served {
 public:
  explicit Served(const std::vector<std::string>& arguments);
  ~Served();
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  const std::string& address() const { return address_; }  // "http://127.0.0.1:40123/"
  int port() const;
  int end(int signal);  // sends it; the exit code, or 128 + the signal that ended it

 private:
  pid_t program_ = -1;
  std::string address_;
};

}  // namespace bigmac
