#include "bigmac/common/read_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

class ReadFile : public testing::Test {
 protected:
  std::string written(const std::string& text) const {
    auto path = (std::filesystem::temp_directory_path() / concat("bigmac_read_file_", getpid())).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove(written(""), ignored);
  }
};

std::string refused(const std::string& path, size_t most = 100) {
  try {
    read_file(path, most, "a table");
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST_F(ReadFile, GivesAllBytesAsTheyAre) {
  EXPECT_EQ(read_file(written(""), 0), "");
  std::string bytes(200'000, 'x');
  bytes[0] = '\0';
  bytes[199'999] = '\xff';
  EXPECT_EQ(read_file(written(bytes), bytes.size()), bytes);
}

TEST_F(ReadFile, RefusesMoreThanItIsAskedFor) {
  auto path = written(std::string(101, 'x'));
  EXPECT_EQ(refused(path), "cannot read '" + path + "': it has more than 100 bytes");
  EXPECT_EQ(refused(path, 101), "");
  EXPECT_EQ(refused("/dev/zero"), "cannot read '/dev/zero': it has more than 100 bytes");
}

TEST_F(ReadFile, SaysWhatTheSystemSaysAndWhatWouldBeRightForAFolder) {
  EXPECT_EQ(refused("/nowhere/file"), "cannot read '/nowhere/file': No such file or directory");
  EXPECT_EQ(refused("/"), "cannot read '/': it is a folder; right would be a table");
}

}  // namespace
}  // namespace bigmac
