#include "bigmac/cost/hardware.h"

#include <cmath>
#include <limits>

#include "tests/cost/layers.h"

namespace bigmac {
namespace {

using namespace cost;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Hardware, HasTheFiguresOfTheDataSheets) {
  struct Sheet {
    const char* name;
    double teraflops, gib, terabytes, nvlink, gigabits;  // nvlink: both directions, GB/s
  };
  for (const auto& sheet :
       {Sheet{"H800", 989, 80, 3.35, 400, 400}, Sheet{"H100", 989, 80, 3.35, 900, 400},
        Sheet{"H200", 989, 141, 4.8, 900, 400}, Sheet{"A100", 312, 80, 2.039, 600, 200}}) {
    auto gpu = hardware_from_name(sheet.name);
    EXPECT_EQ(gpu.name, sheet.name);
    EXPECT_DOUBLE_EQ(gpu.peak, sheet.teraflops * 1e12) << sheet.name;
    EXPECT_DOUBLE_EQ(gpu.memory, sheet.gib * kGiB) << sheet.name;
    EXPECT_DOUBLE_EQ(gpu.memory_bandwidth, sheet.terabytes * 1e12) << sheet.name;
    EXPECT_DOUBLE_EQ(gpu.inside.bandwidth, sheet.nvlink * 1e9 / 2) << sheet.name;
    EXPECT_DOUBLE_EQ(gpu.between.bandwidth, sheet.gigabits * 1e9 / 8) << sheet.name;
    EXPECT_GT(gpu.between.latency, gpu.inside.latency) << sheet.name;
    EXPECT_EQ(gpu.gpus_per_node, 8) << sheet.name;
  }
}

TEST(Hardware, KnowsItsNamesAndAllOfThemAreRight) {
  EXPECT_EQ(known_hardware(), (std::vector<std::string>{"H800", "H100", "H200", "A100"}));
  for (const auto& name : known_hardware()) EXPECT_NO_THROW(check(hardware_from_name(name)));
  EXPECT_NO_THROW(check(Efficiency{}));
}

TEST(Hardware, NamesTheNearestOfUnknownHardware) {
  expect_told([] { hardware_from_name("h800"); },
              {"unknown hardware 'h800' (did you mean 'H800'?)", "known: H800, H100, H200, A100"});
  expect_told([] { hardware_from_name(""); }, {"unknown hardware ''; known: H800"});
}

TEST(Hardware, TakesTheLinkBetweenNodesWhereSomeGroupLiesOnTwo) {
  auto gpu = round_hardware();
  for (int64_t span : {1, 2, 4, 8}) EXPECT_EQ(gpu.link(span), gpu.inside) << span;
  for (int64_t span : {3, 5, 6, 7, 9, 12, 16, 128}) EXPECT_EQ(gpu.link(span), gpu.between) << span;
}

TEST(Hardware, ALinkTakesItsLatencyAndItsBytes) {
  EXPECT_DOUBLE_EQ((Link{1e-6, 1e9}.seconds(5e6)), 1e-6 + 5e-3);
  EXPECT_EQ((Link{0, kInfinity}.seconds(5e6)), 0);
}

TEST(Hardware, TakesAUsersOwn) {
  Hardware mine{"mine", 200e12, 64 * kGiB, 1.6e12, {0, kInfinity}, {0, 12.5e9}, 4};
  EXPECT_NO_THROW(check(mine));
  EXPECT_EQ(mine.link(4), mine.inside);
  EXPECT_EQ(mine.link(8), mine.between);
}

TEST(Hardware, RefusesEachFigureThatIsNone) {
  struct Figure {
    const char* name;
    double& (*of)(Hardware&);
    bool zero, infinite;  // allowed
  };
  for (const auto& figure :
       {Figure{"peak", [](Hardware& gpu) -> double& { return gpu.peak; }, false, false},
        Figure{"memory", [](Hardware& gpu) -> double& { return gpu.memory; }, false, false},
        Figure{"memory bandwidth", [](Hardware& gpu) -> double& { return gpu.memory_bandwidth; }, false,
               false},
        Figure{"inside latency", [](Hardware& gpu) -> double& { return gpu.inside.latency; }, true, false},
        Figure{"inside bandwidth", [](Hardware& gpu) -> double& { return gpu.inside.bandwidth; }, false,
               true},
        Figure{"between latency", [](Hardware& gpu) -> double& { return gpu.between.latency; }, true, false},
        Figure{"between bandwidth", [](Hardware& gpu) -> double& { return gpu.between.bandwidth; }, false,
               true}}) {
    for (double value : {-1.0, 0.0, kNan, kInfinity, -kInfinity}) {
      auto gpu = round_hardware();
      figure.of(gpu) = value;
      bool allowed = (value == 0 && figure.zero) || (value == kInfinity && figure.infinite);
      if (allowed)
        EXPECT_NO_THROW(check(gpu)) << figure.name << " " << value;
      else
        expect_told([&] { check(gpu); },
                    {concat("[hardware] ", figure.name, " must be "), concat("got ", value)});
    }
  }
  auto gpu = round_hardware();
  for (int64_t count : {0, -8}) {
    gpu.gpus_per_node = count;
    expect_told([&] { check(gpu, "cluster.yaml:3:"); },
                {"cluster.yaml:3: GPUs per node must be at least 1, got ", std::to_string(count)});
  }
}

TEST(Hardware, RefusesEachEfficiencyThatIsNone) {
  struct Field {
    const char* name;
    double Efficiency::*of;
  };
  for (const auto& field : {Field{"linear", &Efficiency::linear}, Field{"experts", &Efficiency::experts},
                            Field{"attention", &Efficiency::attention}, Field{"memory", &Efficiency::memory},
                            Field{"links", &Efficiency::links}}) {
    for (double value : {-0.5, 0.0, 1.0001, kNan, kInfinity}) {
      Efficiency efficiency;
      efficiency.*field.of = value;
      expect_told([&] { check(efficiency, "[encoder]"); },
                  {concat("[encoder] ", field.name, " must be above 0 and at most 1, got ", value)});
    }
    Efficiency efficiency;
    efficiency.*field.of = 1;
    EXPECT_NO_THROW(check(efficiency));
  }
}

}  // namespace
}  // namespace bigmac
