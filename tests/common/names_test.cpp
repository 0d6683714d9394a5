#include "bigmac/common/names.h"

#include <gtest/gtest.h>

using bigmac::nearest_name;
using bigmac::unknown_name;

TEST(NearestName, FindsATypingSlip) {
  EXPECT_EQ(nearest_name("nestd", {"llm-only", "nested", "three-phase"}), "nested");
  EXPECT_EQ(nearest_name("microbatchs", {"microbatches", "steps"}), "microbatches");
}

TEST(NearestName, IsEmptyWhereNothingComesClose) {
  EXPECT_EQ(nearest_name("zebra", {"llm-only", "nested"}), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(UnknownName, NamesTheNearestAndAllKnown) {
  EXPECT_EQ(unknown_name("schedule", "nestd", {"llm-only", "nested"}),
            "unknown schedule 'nestd' (did you mean 'nested'?); known: llm-only, nested");
}
