#include "bigmac/formats/units.h"

#include <gtest/gtest.h>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

template <class Value>
std::string error_of(Value (*parse)(std::string_view), std::string_view text) {
  try {
    parse(text);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(Bytes, HaveDecimalAndBinaryUnits) {
  EXPECT_EQ(bytes_from("80GiB"), 80.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(bytes_from("80 GB"), 80e9);
  EXPECT_EQ(bytes_from("512MiB"), 536870912);
  EXPECT_EQ(bytes_from("1.5KiB"), 1536);
  EXPECT_EQ(bytes_from("2TiB"), 2 * bytes_from("1024GiB"));
  EXPECT_EQ(bytes_from("1kB"), 1000);
  EXPECT_EQ(bytes_from("7B"), 7);
  EXPECT_EQ(bytes_from("4096"), 4096);
  EXPECT_EQ(bytes_from("0"), 0);
}

TEST(Counts, CountInPowersOfTwo) {
  EXPECT_EQ(count_from("8192"), 8192);
  EXPECT_EQ(count_from("8K"), 8192);
  EXPECT_EQ(count_from("1.5K"), 1536);
  EXPECT_EQ(count_from("1M"), 1048576);
  EXPECT_EQ(count_from("1e3"), 1000);
  EXPECT_EQ(count_from("0"), 0);
}

TEST(SecondsBandwidthsAndFlops, HaveTheirUnits) {
  EXPECT_DOUBLE_EQ(seconds_from("3us"), 3e-6);
  EXPECT_DOUBLE_EQ(seconds_from("0.5 ms"), 5e-4);
  EXPECT_DOUBLE_EQ(seconds_from("20ns"), 2e-8);
  EXPECT_DOUBLE_EQ(seconds_from("1e-5"), 1e-5);
  EXPECT_DOUBLE_EQ(bandwidth_from("400Gb/s"), 50e9);  // bits
  EXPECT_DOUBLE_EQ(bandwidth_from("50GB/s"), 50e9);
  EXPECT_DOUBLE_EQ(bandwidth_from("3.35TB/s"), 3.35e12);
  EXPECT_DOUBLE_EQ(bandwidth_from("1GiB/s"), 1073741824);
  EXPECT_DOUBLE_EQ(flops_from("989TFLOP/s"), 989e12);
  EXPECT_DOUBLE_EQ(flops_from("1 PFLOP/s"), 1e15);
  EXPECT_DOUBLE_EQ(flops_from("989e12"), 989e12);
}

TEST(Units, RefuseWhatTheyAreNot) {
  for (const char* text : {"", " ", "GiB", "80Gib", "80 gib", "80GiBs", "80GiB ", "-1GiB", "-0", "nan", "inf",
                           "1e400", "0x10", "80,5GiB", "1e308TiB", "+5", " 5", "5\n"})
    EXPECT_NE(error_of(bytes_from, text).find("must be bytes such as 80GiB, 512MiB, 80GB or 4096, got '"),
              std::string::npos)
        << text;
  for (const char* text : {"1.5", "8k", "0.3K", "1e19", "-3", "1M1", "8KiB", "many"})
    EXPECT_NE(error_of(count_from, text).find("must be a whole number such as 8192, 8K or 1M, got '"),
              std::string::npos)
        << text;
  EXPECT_EQ(error_of(seconds_from, "3m"), "must be a time such as 3us, 0.5ms or 1e-5, got '3m'");
  EXPECT_EQ(error_of(bandwidth_from, "400Gbps"),
            "must be bytes a second such as 200GB/s, 400Gb/s (bits) or 50e9, got '400Gbps'");
  EXPECT_EQ(error_of(flops_from, "989TFLOPS"),
            "must be operations a second such as 989TFLOP/s or 989e12, got '989TFLOPS'");
}

}  // namespace
}  // namespace bigmac
