#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/apps/program.h"

namespace bigmac {

inline const std::string kSmall = BIGMAC_SOURCE_DIR "/workloads/small.yaml";
inline const std::string kModels = BIGMAC_SOURCE_DIR "/workloads/models/";

// A file with this text, removed at the end of the scope.
class WrittenFile {
 public:
  WrittenFile(const std::string& name, const std::string& text) : file_(name) {
    std::ofstream(file_.path(), std::ios::binary) << text;
  }
  const std::string& path() const { return file_.path(); }

 private:
  TemporaryFile file_;
};

inline std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// workloads/small.yaml with `from` replaced by `to`, and `more` behind its last line.
inline std::string small_with(const std::string& from, const std::string& to, const std::string& more = "") {
  auto text = text_of(kSmall);
  auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to) + more;
}

// Exit code 2, nothing on stdout, exactly this on stderr.
inline void expect_wrong(const std::vector<std::string>& arguments, const std::string& message) {
  auto outcome = run_bigmac(arguments);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "bigmac: error: " + message + "\n");
}

inline std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream words(text);
  for (std::string word; words >> word;) list.push_back(word);
  return list;
}

inline void expect_wrong(const std::string& arguments, const std::string& message) {
  expect_wrong(words_of(arguments), message);
}

}  // namespace bigmac
