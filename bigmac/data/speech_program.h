#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace bigmac::data {

struct ProgramResult {
  int not_started = 0;  // errno where the program could not be started
  bool succeeded = false;
  std::string output, messages;  // standard output and standard error
};

// Runs a program, found in PATH, with `input` as its standard input, to its end. Safe to call from several
// threads. Throws Failure where the system has no descriptors or memory left, or where the program takes
// longer than `limit`; it is killed then.
ProgramResult run_program(const std::vector<std::string>& command, const std::string& input,
                          std::chrono::milliseconds limit);

}  // namespace bigmac::data
