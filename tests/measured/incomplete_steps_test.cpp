#include "bigmac/measured/recorded.h"
#include "bigmac/simulate/simulate.h"
#include "tests/measured/sound.h"

namespace bigmac {
namespace {

constexpr int64_t kRanks = 3, kMicrobatches = 6;

// Traces of a profiler that ran while steps did: it began within one and ended within another.
class IncompleteSteps : public InFolder {
 protected:
  IncompleteSteps()
      : schedule_(make_schedule(backbone_step(kRanks, 1, kMicrobatches))),
        timeline_(simulate(schedule_, Costs{})) {}

  // `name` of an operator; only what lies between the two times, in steps.
  void write_steps(const std::function<std::string(const Operator&)>& name, int count, double from,
                   double to) const {
    double length = timeline_.length() + 2;
    for (int rank = 0; rank < kRanks; ++rank) {
      auto events = Json::array();
      for (int step = 0; step < count; ++step)
        for (const auto& [op, start, end] : timeline_.rows[size_t(rank)].operators) {
          double begin = step * length + start;
          if (begin < from * length || begin + end - start > to * length) continue;
          events.push_back({{"name", name(op)},
                            {"ph", "X"},
                            {"pid", 1},
                            {"tid", 1},
                            {"ts", begin * 1e3},
                            {"dur", (end - start) * 1e3}});
        }
      write(concat("rank", rank, ".json"), Json{{"traceEvents", events}}.dump());
    }
  }
  static std::string numbered(const Operator& op) {
    return concat(op.phase == Phase::forward ? "Forward " : "Backward ", op.index);
  }
  static std::string nameless(const Operator& op) {
    return op.phase == Phase::forward ? "forward-compute" : "backward-compute";
  }

  Schedule schedule_;
  Timeline timeline_;
};

TEST_F(IncompleteSteps, AreSkippedInFavourOfWholeOnes) {
  for (auto name : {&numbered, &nameless})
    for (double from : {0.0, 0.35, 0.6, 0.8})
      for (double to : {4.0, 3.7, 3.4}) {
        write_steps(*name, 4, from, to);
        SCOPED_TRACE(concat((*name)({}), " from ", from, " to ", to));
        auto recording = recorded_step({folder()}, {.microbatches = name == &nameless ? kMicrobatches : 0});
        EXPECT_EQ(unsound(recording), "");
        EXPECT_TRUE(recording.missing.empty()) << recording.missing[0];
        EXPECT_EQ(words_of(recording.schedule), words_of(schedule_));
        EXPECT_NEAR(recording.timeline.length(), timeline_.length() * 1e-3, 1e-9);
      }
}

TEST_F(IncompleteSteps, AreShownWhereNoneIsWhole) {
  write_steps(numbered, 1, 0, 0.6);
  auto recording = recorded_step({folder()});
  EXPECT_EQ(unsound(recording), "");
  ASSERT_EQ(recording.missing.size(), 1u);
  expect_parts(recording.missing[0], {"5 of 30 operators are missing, on ranks 0 to 2"});
  write_steps(numbered, 2, 0.4, 1.4);
  recording = recorded_step({folder()});
  EXPECT_EQ(unsound(recording), "");
  EXPECT_FALSE(recording.missing.empty());
}

TEST_F(IncompleteSteps, AreRefusedWhereAStepIsToBeReplayed) {
  write_steps(numbered, 1, 0, 0.6);
  EXPECT_NE(told({folder()}), "");
  auto measured = read_measured({folder()}, {.incomplete = true});
  expect_parts(refusal([&] { check_whole(typical_step(measured)); }).value_or(""),
               {"the step is not whole", "operators are missing", "bigmac view, draw and report"});
}

TEST_F(IncompleteSteps, OfProfilersHaveTheirMemory) {
  write_steps(numbered, 2, 0, 2);
  for (int rank = 0; rank < kRanks; ++rank) {
    auto json = Json::parse(std::ifstream(path(concat("rank", rank, ".json"))));
    for (int n = 0; n < 40; ++n)
      for (int device : {0, 1})
        json["traceEvents"].push_back(
            {{"name", "[memory]"},
             {"ph", "i"},
             {"pid", 1},
             {"tid", 1},
             {"ts", n * 1e3},
             {"args", {{"Device Type", device}, {"Total Allocated", 100 * device + n}}}});
    write(concat("rank", rank, ".json"), json.dump());
  }
  auto recording = recorded_step({folder()}, {}, "2");
  EXPECT_EQ(unsound(recording), "");
  ASSERT_EQ(recording.memory.size(), size_t(kRanks));
  EXPECT_EQ(recording.memory[0].bytes.back(), 139);
  EXPECT_GE(recording.memory[0].times.front(), recording.timeline.start - 1e-9);
  EXPECT_GT(recording.memory[0].bytes.front(), 100);
}

// A dump of Primus of one step for each rank.
class IncompleteDump : public InFolder {
 protected:
  void SetUp() override {
    InFolder::SetUp();
    auto timeline = simulate(make_schedule(backbone_step(kRanks, 1, kMicrobatches)), Costs{});
    for (int rank = 0; rank < kRanks; ++rank) {
      Json json;
      for (int iteration : {1, 2}) {
        auto& of = json[std::to_string(iteration)];
        of["total"] = timeline.length();
        of["memory"] = 3.5;
        for (const auto& [op, start, end] : timeline.rows[size_t(rank)].operators) {
          std::string prefix = op.phase == Phase::forward ? "fwd" : "bwd";
          of[prefix + "_start"].push_back(start);
          of[prefix + "_end"].push_back(end);
        }
      }
      write(concat("pp_rank_", rank, ".json"), json.dump());
    }
    write("config.json", Json{{"pp_size", kRanks}}.dump());
  }
};

TEST_F(IncompleteDump, IsShownWithoutARank) {
  std::filesystem::remove(path("pp_rank_1.json"));
  auto recording = recorded_step({folder()});
  EXPECT_EQ(unsound(recording), "");
  EXPECT_TRUE(recording.timeline.rows[1].operators.empty());
  EXPECT_EQ(recording.timeline.rows[2].operators.size(), size_t(2 * kMicrobatches));
  expect_parts(recording.notes[0], {"of 3 ranks the dumps of these are missing: 1"});
}

TEST_F(IncompleteDump, IsReadUpToWhereItIsCut) {
  std::string text;
  std::getline(std::ifstream(path("pp_rank_1.json")), text);
  int whole = 0, shown = 0;
  for (size_t length = 1; length < text.size(); ++length) {
    write("pp_rank_1.json", text.substr(0, length));
    SCOPED_TRACE(concat("cut behind ", length, " bytes"));
    auto recording = recorded_step({folder()});
    ASSERT_EQ(unsound(recording), "");
    ASSERT_FALSE(recording.notes.empty());
    whole += recording.missing.empty();
    shown += !recording.timeline.rows[1].operators.empty();
  }
  EXPECT_GT(whole, int(text.size() / 3));  // its first iteration is
  EXPECT_GT(shown, whole);
}

TEST_F(IncompleteDump, IsShownOrRefusedWhateverHappensToIt) {
  Random random(kSeed);
  std::string whole;
  std::getline(std::ifstream(path("pp_rank_1.json")), whole);
  int shown = 0;
  for (int round = 0; round < 400; ++round) {
    auto text = whole;
    for (int64_t n = integer(random, 1, 5); n > 0; --n)
      text[size_t(integer(random, 0, int64_t(text.size()) - 1))] =
          "0123456789e-.,[]{}\""[integer(random, 0, 18)];
    write("pp_rank_1.json", text);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round));
    try {
      auto recording = recorded_step({folder()});
      ASSERT_EQ(unsound(recording), "") << text;
      ++shown;
    } catch (const InvalidInput&) {
    }
  }
  EXPECT_GT(shown, 300);
}

}  // namespace
}  // namespace bigmac
