#include "bigmac/formats/read_table.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "bigmac/formats/table_csv.h"
#include "bigmac/formats/table_json.h"
#include "bigmac/formats/torch_table.h"
#include "bigmac/schedule/base.h"
#include "tests/formats/support.h"

namespace bigmac {
namespace {

class ReadTable : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string file(const std::string& text) const {
    std::ofstream(path("table"), std::ios::binary) << text;
    return path("table");
  }
  void expect(const std::string& path, const std::vector<std::string>& parts) const {
    expect_told(error_of([&] { read_table(path); }), parts);
  }

  static Step step() {
    Step step;
    step.ranks = 2;
    step.chunks = 2;
    step.microbatches = 4;
    step.base = Base::dualpipe_v;
    return step;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      concat("bigmac_read_table_", testing::UnitTest::GetInstance()->random_seed(), "_", getpid());
};

TEST_F(ReadTable, RecognisesEachFormatByItsContent) {
  auto schedule = base_table(step());
  auto json = read_table(file(to_json(schedule)));
  EXPECT_EQ(json.format, TableFormat::json);
  EXPECT_EQ(json.schedule, schedule);
  EXPECT_FALSE(json.torch);
  EXPECT_EQ(read_table(file("\xef\xbb\xbf \n" + to_json(schedule))).format, TableFormat::json);
  auto csv = read_table(file(to_csv(schedule)));
  EXPECT_EQ(csv.format, TableFormat::csv);
  EXPECT_EQ(csv.schedule, schedule);
  EXPECT_FALSE(csv.torch);
  auto table = to_torch(schedule, TorchDialect::old);
  for (auto dialect : {TorchDialect::current, TorchDialect::old}) {
    auto torch = read_table(file(to_text(table, dialect)));
    EXPECT_EQ(torch.format, TableFormat::torch);
    EXPECT_EQ(torch.schedule.operators, schedule.operators);
    EXPECT_EQ(torch.torch->dialect, dialect);
    EXPECT_EQ(torch.torch->rows, table.rows);
  }
  for (std::string begin : {",0F0", "(0F1;0B0)OVERLAP_F_B,0F0", "\"\"\n0F0"})
    EXPECT_EQ(read_table(file(begin + "\n")).format, TableFormat::torch) << begin;
}

TEST_F(ReadTable, NamesTheFileInTheErrorsOfItsReaders) {
  expect(file("{}"), {"[json] " + path("table") + ": lacks the key"});
  expect(file("#"), {"[csv] " + path("table") + ":1: must begin with the line '# bigmac table 1'"});
  expect(file("rank,position\n"), {"[csv] " + path("table") + ":1: must begin with the line"});
  expect(file("0F0junk\n"), {"[torch csv] " + path("table") + ":1:1: '0F0junk' goes on with 'junk'"});
}

TEST_F(ReadTable, SaysWhatWouldBeRightForAnythingElse) {
  expect(file(std::string("\x7f\x45LF\0", 5)),
         {"[table] " + path("table") + ": begins with '\\x7fELF\\x00'; right would be"});
  expect(file("F0,B0\n"), {"begins with 'F0,B0", "a schedule of torch (0F0,0F1,...)"});
  expect(file("\n \n"), {"begins with ''"});
}

TEST_F(ReadTable, RefusesWhatCannotBeRead) {
  expect(path("missing"), {"cannot read '" + path("missing") + "': No such file or directory"});
  expect(folder_, {"it is a folder; right would be a file"});
  expect("", {"cannot read ''"});
  expect(file(""), {"it is empty; right would be a table as JSON or CSV"});
  std::ofstream(path("large")).close();
  std::filesystem::resize_file(path("large"), uintmax_t(kMostTableBytes) + 1);  // sparse
  expect(path("large"), {"it has more than 1073741824 bytes"});
}

TEST_F(ReadTable, ReadsPipes) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  auto schedule = base_table(step());
  std::thread writer([&] { std::ofstream(path("pipe")) << to_csv(schedule); });
  EXPECT_EQ(read_table(path("pipe")).schedule, schedule);
  writer.join();
}

}  // namespace
}  // namespace bigmac
