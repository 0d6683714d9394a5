#include "bigmac/cost/model.h"

#include <gtest/gtest.h>

#include <random>

#include "bigmac/cost/parts.h"

namespace bigmac {
namespace {

using cost::Rows;
using cost::Sequences;

TEST(Rows, AreCountedOverAllSequences) {
  Sequences sequences{3, 64, 10, 4};
  EXPECT_EQ(rows_of(Rows::tokens, sequences), 192);
  EXPECT_EQ(rows_of(Rows::text, sequences), 30);
  EXPECT_EQ(rows_of(Rows::joint, sequences), 222);
  EXPECT_EQ(rows_of(Rows::merged, sequences), 48);
  EXPECT_EQ(rows_of(Rows::samples, sequences), 3);
}

// Pairs of a row and a key that it sees, counted one by one.
int64_t pairs_seen(int64_t tokens, bool causal, int64_t window) {
  int64_t pairs = 0;
  for (int64_t row = 0; row < tokens; ++row)
    for (int64_t key = 0; key < tokens; ++key) {
      if (causal && key > row) continue;
      if (window > 0 && key / window != row / window) continue;
      ++pairs;
    }
  return pairs;
}

TEST(Keys, AreTheMeanOverTheRowsOfWhatEachSees) {
  for (int64_t tokens : {1, 2, 7, 64, 128, 192})
    for (bool causal : {false, true})
      for (int64_t window : {0, 1, 64, 1000}) {
        if (window > 0 && window < tokens && tokens % window != 0) continue;
        auto attention = cost::attention("attention", 2, 2, 8);
        attention.causal = causal;
        attention.window = window;
        double rows = double(tokens);
        EXPECT_DOUBLE_EQ(keys_of(attention, {5, rows}) * rows, double(pairs_seen(tokens, causal, window)))
            << tokens << " tokens, causal " << causal << ", window " << window;
      }
}

TEST(Keys, OfJointAttentionAreThoseOfBothStreams) {
  auto attention = cost::attention("attention", 2, 2, 8);
  attention.rows = Rows::joint;
  EXPECT_EQ(keys_of(attention, {7, 100, 28}), 128);
}

TEST(Passes, AreThoseOfCopiesAndPositions) {
  auto part = cost::linear("part", 2, 2, false, cost::Cut::none);
  EXPECT_EQ(passes_of(part), 1);
  part.per_row = 6;
  EXPECT_EQ(passes_of(part), 6);
  part.experts = 4;
  part.top_k = 2;
  EXPECT_EQ(passes_of(part), 12);
}

}  // namespace
}  // namespace bigmac
