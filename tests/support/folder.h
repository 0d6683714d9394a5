#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "bigmac/common/error.h"

namespace bigmac {

// An empty folder, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "bigmac-XXXXXX").string()) {
    if (!mkdtemp(path_.data())) throw Failure("cannot make a temporary folder");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return (std::filesystem::path(path_) / name).string(); }

 private:
  std::string path_;
};

}  // namespace bigmac
