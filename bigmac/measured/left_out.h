#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bigmac {

// What reading left out or changed, for its notes: by what it was, how often, and the first of it.
class LeftOut {
 public:
  // `what` goes on behind a count: "operators end before they start; they are left out".
  void add(const std::string& what, const std::string& first);

  int64_t count() const;
  // "3 operators end before they start; they are left out; the first: rank 1, F0.3 at 0.25 s"
  std::vector<std::string> notes() const;

 private:
  struct Kind {
    std::string what, first;
    int64_t count = 0;
  };
  std::vector<Kind> kinds_;
};

}  // namespace bigmac
