#include "bigmac/schedule/step.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/nest.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

// FACTS.md: P <= G <= M and M mod G is 0 or at least P; V=1 is plain 1F1B, never "interleaved".
// DESIGN.md: units are groups of P microbatches, so nesting takes multiples of P.
bool legal_counts(const Step& step, int64_t microbatches, int64_t group) {
  int64_t ranks = step.ranks;
  if (group < ranks || group > microbatches) return false;
  if (microbatches % group != 0 && microbatches % group < ranks) return false;
  return step.arrangement == Arrangement::llm_only || (microbatches % ranks == 0 && group % ranks == 0);
}

template <class Legal>
std::string nearest_by_trying(int64_t from, Legal legal) {
  std::optional<int64_t> below, above;
  for (int64_t value = 1; value < 100; ++value) {
    if (!legal(value)) continue;
    if (value < from) below = value;
    if (value > from && !above) above = value;
  }
  if (below && above) return concat(*below, " or ", *above);
  return below ? concat(*below) : above ? concat(*above) : "none";
}

void expect_the_rule(Step step) {
  SCOPED_TRACE(describe(step));
  int64_t group = step.group_size();
  auto message = refusal([&] { make_schedule(step); });
  ASSERT_EQ(message.has_value(), !legal_counts(step, step.microbatches, group)) << message.value_or("");
  if (!message) return;
  EXPECT_TRUE(contains(*message,
                       concat("P=", step.ranks, " V=", step.chunks, " M=", step.microbatches, " G=", group)))
      << *message;
  auto for_group =
      nearest_by_trying(step.microbatches, [&](int64_t m) { return legal_counts(step, m, group); });
  auto for_count =
      nearest_by_trying(group, [&](int64_t g) { return legal_counts(step, step.microbatches, g); });
  EXPECT_TRUE(contains(*message, concat("Nearest legal M for this G: ", for_group,
                                        "; nearest legal G for this M: ", for_count)))
      << *message << "\nexpected: " << for_group << "; " << for_count;
}

TEST(LegalCounts, OfTheInterleavedBaseAreThoseOfTheRuleAndTheNearestAreNamed) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t chunks = 2; chunks <= 3; ++chunks)
      for (int64_t microbatches = 1; microbatches <= 4 * ranks; ++microbatches)
        for (int64_t group = -1; group <= microbatches + 2; ++group)
          expect_the_rule(backbone_step(ranks, chunks, microbatches, group));
}

TEST(LegalCounts, OfNestingAreMultiplesOfPAndTheNearestAreNamed) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t microbatches = 1; microbatches <= 4 * ranks; ++microbatches)
      for (int64_t group = 0; group <= microbatches + 2; ++group) {
        Step step = nested_step(ranks, 2, microbatches, true, true);
        step.group = group;
        step.warmup_units = 100;
        expect_the_rule(step);
      }
}

TEST(LegalCounts, OfNestingInto1f1bAreMultiplesOfP) {
  for (int64_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t microbatches = 1; microbatches <= 4 * ranks; ++microbatches) {
      Step step = nested_step(ranks, 1, microbatches, false, true);
      SCOPED_TRACE(describe(step));
      auto message = refusal([&] { make_schedule(step); });
      ASSERT_EQ(message.has_value(), microbatches % ranks != 0);
      if (!message) continue;
      auto nearest = nearest_by_trying(microbatches, [&](int64_t m) { return m % ranks == 0; });
      EXPECT_TRUE(contains(*message, concat("P=", ranks, " V=1 M=", microbatches))) << *message;
      EXPECT_TRUE(contains(*message, "nearest legal M: " + nearest)) << *message;
    }
}

TEST(LegalCounts, OneChunkIs1f1bAndMoreAreInterleaved) {
  for (int64_t chunks = 1; chunks <= 3; ++chunks)
    for (auto base : {Base::one_f_one_b, Base::interleaved}) {
      Step step = backbone_step(2, chunks, 4);
      step.base = base;
      auto message = refusal([&] { make_schedule(step); });
      ASSERT_EQ(message.has_value(), (chunks == 1) != (base == Base::one_f_one_b));
      if (!message) continue;
      EXPECT_TRUE(contains(*message, concat("P=2 V=", chunks, " M=4"))) << *message;
    }
  auto message = refusal([] { make_schedule(backbone_step(2, 1, 4, 2)); });
  ASSERT_TRUE(message);
  EXPECT_TRUE(contains(*message, "no groups")) << *message;
  EXPECT_TRUE(contains(*message, "G=2")) << *message;
}

TEST(BadCounts, AreRefusedByNameWithoutOverflowOrAllocation) {
  const std::vector<int64_t> bad{0,
                                 -1,
                                 -7,
                                 std::numeric_limits<int64_t>::min(),
                                 int64_t{1} << 31,
                                 int64_t{1} << 32,
                                 int64_t{1} << 40,
                                 std::numeric_limits<int64_t>::max()};
  for (int64_t value : bad)
    for (int64_t chunks : {1, 2})
      for (int which = 0; which < 3; ++which) {
        Step step = backbone_step(2, chunks, 4);
        (which == 0 ? step.ranks : which == 1 ? step.chunks : step.microbatches) = value;
        SCOPED_TRACE(describe(step));
        auto message = refusal([&] { make_schedule(step); });
        ASSERT_TRUE(message);
        const char* what = which == 0 ? "ranks (P)" : which == 1 ? "chunks (V)" : "microbatches (M)";
        EXPECT_TRUE(contains(*message, what)) << *message;
        EXPECT_TRUE(contains(*message, concat("got ", value))) << *message;
      }
}

TEST(BadCounts, AreRefusedWhereOnlyTheirProductIsTooLarge) {
  for (auto [ranks, chunks, microbatches] : {std::array<int64_t, 3>{1 << 28, 1 << 15, 1 << 28},
                                             {1 << 14, 1 << 7, 1 << 7},
                                             {1 << 28, 1, 1},
                                             {1, 1, 1 << 28},
                                             {1 << 9, 2, (1 << 17) + (1 << 9)}}) {
    Step step = backbone_step(ranks, chunks, microbatches);
    auto message = refusal([&] { make_schedule(step); });
    ASSERT_TRUE(message) << describe(step);
    EXPECT_TRUE(contains(*message, concat("P=", ranks, " V=", chunks, " M=", microbatches))) << *message;
  }
}

TEST(BadCounts, AHugeGroupIsRefusedAtOnce) {
  for (int64_t group : {int64_t{1} << 28, int64_t{1} << 40, std::numeric_limits<int64_t>::max(),
                        std::numeric_limits<int64_t>::min()})
    for (auto arrangement : {Arrangement::llm_only, Arrangement::nested}) {
      Step step = nested_step(2, 2, 4, true, false);
      step.arrangement = arrangement;
      step.group = group;
      SCOPED_TRACE(describe(step));
      auto message = refusal([&] { make_schedule(step); });
      ASSERT_TRUE(message);
      EXPECT_TRUE(contains(*message, concat("G=", group))) << *message;
    }
}

TEST(BadCounts, MoreChunksThanAnOperatorCanNameAreRefused) {
  Step step = backbone_step(1, int64_t{UINT16_MAX} + 1, 1);
  auto message = refusal([&] { make_schedule(step); });
  ASSERT_TRUE(message);
  EXPECT_TRUE(contains(*message, "65535")) << *message;
}

TEST(BadFlags, OfAnotherLengthThanTheStepAreRefused) {
  for (size_t length : {1, 7, 9})
    for (bool encoder : {true, false}) {
      Step step = nested_step(2, 2, 8, true, true);
      (encoder ? step.encoder : step.generator).assign(length, 1);
      auto message = refusal([&] { make_schedule(step); });
      ASSERT_TRUE(message);
      EXPECT_TRUE(contains(*message, encoder ? "encoder" : "generator")) << *message;
      EXPECT_TRUE(contains(*message, concat(length))) << *message;
      EXPECT_TRUE(contains(*message, "8")) << *message;
    }
}

TEST(Names, OfBasesAndSchedulesAreReadBack) {
  for (auto base : {Base::one_f_one_b, Base::interleaved}) EXPECT_EQ(base_from_name(name(base)), base);
  for (auto arrangement : {Arrangement::llm_only, Arrangement::nested, Arrangement::three_phase})
    EXPECT_EQ(arrangement_from_name(name(arrangement)), arrangement);
}

TEST(Names, ThatAreUnknownAreRefusedWithTheNearest) {
  auto base = refusal([] { base_from_name("interleave"); });
  ASSERT_TRUE(base);
  EXPECT_TRUE(contains(*base, "'interleave'")) << *base;
  EXPECT_TRUE(contains(*base, "did you mean 'interleaved'?")) << *base;
  auto arrangement = refusal([] { arrangement_from_name("nestd"); });
  ASSERT_TRUE(arrangement);
  EXPECT_TRUE(contains(*arrangement, "did you mean 'nested'?")) << *arrangement;
  EXPECT_TRUE(contains(*arrangement, "llm-only, nested, three-phase")) << *arrangement;
  EXPECT_FALSE(contains(*refusal([] { arrangement_from_name("zzzzzzzzzz"); }), "did you mean"));
}

TEST(Ids, AreDenseAndReadBack) {
  Step step = nested_step(3, 2, 6, true, true);
  Ids ids(step);
  std::vector<int> seen(size_t(ids.count), 0);
  auto schedule = make_schedule(step);
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const auto& op : schedule.row(rank)) {
      int64_t id = ids.of(rank, op);
      ASSERT_GE(id, 0);
      ASSERT_LT(id, ids.count);
      ++seen[size_t(id)];
      auto placed = ids.at(id);
      EXPECT_EQ(placed.rank, rank) << long_name(op);
      EXPECT_EQ(placed.op, op) << long_name(placed.op);
    }
  EXPECT_EQ(seen, std::vector<int>(size_t(ids.count), 1));
}

TEST(Dependencies, AndReceiversAreEachOthersInverse) {
  Random random(kSeed);
  for (int64_t ranks : {1, 2, 3, 4})
    for (int64_t chunks : {1, 2, 3})
      for (auto arrangement : {Arrangement::llm_only, Arrangement::nested}) {
        Step step = nested_step(ranks, chunks, 2 * ranks, true, true);
        step.arrangement = arrangement;
        keep_a_random_half(random, step.encoder);
        keep_a_random_half(random, step.generator);
        SCOPED_TRACE(describe(step));
        Ids ids(step);
        std::vector<std::pair<int64_t, int64_t>> needed, received;
        auto schedule = make_schedule(step);
        for (int rank = 0; rank < schedule.ranks(); ++rank)
          for (const auto& op : schedule.row(rank)) {
            int64_t own = ids.of(rank, op);
            for_each_predecessor(step, ids, rank, op, [&](int64_t id, int from) {
              EXPECT_EQ(ids.at(id).rank, from) << long_name(op);
              auto needs = ids.at(id).op;
              bool activations =
                  needs.module == op.module && needs.phase == Phase::forward && op.phase == Phase::backward;
              if (!activations) needed.emplace_back(id, own);
            });
            for_each_receiver(step, ids, rank, op, [&](int64_t id, int to) {
              EXPECT_EQ(ids.at(id).rank, to) << long_name(op);
              received.emplace_back(own, id);
            });
          }
        std::sort(needed.begin(), needed.end());
        std::sort(received.begin(), received.end());
        EXPECT_EQ(needed, received);
        EXPECT_FALSE(needed.empty() && ranks * chunks > 1);
      }
}

TEST(Operator, HasAShortAndALongName) {
  EXPECT_EQ(short_name(backbone_forward(1, 23)), "F1.23");
  EXPECT_EQ(short_name(backbone_backward(0, 4)), "B0.4");
  EXPECT_EQ(short_name(encoder_forward(5)), "EF5");
  EXPECT_EQ(short_name(encoder_backward(6)), "EB6");
  EXPECT_EQ(short_name(generate(7)), "G7");
  EXPECT_EQ(long_name(backbone_forward(0, 3)), "backbone F chunk 0 microbatch 3");
  EXPECT_EQ(long_name(backbone_backward(2, 1)), "backbone B chunk 2 microbatch 1");
  EXPECT_EQ(long_name(encoder_backward(3)), "encoder B microbatch 3");
  EXPECT_EQ(long_name(generate(11)), "generator G microbatch 11");
}

}  // namespace
}  // namespace bigmac
