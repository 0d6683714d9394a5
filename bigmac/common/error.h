#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace bigmac {

// The caller's input is wrong; the message says what, where, and what would be right.
// Programs end with exit code 2.
class InvalidInput : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Something failed while the program ran: a rank, a link, a file. Programs end with exit code 1.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// concat("M=", 8, " V=", 2) -> "M=8 V=2"
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace bigmac
