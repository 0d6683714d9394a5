#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "bigmac/runtime/memory.h"
#include "bigmac/runtime/message.h"

namespace bigmac {
namespace {

torch::Tensor floats(int64_t count) {
  return torch::empty({count}, torch::dtype(torch::kFloat32));
}

TEST(MemoryLedger, CountsLiveAndPeakBytesByRankAndModule) {
  auto ledger = std::make_shared<MemoryLedger>();
  MemoryLedger::Watch watch(ledger);
  torch::Tensor kept;
  {
    MemoryLedger::Scope scope(1, Module::encoder);
    kept = floats(1000);
    auto passing = floats(500);
  }
  {
    MemoryLedger::Scope scope(1, Module::generator);
    auto passing = floats(100);
  }
  EXPECT_EQ(ledger->bytes(1, Module::encoder).live, 4000);
  EXPECT_EQ(ledger->bytes(1, Module::encoder).peak, 6000);
  EXPECT_EQ(ledger->bytes(1, Module::generator).live, 0);
  EXPECT_EQ(ledger->bytes(1, Module::generator).peak, 400);
  EXPECT_EQ(ledger->bytes(0, Module::encoder).peak, 0);
  EXPECT_EQ(ledger->bytes(1, Module::backbone).peak, 0);
}

TEST(MemoryLedger, StartsPeaksAnewFromWhatIsLive) {
  auto ledger = std::make_shared<MemoryLedger>();
  MemoryLedger::Watch watch(ledger);
  MemoryLedger::Scope scope(0, Module::backbone);
  auto kept = floats(10);
  floats(1000);
  EXPECT_EQ(ledger->bytes(0, Module::backbone).peak, 4040);
  ledger->reset_peaks();
  EXPECT_EQ(ledger->bytes(0, Module::backbone).peak, 40);
  kept.reset();
  EXPECT_EQ(ledger->bytes(0, Module::backbone).live, 0);
  EXPECT_EQ(ledger->bytes(0, Module::backbone).peak, 40);
}

TEST(MemoryLedger, CreditsAFreeOnAnotherThreadToWhoAllocated) {
  auto ledger = std::make_shared<MemoryLedger>();
  torch::Tensor handed_over;
  std::thread([&] {
    MemoryLedger::Watch watch(ledger);
    MemoryLedger::Scope scope(0, Module::encoder);
    handed_over = floats(1000);
  }).join();
  EXPECT_EQ(ledger->bytes(0, Module::encoder).live, 4000);
  std::thread([&] {
    MemoryLedger::Watch watch(ledger);
    MemoryLedger::Scope scope(1, Module::backbone);
    handed_over.reset();
  }).join();
  EXPECT_EQ(ledger->bytes(0, Module::encoder).live, 0);
  EXPECT_EQ(ledger->bytes(1, Module::backbone).live, 0);
}

TEST(MemoryLedger, DoesNotCountOutsideAWatchOrOutsideAnOperator) {
  auto ledger = std::make_shared<MemoryLedger>();
  {
    MemoryLedger::Scope scope(0, Module::encoder);
    floats(1000);
  }
  MemoryLedger::Watch watch(ledger);
  auto outside = floats(1000);
  std::thread([&] {
    MemoryLedger::Scope scope(0, Module::encoder);
    floats(1000);
  }).join();
  for (auto module : {Module::backbone, Module::encoder, Module::generator})
    EXPECT_EQ(ledger->bytes(0, module).peak, 0) << name(module);
}

TEST(MemoryLedger, ForgetsABlockThatWasFreedUnwatchedOnceItsAddressIsUsedAgain) {
  auto ledger = std::make_shared<MemoryLedger>();
  char first, second;
  {
    MemoryLedger::Scope scope(0, Module::encoder);
    ledger->report(&first, 100);
    ledger->report(&second, 10);
  }
  MemoryLedger::Scope scope(1, Module::backbone);
  ledger->report(&first, 30);
  EXPECT_EQ(ledger->bytes(0, Module::encoder).live, 10);
  EXPECT_EQ(ledger->bytes(1, Module::backbone).live, 30);
  ledger->report(&first, -30);
  ledger->report(&first, -30);
  EXPECT_EQ(ledger->bytes(0, Module::encoder).live, 10);
  EXPECT_EQ(ledger->bytes(1, Module::backbone).live, 0);
}

TEST(MemoryLedger, CountsWhatAutogradKeepsUntilItsBackward) {
  auto ledger = std::make_shared<MemoryLedger>();
  auto weight = torch::ones({100, 100}).requires_grad_();
  weight.mutable_grad() = torch::zeros_like(weight);
  auto input = torch::ones({50, 100});
  MemoryLedger::Watch watch(ledger);
  MemoryLedger::Scope scope(0, Module::encoder);
  std::optional<torch::Tensor> loss = input.matmul(weight).exp().sum();
  EXPECT_GE(ledger->bytes(0, Module::encoder).live, 50 * 100 * 4);
  loss->backward();
  loss.reset();
  EXPECT_EQ(ledger->bytes(0, Module::encoder).live, 0);
}

}  // namespace
}  // namespace bigmac
