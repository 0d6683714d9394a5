#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;
using nlohmann::json;

namespace {

const std::string kStep = "--pp 4 --microbatches 16 --encoder 0.5,1 ";

json items_of(const std::string& options, size_t module = 0) {
  auto outcome = run_bigmac("schedule --format json " + options);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out)["step"]["modules"][module]["items"];
}

json simulate(const std::string& options) {
  auto outcome = run_bigmac("simulate --json " + options);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out);
}

double total(const json& items) {
  double sum = 0;
  for (const auto& item : items) sum += item["size"].get<double>();
  return sum;
}

void write(const TemporaryFile& file, const std::string& text) {
  std::ofstream(file.path()) << text;
}

// What `schedule` has against a file of items, or of an order, behind its path.
std::string complaint(const std::string& option, const std::string& text) {
  TemporaryFile file("list.csv");
  write(file, text);
  auto outcome = run_bigmac("schedule --pp 2 --microbatches 4 --encoder " + option + " " + file.path());
  EXPECT_EQ(outcome.exit_code, 2) << text;
  auto at = outcome.err.find(file.path());
  return at == std::string::npos ? outcome.err : outcome.err.substr(at + file.path().size());
}

}  // namespace

TEST(Items, AreEqualAndAddUpToAMicrobatch) {
  auto items = items_of(kStep + "--items 4");
  ASSERT_EQ(items.size(), 64u);
  for (const auto& item : items) EXPECT_EQ(item["size"], 0.25);
  EXPECT_EQ(items[63]["microbatch"], 15);
}

TEST(Items, MayBeRandomAndStillAddUpOnAverage) {
  auto items = items_of("--pp 4 --microbatches 400 --encoder --items random:8,1,0.5");
  EXPECT_NEAR(total(items), 400, 1e-6);
  EXPECT_NEAR(double(items.size()), 200 * 8, 5 * std::sqrt(200 * 7));
  std::vector<int> counts(400, 0);
  for (const auto& item : items) ++counts[item["microbatch"].get<size_t>()];
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 0), 200);
}

TEST(Items, AreOneEachWhereTheirMeanIsOne) {
  auto items = items_of(kStep + "--items random:1,0.5");
  ASSERT_EQ(items.size(), 16u);
  for (size_t m = 0; m < 16; ++m) EXPECT_EQ(items[m]["microbatch"], m);
  EXPECT_NE(items[0]["size"], items[1]["size"]);
}

TEST(Items, OfOneSeedAreTheSame) {
  const std::string drawn = kStep + "--items random:4,1 --seed ";
  EXPECT_EQ(items_of(drawn + "7"), items_of(drawn + "7"));
  EXPECT_NE(items_of(drawn + "7"), items_of(drawn + "8"));
}

TEST(Items, AreForAllModulesOrForTheOneThatIsNamed) {
  const std::string step =
      "--pp 2 --microbatches 4 --encoder image=1,2 --encoder audio=1,2 --generator --items image=3 --items 2";
  EXPECT_EQ(items_of(step, 0).size(), 12u);
  EXPECT_EQ(items_of(step, 1).size(), 8u);
  EXPECT_EQ(items_of(step, 2).size(), 8u);
}

TEST(Items, MayBeReadFromAFile) {
  TemporaryFile file("items.csv");
  write(file, "microbatch,size\n3,0.5\n0,2\n3,1e-3\n");
  auto items = items_of("--pp 2 --microbatches 4 --encoder --items encoder=" + file.path());
  EXPECT_EQ(items, json::parse(R"([{"microbatch":0,"size":2},{"microbatch":3,"size":0.5},
                                   {"microbatch":3,"size":0.001}])"));
  write(file, "microbatch,size\r\n3,0.5\r\n");
  EXPECT_EQ(items_of("--pp 2 --microbatches 4 --encoder --items " + file.path()).size(), 1u);
  write(file, "microbatch,size\n");
  EXPECT_EQ(items_of("--pp 2 --microbatches 4 --encoder --items " + file.path()).size(), 0u);
}

TEST(Items, OfAFileTakeTheirSizeTimesTheModulesTime) {
  TemporaryFile file("items.csv");
  write(file, "microbatch,size\n0,4\n");
  // 9 for the LLM alone; the one item runs before and behind all of it.
  auto report = simulate("--pp 2 --microbatches 2 --encoder 0.5,1 --items " + file.path());
  EXPECT_DOUBLE_EQ(report["makespan"], 9 + 4 * 1.5);
}

TEST(Items, ThatAreWrongAreNamedWithTheirLine) {
  EXPECT_EQ(complaint("--items", ""), ":1: the first line must be 'microbatch,size', got ''\n");
  EXPECT_EQ(complaint("--items", "0,1\n"), ":1: the first line must be 'microbatch,size', got '0,1'\n");
  const std::string header = "microbatch,size\n";
  EXPECT_EQ(complaint("--items", header + "0,1\n\n1,1\n"),
            ":3: '' must be a microbatch, a comma and a size, such as 3,0.25\n");
  EXPECT_EQ(complaint("--items", header + "0,1,2\n"),
            ":2: '0,1,2' must be a microbatch, a comma and a size, such as 3,0.25\n");
  for (const std::string m : {"4", "-1", "1.0", "one", ""})
    EXPECT_EQ(complaint("--items", header + m + ",1\n"),
              ":2: a microbatch must be a whole number from 0 to 3, got '" + m + "'\n");
  for (const std::string size : {"0", "-1", "nan", "inf", "1e999", "1e13", "big", ""})
    EXPECT_EQ(complaint("--items", header + "0," + size + "\n"),
              ":2: a size must be a number above 0, at most 1e+12, got '" + size + "'\n");
}

TEST(Order, MayBeReadFromAFile) {
  TemporaryFile file("order.txt");
  write(file, "2 0,\n3\t1\n");
  auto report = simulate("--pp 2 --microbatches 4 --encoder 0.5,1 --order " + file.path());
  EXPECT_EQ(report["order"], json::parse("[2,0,3,1]"));
}

TEST(Order, IsNotToldWhereItChangesNothing) {
  TemporaryFile file("order.txt");
  write(file, "0 1 2 3");
  EXPECT_FALSE(simulate("--pp 2 --microbatches 4 --encoder 0.5,1 --order " + file.path()).contains("order"));
}

TEST(Order, PutsAlikeItemsIntoOneUnit) {
  const std::string step = "--pp 8 --microbatches 128 --generator 2,4 --items random:1,0.5 --order ";
  EXPECT_GT(simulate(step + "as-is")["unit_imbalance"], 1.6);
  EXPECT_LE(simulate(step + "balanced")["unit_imbalance"], 1.12);
  EXPECT_EQ(simulate(step + "balanced")["order"].size(), 128u);
}

TEST(Order, ThatIsWrongIsNamedWithItsLine) {
  EXPECT_EQ(complaint("--order", "0 1\n2 4"),
            ":2: a microbatch must be a whole number from 0 to 3, got '4'\n");
  EXPECT_EQ(complaint("--order", "0 1\n2 x\n"),
            ":2: a microbatch must be a whole number from 0 to 3, got 'x'\n");
  EXPECT_EQ(complaint("--order", "0 1\n2\n1"), ":3: microbatch 1 stands twice, first in line 1\n");
  EXPECT_EQ(complaint("--order", "0 3 1"),
            ":1: the file has 3 microbatches, the step has 4; microbatch 2 is missing\n");
  EXPECT_EQ(complaint("--order", ""),
            ":1: the file has 0 microbatches, the step has 4; microbatch 0 is missing\n");
}

TEST(Spreading, KeepsAUnitNearItsMeanAndCanBeLeftOut) {
  const std::string step = "--pp 8 --vpp 2 --microbatches 64 --encoder 0.5,1 --items random:8,1 ";
  double spread = simulate(step)["ratio_to_ideal"], left = simulate(step + "--no-spread")["ratio_to_ideal"];
  EXPECT_LE(spread, 1.04);
  EXPECT_GT(left, spread + 0.005);
  EXPECT_GT(simulate(step + "--no-spread")["unit_imbalance"], simulate(step)["unit_imbalance"]);
}
