#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace bigmac {

// What the program's stdout is connected to. A terminal takes stderr as well.
enum class Stdout { pipe, terminal, pipe_without_reader, full_disk };

struct Setting {
  Stdout stdout_is = Stdout::pipe;
  std::vector<std::pair<std::string, std::string>> environment = {};
};

struct Outcome {
  int exit_code = -1;  // 128 + the signal if one ended it
  std::string out;
  std::string err;
};

// Runs the real bigmac, without a shell, until it ends.
Outcome run_bigmac(const std::vector<std::string>& arguments, const Setting& setting = {});

// The same for arguments without blanks: "schedule --pp 4".
Outcome run_bigmac(const std::string& arguments, const Setting& setting = {});

// Whether `part` stands somewhere in `text`; tells both.
testing::AssertionResult contains(const std::string& text, const std::string& part);

// A path for a file of this process, removed at the end of the scope.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  std::string text() const;

 private:
  std::string path_;
};

}  // namespace bigmac
