#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "bigmac/measured/read_measured.h"
#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac {

using Json = nlohmann::ordered_json;

// A folder of its own for every test, removed behind it.
class InFolder : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              concat("bigmac_measured_", info->test_suite_name(), "_", info->name(), "_", getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string folder() const { return folder_.string(); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string write_gzip(const std::string& name, const std::string& text) const {
    gzFile file = gzopen(path(name).c_str(), "wb1");
    gzwrite(file, text.data(), unsigned(text.size()));
    gzclose(file);
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

// What reading refuses with; "" where it does not.
inline std::string told(const std::vector<std::string>& paths, const ReadOptions& options = {}) {
  return refusal([&] { read_measured(paths, options); }).value_or("");
}

inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_TRUE(contains(text, part)) << "lacks '" << part << "': " << text;
}

inline const std::string kPrimus = BIGMAC_SHARED_DATA "/primus-pp8";

// The rows of a table, without what else a schedule holds.
inline std::vector<std::vector<std::string>> words_of(const Schedule& schedule) {
  std::vector<std::vector<std::string>> rows;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto& row = rows.emplace_back();
    for (const auto& op : schedule.row(rank)) row.push_back(describe(schedule, op));
  }
  return rows;
}

}  // namespace bigmac
