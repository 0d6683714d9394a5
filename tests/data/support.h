#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "bigmac/common/error.h"
#include "bigmac/data/emoji_list.h"
#include "bigmac/data/glyphs.h"

#define SKIP_WITHOUT(path, package)   \
  if (!std::filesystem::exists(path)) \
  GTEST_SKIP() << path << " is absent; Debian's package " << package << " has it"
#define SKIP_WITHOUT_EMOJI()                                  \
  SKIP_WITHOUT(bigmac::data::kEmojiListPath, "unicode-data"); \
  SKIP_WITHOUT(bigmac::data::kEmojiFontPath, "fonts-noto-color-emoji")

namespace bigmac::data {

// A folder of its own for each test, removed at the end.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "bigmac-data-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw Failure("mkdtemp failed");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& contents) const {
    std::ofstream(path_ / name, std::ios::binary) << contents;
    return *this / name;
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

// The message of the Error that `action` throws; a failed expectation where it throws none.
template <class Error = InvalidInput, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace bigmac::data
