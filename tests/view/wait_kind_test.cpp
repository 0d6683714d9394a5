#include "bigmac/view/wait_kind.h"

#include <gtest/gtest.h>

#include <set>

namespace bigmac {
namespace {

// A wait of rank 1 from 10 to 20 before F0.5, for what rank 0 ended at `made`.
Wait wait_for(const Operator& late, double made) {
  RanOn input{0, {late, made - 3, made}};
  return {1, 10, 20, Slice{backbone_forward(0, 5), 20, 21}, input, input, 3};
}

Timeline::Row row_with(Spent spent, double start, double end) {
  Timeline::Row row;
  row.intervals.push_back({spent, 0, backbone_forward(0, 5), start, end});
  return row;
}

constexpr double kSteady = 5;  // the row's first backward, before the wait

TEST(WaitKind, IsWhatWasLate) {
  EXPECT_EQ(kind_of(wait_for(backbone_forward(0, 5), 20), {}, kSteady), WaitKind::stage);
  EXPECT_EQ(kind_of(wait_for(encoder_forward(0), 20), {}, kSteady), WaitKind::encoder);
  EXPECT_EQ(kind_of(wait_for(generate(0), 20), {}, kSteady), WaitKind::generator);
}

TEST(WaitKind, IsFillBeforeTheFirstBackwardAndDrainBehindTheLastOperator) {
  EXPECT_EQ(kind_of(wait_for(backbone_forward(0, 5), 20), {}, 30), WaitKind::fill);
  EXPECT_EQ(kind_of(wait_for(encoder_forward(0), 20), {}, 30), WaitKind::encoder);
  Wait last{1, 10, 20, {}, {}, {}};
  EXPECT_EQ(kind_of(last, {}, kSteady), WaitKind::drain);
}

TEST(WaitKind, IsTheLinkWhereMostOfTheWaitLiesBehindTheInputsEnd) {
  EXPECT_EQ(kind_of(wait_for(backbone_forward(0, 5), 14.9), {}, kSteady), WaitKind::link);
  EXPECT_EQ(kind_of(wait_for(backbone_forward(0, 5), 15.1), {}, kSteady), WaitKind::stage);
}

TEST(WaitKind, IsTheHostOrAnExchangeWhereNothingWasMissing) {
  auto wait = wait_for(backbone_forward(0, 5), 9);
  EXPECT_EQ(kind_of(wait, {}, kSteady), WaitKind::host);
  EXPECT_EQ(kind_of(wait, row_with(Spent::wait, 10, 16), kSteady), WaitKind::exchange);
  EXPECT_EQ(kind_of(wait, row_with(Spent::wait, 10, 14), kSteady), WaitKind::host);
}

TEST(WaitKind, IsWhatMostOfTheWaitWasRecordedAs) {
  auto wait = wait_for(backbone_forward(0, 5), 20);
  EXPECT_EQ(kind_of(wait, row_with(Spent::order, 12, 18), kSteady), WaitKind::order);
  EXPECT_EQ(kind_of(wait, row_with(Spent::transfer, 12, 18), kSteady), WaitKind::transfer);
  EXPECT_EQ(kind_of(wait, row_with(Spent::transfer, 0, 14), kSteady), WaitKind::stage);
}

TEST(WaitKind, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int kind = 0; kind < kWaitKinds; ++kind) names.insert(name(WaitKind(kind)));
  EXPECT_EQ(names.size(), size_t(kWaitKinds));
}

}  // namespace
}  // namespace bigmac
