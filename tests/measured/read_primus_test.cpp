#include "bigmac/measured/read_primus.h"

#include "bigmac/measured/replay.h"
#include "bigmac/schedule/base.h"
#include "bigmac/simulate/simulate.h"
#include "tests/measured/support.h"

namespace bigmac {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// What Primus would dump of a table that runs with these costs, in seconds.
Json dump_of(const Schedule& schedule, const Timeline& timeline, int rank) {
  Json json{{"total", timeline.length() * 1e3}, {"memory", 10.0 + rank}};
  for (auto phase : {Phase::forward, Phase::backward}) {
    std::string prefix = phase == Phase::forward ? "fwd" : "bwd";
    json[prefix + "_start"] = json[prefix + "_end"] = Json::array();
  }
  for (const auto& slice : timeline.rows[size_t(rank)].operators) {
    bool split = slice.op.phase == Phase::input || slice.op.phase == Phase::weight;
    std::string prefix = slice.op.phase == Phase::forward  ? "fwd"
                         : slice.op.phase == Phase::weight ? "wgrad"
                                                           : "bwd";
    json[prefix + "_start"].push_back(slice.start * 1e3);
    json[prefix + "_end"].push_back(slice.end * 1e3);
    if (!split && schedule.step.chunks == 1) continue;
    json[prefix + "_minibatch"].push_back(slice.op.index);
    json[prefix + "_chunk"].push_back(slice.op.chunk);
  }
  return json;
}

class ReadPrimus : public InFolder {
 protected:
  struct Dump {
    Schedule schedule;
    Timeline timeline;
  };

  // A folder with `iterations` iterations of the same timeline.
  Dump write_dump(const Step& step, int iterations = 1) const {
    Costs costs{.forward = {0.01}, .backward = {0.02}};
    Dump dump{make_schedule(step, costs), {}};
    dump.timeline = simulate(dump.schedule, costs);
    for (int rank = 0; rank < dump.schedule.ranks(); ++rank) {
      Json file;
      for (int n = 1; n <= iterations; ++n)
        file[std::to_string(n)] = dump_of(dump.schedule, dump.timeline, rank);
      write(concat("pp_rank_", rank, ".json"), file.dump());
    }
    write("config.json",
          Json{{"pp_size", step.ranks}, {"vp_size", step.chunks}, {"num_mbs", step.microbatches}}.dump());
    return dump;
  }
  void change(const std::string& name, const std::function<void(Json&)>& how) const {
    Json json = Json::parse(std::ifstream(path(name)));
    how(json);
    write(name, json.dump());
  }
  std::string told_after(const std::string& name, const std::function<void(Json&)>& how) const {
    write_dump(backbone_step(3, 1, 4), 2);
    change(name, how);
    return told({folder()});
  }
};

TEST_F(ReadPrimus, ReadsBackWhatATimelineOfAnyBaseWouldDump) {
  for (Base base : kBases)
    for (int64_t ranks : {1, 2, 4})
      for (int64_t microbatches : {1, 4, 9}) {
        auto step = step_of_base(base, ranks, chunks_of(base, 3).back(), microbatches);
        SCOPED_TRACE(describe(step));
        if (base == Base::dualpipe_v) continue;  // Primus dumps all backwards alike
        // So few run with the second chunks in a loop as well as in a V, and nothing says which.
        if (is_v_shaped(base) && microbatches < 4) continue;
        for (int rank = 0; rank < 8; ++rank) std::filesystem::remove(path(concat("pp_rank_", rank, ".json")));
        auto dump = write_dump(step);
        auto found = read_measured({folder()});
        ASSERT_EQ(found.steps.size(), 1u);
        const auto& read = found.steps[0];
        EXPECT_EQ(words_of(read.schedule), words_of(dump.schedule));
        EXPECT_NEAR(read.length(), dump.timeline.length(), 1e-12);
        EXPECT_NEAR(replay(read, Statistic::each).length(), dump.timeline.length(), 1e-9);
        EXPECT_NEAR(peak_memory(read).back(), (9.0 + double(ranks)) * kGiB, 1);
        for (int rank = 0; rank < ranks; ++rank)
          for (size_t n = 0; n < read.timeline.rows[size_t(rank)].operators.size(); ++n)
            EXPECT_NEAR(read.timeline.rows[size_t(rank)].operators[n].start,
                        dump.timeline.rows[size_t(rank)].operators[n].start, 1e-9);
      }
}

// Without chunk and microbatch, as Primus dumps interleaved 1F1B.
TEST_F(ReadPrimus, TakesInterleavedOperatorsInMegatronsOrder) {
  for (int64_t ranks : {2, 3, 4})
    for (int64_t chunks : {2, 3})
      for (int64_t microbatches : {ranks, 2 * ranks, 4 * ranks}) {
        auto step = backbone_step(ranks, chunks, microbatches);
        SCOPED_TRACE(describe(step));
        auto dump = write_dump(step);
        for (int rank = 0; rank < ranks; ++rank)
          change(concat("pp_rank_", rank, ".json"), [](Json& json) {
            for (const char* key : {"fwd_chunk", "bwd_chunk", "fwd_minibatch", "bwd_minibatch"})
              json["1"].erase(key);
          });
        EXPECT_EQ(words_of(read_measured({folder()}).steps[0].schedule), words_of(dump.schedule));
        change("config.json", [](Json& json) { json = {{"vpp_size", json["vp_size"]}}; });
        EXPECT_EQ(words_of(read_measured({folder()}).steps[0].schedule), words_of(dump.schedule));
        std::filesystem::remove(path("config.json"));
        auto found = read_measured({folder()}, {.chunks = chunks});
        EXPECT_EQ(words_of(found.steps[0].schedule), words_of(dump.schedule));
      }
}

// The k-th forward of a microbatch on a rank is of its k-th chunk, the k-th backward of its k-th last.
TEST_F(ReadPrimus, TellsChunksFromRepeatedMicrobatches) {
  for (int64_t chunks : {2, 3}) {
    auto dump = write_dump(backbone_step(3, chunks, 7, 5));
    for (int rank = 0; rank < 3; ++rank)
      change(concat("pp_rank_", rank, ".json"), [](Json& json) {
        for (const char* key : {"fwd_chunk", "bwd_chunk"}) json["1"].erase(key);
      });
    EXPECT_EQ(words_of(read_measured({folder()}).steps[0].schedule), words_of(dump.schedule));
  }
}

TEST_F(ReadPrimus, CountsMicrobatchesFromOneToo) {
  auto step = backbone_step(3, 2, 6);
  auto dump = write_dump(step);
  for (int rank = 0; rank < 3; ++rank)
    change(concat("pp_rank_", rank, ".json"), [](Json& json) {
      for (const char* key : {"fwd_minibatch", "bwd_minibatch"})
        for (auto& m : json["1"][key]) m = m.get<int>() + 1;
    });
  EXPECT_EQ(words_of(read_measured({folder()}).steps[0].schedule), words_of(dump.schedule));
}

TEST_F(ReadPrimus, ReadsFilesInAnyOrderAndIterationsByNumber) {
  auto step = backbone_step(2, 1, 3);
  write_dump(step, 11);
  auto found = read_measured({path("pp_rank_1.json"), path("config.json"), path("pp_rank_0.json")});
  ASSERT_EQ(found.steps.size(), 11u);
  EXPECT_EQ(found.steps[1].name, "2");
  EXPECT_EQ(found.steps[10].name, "11");
  EXPECT_EQ(&step_named(found, "10"), &found.steps[9]);
  expect_parts(refusal([&] { step_named(found, "12"); }).value_or(""),
               {"no iteration '12'", "11, from 1 to 11"});
}

TEST_F(ReadPrimus, RefusesWhatDoesNotFit) {
  auto rank1 = [&](const std::function<void(Json&)>& how) { return told_after("pp_rank_1.json", how); };
  expect_parts(rank1([](Json& j) { j.erase("2"); }),
               {"pp_rank_1.json has no iteration 2", "pp_rank_2.json does"});
  expect_parts(told_after("pp_rank_0.json", [](Json& j) { j.erase("2"); }),
               {"pp_rank_0.json has no iteration 2"});
  expect_parts(told_after("pp_rank_2.json", [](Json& j) { j.erase("2"); }),
               {"pp_rank_2.json has no iteration 2"});
  expect_parts(rank1([](Json& j) { j["2"].erase("bwd_start"); }),
               {"pp_rank_1.json", "iteration 2", "no bwd_start"});
  expect_parts(rank1([](Json& j) { j["2"]["fwd_end"].erase(0); }),
               {"iteration 2 has 4 fwd_start and 3 fwd_end"});
  expect_parts(rank1([](Json& j) { j["2"]["fwd_end"][3] = -5; }),
               {"iteration 2", "fwd_end[3] -5 before fwd_start[3]"});
  expect_parts(rank1([](Json& j) { j["2"]["fwd_end"][1] = nullptr; }),
               {"/2/fwd_end/1 must be a number, got null"});
  expect_parts(rank1([](Json& j) { j["2"]["fwd_end"] = "x"; }),
               {"/2/fwd_end must be an array of numbers, got 'x'"});
  expect_parts(rank1([](Json& j) { j["2"]["fwd_end"][1] = Json::array({1}); }),
               {"/2/fwd_end/1 must be a number"});
  expect_parts(rank1([](Json& j) { j["2"]["fwd_end"] = Json::object(); }),
               {"/2/fwd_end must be an array of numbers"});
  expect_parts(rank1([](Json& j) { j["2"]["total"] = "long"; }), {"/2/total must be a number, got 'long'"});
  expect_parts(rank1([](Json& j) { j["2"]["total"] = -1; }), {"/2/total must be at least 0, got -1"});
  expect_parts(rank1([](Json& j) { j["2"] = 5; }), {"/2 must be an object, got 5"});
  expect_parts(rank1([](Json& j) { j["x"] = Json::object(); }), {"iteration 'x' must be a whole number"});
  expect_parts(rank1([](Json& j) { j["2"]["fwd_chunk"] = {0, 0, 0, 1.5}; }), {"fwd_chunk[3] 1.5"});
  expect_parts(rank1([](Json& j) {
                 j["2"]["fwd_minibatch"] = {0, 1, 2};
               }),
               {"4 fwd_start and 3 fwd_minibatch"});
  expect_parts(rank1([](Json& j) { j["2"]["fwd_minibatch"] = {0, 1, 2, 4000000000}; }), {"fwd_minibatch[3]"});
  expect_parts(rank1([](Json& j) { j["2"]["fwd_minibatch"] = {0, 1, 2, 2000000000}; }), {"expected were 4"});
  expect_parts(rank1([](Json& j) {
                 j["2"]["fwd_minibatch"] = {0, 1, 2, 2};
               }),
               {"iteration 2", "rank 1", "backbone F chunk 0 microbatch 2", "twice"});
  expect_parts(rank1([](Json& j) {
                 for (const char* key : {"fwd_start", "fwd_end", "bwd_start", "bwd_end"})
                   j["2"][key].erase(3);
               }),
               {"pp_rank_1.json", "iteration 2, rank 1", "has 3 forwards of chunk 0; rank 0", "has 4"});
  expect_parts(rank1([](Json& j) { j["2"]["bwd_start"].erase(3), j["2"]["bwd_end"].erase(3); }),
               {"rank 1 misses backbone B chunk 0 microbatch 3"});
  expect_parts(rank1([](Json& j) { j["2"]["fwd_end"][0] = j["2"]["fwd_end"][0].get<double>() + 5; }),
               {"iteration 2, rank 1", "overlap", "one operator at a time"});
  expect_parts(rank1([](Json& j) { j = Json::object(); }), {"pp_rank_1.json"});
  auto config = [&](const Json& json) { return told_after("config.json", [&](Json& j) { j = json; }); };
  expect_parts(config({{"pp_size", 4}}), {"pp_rank_3.json is missing", "pp_size 4"});
  expect_parts(config({{"pp_size", 2}}), {"pp_size 2, but there is", "pp_rank_2.json"});
  expect_parts(config({{"vp_size", 3}}), {"4 forwards, which V=3 chunks do not divide"});
  expect_parts(config({{"num_mbs", 5}}), {"has 4 microbatches with V=1, expected were 5"});
  expect_parts(config({{"num_mbs", 0}}), {"config.json: num_mbs must be a whole number from 1, got 0"});
  expect_parts(config({{"vp_size", 2}}), {"deadlock", "order of interleaved 1F1B"});
}

TEST_F(ReadPrimus, RefusesMissingAndRepeatedRanks) {
  write_dump(backbone_step(3, 1, 4));
  std::filesystem::remove(path("config.json"));
  std::filesystem::rename(path("pp_rank_1.json"), path("other_1.json"));
  expect_parts(told({folder()}), {"pp_rank_1.json is missing", "there is one of rank 2"});
  expect_parts(told({path("pp_rank_0.json"), path("pp_rank_0.json")}), {"rank 0 is in two files"});
  std::filesystem::rename(path("other_1.json"), path("other.json"));
  expect_parts(told({path("other.json")}), {"other.json' says no rank", "pp_rank_N.json"});
  write("trace.json", "{\"traceEvents\":[]}");
  expect_parts(told({path("pp_rank_0.json"), path("trace.json")}), {"different kinds"});
}

// FACTS: 8 GPUs, 64 layers, P=8 V=1 M=16.
class PrimusPp8 : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(kPrimus)) GTEST_SKIP() << "no data folder " << kPrimus;
    measurement_ = read_measured({kPrimus});
  }
  Measurement measurement_;
};

TEST_F(PrimusPp8, HasTwentyIterationsOfOneF1b) {
  ASSERT_EQ(measurement_.steps.size(), 20u);
  EXPECT_TRUE(measurement_.notes.empty());
  for (const auto& step : measurement_.steps) {
    auto base = base_of(step);
    ASSERT_TRUE(base);
    EXPECT_EQ(base->base, Base::one_f_one_b);
    EXPECT_EQ(shape(*base), "P=8 V=1 M=16");
    EXPECT_EQ(step.schedule.operators.size(), 256u);
  }
}

TEST_F(PrimusPp8, HasTheStepAndTheBubbleOfIteration7) {
  const auto& step = step_named(measurement_, "7");
  EXPECT_NEAR(step.length() * 1e3, 3237.9, 0.05);
  EXPECT_NEAR(idle_over_total(step), 0.3543, 5e-5);
  const double gib[] = {104.3, 95.6, 88.1, 80.3, 73.1, 65.9, 58.1, 52.2};
  for (size_t rank = 0; rank < 8; ++rank)
    EXPECT_NEAR(peak_memory(step)[rank] / kGiB, gib[rank], 0.05) << rank;
}

}  // namespace
}  // namespace bigmac
