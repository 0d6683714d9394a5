#include "bigmac/measured/read_trace.h"

#include "bigmac/measured/replay.h"
#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/trace.h"
#include "tests/measured/support.h"

namespace bigmac {
namespace {

// A pipeline that torch.profiler has recorded, one file a rank.
class ProfilerTrace : public InFolder {
 protected:
  struct Shape {
    int64_t ranks = 4, chunks = 1, microbatches = 6;
    int steps = 1;
  };
  using Name = std::function<std::string(const Schedule&, int rank, const Operator&)>;

  static std::string plain(const Schedule&, int, const Operator& op) {
    return concat(op.phase == Phase::forward ? "Forward " : "Backward ", op.index);
  }
  static std::string runtime(const Schedule& schedule, int rank, const Operator& op) {
    return concat("PP:", Dependencies(schedule).stage(rank, op.chunk), letter(op.phase), op.index);
  }
  static std::string megatron(const Schedule&, int, const Operator& op) {
    return concat("megatron/core/pipeline_parallel/schedules.py(", op.phase == Phase::forward ? 197 : 374,
                  "): ", op.phase == Phase::forward ? "forward_step" : "backward_step");
  }

  Schedule make(const Shape& shape) {
    schedule_ = make_schedule(backbone_step(shape.ranks, shape.chunks, shape.microbatches));
    timeline_ = simulate(schedule_, Costs{.forward = {0.01}, .backward = {0.02}, .latency = 0.001});
    return schedule_;
  }
  Json events_of(int rank, const Name& name, int steps, const std::string& category) const {
    auto events = Json::array();
    for (int step = 0; step < steps; ++step)
      for (const auto& [op, start, end] : timeline_.rows[size_t(rank)].operators)
        events.push_back({{"ph", "X"},
                          {"cat", category},
                          {"name", name(schedule_, rank, op)},
                          {"pid", 4000 + rank},
                          {"tid", 4000 + rank},
                          {"ts", 1.6e9 + (start + step * 2 * timeline_.length()) * 1e6},
                          {"dur", (end - start) * 1e6},
                          {"args", {{"External id", 7}}}});
    return events;
  }
  static Json file_of(int rank, Json events) {
    return {{"schemaVersion", 1},
            {"deviceProperties", {{{"id", 0}, {"name", "H800"}}}},
            {"distributedInfo", {{"backend", "nccl"}, {"rank", rank}, {"world_size", 4}}},
            {"traceEvents", std::move(events)}};
  }
  std::vector<std::string> write_files(const Name& name, int steps = 1) const {
    std::vector<std::string> files;
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      auto text = file_of(rank, events_of(rank, name, steps, "gpu_user_annotation")).dump();
      files.push_back(rank % 2 == 0 ? write(concat("w", rank, ".json"), text)
                                    : write_gzip(concat("w", rank, ".json.gz"), text));
    }
    return files;
  }

  Schedule schedule_;
  Timeline timeline_;
};

TEST_F(ProfilerTrace, IsReadByTheNamesOfTorchAndMegatron) {
  for (const auto& [chunks, name] : {std::pair<int64_t, Name>{1, plain},
                                     {1, runtime},
                                     {2, runtime},
                                     {3, runtime},
                                     {1, megatron},
                                     {2, megatron}}) {
    make({.chunks = chunks, .microbatches = 8});
    SCOPED_TRACE(concat("V=", chunks, " ", name(schedule_, 1, backbone_forward(0, 3))));
    auto files = write_files(name);
    auto found = read_measured(files, {.chunks = chunks});
    ASSERT_EQ(found.steps.size(), 1u);
    EXPECT_EQ(words_of(found.steps[0].schedule), words_of(schedule_));
    EXPECT_NEAR(found.steps[0].length(), timeline_.length(), 1e-6);
    EXPECT_TRUE(found.notes.empty()) << found.notes[0];
  }
}

TEST_F(ProfilerTrace, IsAFolderToo) {
  make({});
  write_files(plain);
  EXPECT_EQ(words_of(read_measured({folder()}).steps[0].schedule), words_of(schedule_));
}

TEST_F(ProfilerTrace, HoldsSeveralSteps) {
  for (const Name& name : {Name(plain), Name(megatron)}) {
    make({.ranks = 3, .microbatches = 5});
    auto found = read_measured(write_files(name, 3));
    ASSERT_EQ(found.steps.size(), 3u);
    for (const auto& step : found.steps) {
      EXPECT_EQ(words_of(step.schedule), words_of(schedule_));
      EXPECT_NEAR(step.length(), timeline_.length(), 1e-6);
    }
    EXPECT_EQ(found.steps[2].name, "3");
  }
  make({.ranks = 1, .microbatches = 5});
  auto files = write_files(megatron, 3);
  EXPECT_EQ(read_measured(files).steps.size(), 1u);
  EXPECT_EQ(read_measured(files, {.microbatches = 5}).steps.size(), 3u);
}

TEST_F(ProfilerTrace, TakesBeginAndEndEvents) {
  make({});
  for (int rank = 0; rank < 4; ++rank) {
    auto events = Json::array();
    events.push_back({{"ph", "E"}, {"pid", 1}, {"tid", 1}, {"ts", 0}});  // of what began before the trace
    for (const auto& event : events_of(rank, plain, 1, "")) {
      Json begin{{"ph", "B"}, {"name", event["name"]}, {"pid", 1}, {"tid", 1}, {"ts", event["ts"]}};
      Json end{{"ph", "E"},
               {"pid", 1},
               {"tid", 1},
               {"ts", event["ts"].get<double>() + event["dur"].get<double>()}};
      Json inner{{"ph", "B"}, {"name", "aten::mm"}, {"pid", 1}, {"tid", 1}, {"ts", event["ts"]}};
      for (const auto& each : {begin, inner, end, end}) events.push_back(each);
    }
    write(concat("rank", rank, ".json"), events.dump());
  }
  auto found = read_measured({folder()});
  EXPECT_EQ(words_of(found.steps[0].schedule), words_of(schedule_));
  EXPECT_NEAR(found.steps[0].length(), timeline_.length(), 1e-6);
}

TEST_F(ProfilerTrace, OfOneFileHoldsARankAProcess) {
  make({});
  auto events = Json::array();
  for (int rank = 0; rank < 4; ++rank)
    for (auto event : events_of(rank, plain, 1, "pipeline")) {
      event["pid"] = rank;
      events.push_back(event);
    }
  auto found = read_measured({write("all.json", Json{{"traceEvents", events}}.dump())});
  EXPECT_EQ(words_of(found.steps[0].schedule), words_of(schedule_));
}

// A range has its twin on the CPU, which lasts as long as launching it, and one on the stream of messages.
TEST_F(ProfilerTrace, TakesTheRangesOfTheGpuAndOfItsFirstStream) {
  make({});
  std::vector<std::string> files;
  for (int rank = 0; rank < 4; ++rank) {
    auto events = Json::array();
    for (auto event : events_of(rank, plain, 1, "gpu_user_annotation")) {
      event["tid"] = 7;
      events.push_back(event);
      event["tid"] = 20;
      event["dur"] = event["dur"].get<double>() + 30000;
      events.push_back(event);
      event["cat"] = "user_annotation";
      event["tid"] = event["pid"] = 999;
      event["dur"] = 20;
      events.push_back(event);
    }
    files.push_back(write(concat("t", rank, ".json"), file_of(rank, events).dump()));
  }
  auto found = read_measured(files);
  EXPECT_NEAR(replay(found.steps[0], Statistic::each, 0.001).length(), timeline_.length(), 1e-6);
  ASSERT_EQ(found.notes.size(), 4u);
  expect_parts(found.notes[0], {"t0.json", "taken from GPU stream 7", "GPU stream 20 are left out"});
}

TEST_F(ProfilerTrace, SaysWhereOnlyTheCpuWasRecorded) {
  make({});
  for (int rank = 0; rank < 4; ++rank)
    write(concat("t", rank, ".json"), file_of(rank, events_of(rank, plain, 1, "user_annotation")).dump());
  auto found = read_measured({folder()});
  ASSERT_EQ(found.notes.size(), 4u);
  expect_parts(found.notes[0], {"ranges of the CPU only", "launched", "ProfilerActivity.CUDA"});
}

// Ranks of one pipeline in a run with tensor parallelism of 8.
TEST_F(ProfilerTrace, NumbersRanksThatAreEquallyFarApart) {
  make({});
  for (int rank = 0; rank < 4; ++rank)
    write(concat("t", rank, ".json"), file_of(8 * rank, events_of(rank, plain, 1, "x")).dump());
  auto found = read_measured({folder()});
  EXPECT_EQ(words_of(found.steps[0].schedule), words_of(schedule_));
  ASSERT_EQ(found.notes.size(), 1u);
  expect_parts(found.notes[0], {"ranks 0, 8, ... 24", "ranks 0 to 3"});
}

TEST_F(ProfilerTrace, AlignsClocksThatDifferBySeconds) {
  make({});
  for (int rank = 0; rank < 4; ++rank) {
    auto events = events_of(rank, plain, 1, "x");
    for (auto& event : events) event["ts"] = event["ts"].get<double>() + rank * (rank % 2 == 0 ? 3e6 : -2e6);
    write(concat("t", rank, ".json"), file_of(rank, events).dump());
  }
  auto found = read_measured({folder()});
  ASSERT_EQ(found.notes.size(), 1u);
  expect_parts(found.notes[0], {"clocks differ", "in 1 of 1 steps they are shifted by up to"});
  EXPECT_NEAR(found.steps[0].length(), timeline_.length(), 0.002);
  EXPECT_NEAR(replay(found.steps[0], Statistic::each, 0.001).length(), timeline_.length(), 1e-6);
}

TEST_F(ProfilerTrace, TakesBaseTimesIntoAccount) {
  make({});
  for (int rank = 0; rank < 4; ++rank) {
    auto json = file_of(rank, events_of(rank, plain, 1, "x"));
    json["baseTimeNanoseconds"] = 1700000000000000000 + int64_t{rank} * 10000000000;
    for (auto& event : json["traceEvents"]) event["ts"] = event["ts"].get<double>() - 1e7 * rank;
    write(concat("t", rank, ".json"), json.dump());
  }
  auto found = read_measured({folder()});
  EXPECT_TRUE(found.notes.empty()) << found.notes[0];
  EXPECT_NEAR(found.steps[0].length(), timeline_.length(), 1e-5);
}

TEST_F(ProfilerTrace, WithoutNamesOfOperatorsSaysWhichAreUnderstood) {
  auto file = write("t0.json", R"([{"ph":"X","name":"aten::mm","ts":1,"dur":2,"pid":1,"tid":1},
                                  {"ph":"X","name":"forward","ts":1,"dur":2,"pid":1,"tid":1}])");
  expect_parts(told({file}), {"t0.json", "none of its 2 events", "F0.3", "PP:2F3", "'Forward 3'",
                              "forward_step", "record_function", "with_stack"});
}

TEST_F(ProfilerTrace, IsRefusedWithItsFileAndEvent) {
  make({});
  auto files = write_files(plain);
  auto changed = [&](int rank, const std::function<void(Json&)>& how) {
    auto json = file_of(rank, events_of(rank, plain, 1, "x"));
    how(json);
    auto with = files;
    with[size_t(rank)] = write("changed.json", json.dump());
    return told(with);
  };
  auto event = [](Json& j, size_t n) -> Json& { return j["traceEvents"][n]; };
  EXPECT_EQ(changed(1, [](Json&) {}), "");
  expect_parts(changed(1, [&](Json& j) { event(j, 2)["dur"] = -3; }),
               {"changed.json", "event 2 (Forward 2)", "takes -3"});
  expect_parts(changed(1, [&](Json& j) { event(j, 2)["ts"] = "now"; }), {"event 2 (Forward 2)", "lacks ts"});
  expect_parts(changed(1, [&](Json& j) { event(j, 2)["dur"] = 1e300; }),
               {"changed.json", "rank 1", "overlap"});
  expect_parts(changed(1, [&](Json& j) { event(j, 2)["dur"] = 90000; }),
               {"changed.json", "rank 1", "F microbatch 2", "overlap"});
  expect_parts(changed(1, [&](Json& j) { event(j, 0)["name"] = "Forward 99999999"; }),
               {"rank 1", "F chunk 0 microbatch 99999999 does not fit a rank with 12 operators"});
  expect_parts(changed(1, [&](Json& j) { event(j, 0)["name"] = "other"; }),
               {"changed.json", "rank 1", "has 5 forwards of chunk 0; rank 0", "has 6"});
  expect_parts(changed(1, [&](Json& j) { event(j, 3)["name"] = "other"; }),
               {"rank 1 misses backbone B chunk 0"});
  expect_parts(changed(1, [&](Json& j) { event(j, 3)["ph"] = "B"; }),
               {"changed.json", "event 3", "never ends"});
  expect_parts(changed(1, [&](Json& j) { j["distributedInfo"]["rank"] = 2; }),
               {"rank 2 is in two files", "changed.json"});
  expect_parts(changed(3, [&](Json& j) { j["distributedInfo"]["rank"] = 4; }),
               {"rank 3 is missing", "from 0 to 4"});
  expect_parts(changed(1, [&](Json& j) { j["distributedInfo"]["rank"] = -1; }),
               {"/distributedInfo/rank", "got -1"});
  expect_parts(changed(1, [&](Json& j) { j["traceEvents"] = Json::object(); }),
               {"traceEvents must be an array"});
  expect_parts(changed(1, [&](Json& j) { j.erase("traceEvents"); }), {"has no traceEvents"});
  expect_parts(changed(1, [&](Json& j) { j = 5; }), {"changed.json: holds 5"});
  expect_parts(changed(1,
                       [&](Json& j) {
                         auto more = j["traceEvents"];
                         for (auto& e : more) e["ts"] = e["ts"].get<double>() + 1e6;
                         for (auto& e : more) j["traceEvents"].push_back(e);
                       }),
               {"changed.json: rank 1 has operators of 2 steps", "of 1", "the same steps"});
  expect_parts(told({files[1], files[2]}), {"rank 0 is missing"});
  expect_parts(told({}), {"no file is given"});
  std::filesystem::create_directory(path("empty"));
  expect_parts(told({path("empty")}), {"holds no .json, .json.gz or .events"});
  auto nameless = file_of(0, events_of(0, plain, 1, "x"));
  nameless.erase("distributedInfo");
  expect_parts(told({write("a.json", nameless.dump()), files[1]}), {"a.json: says no rank", "rank3.json"});
}

TEST_F(ProfilerTrace, CannotBeMixedWithOurOwn) {
  make({});
  auto files = write_files(plain);
  write_trace(schedule_, timeline_, path("own.json"));
  expect_parts(told({path("own.json"), files[1]}), {"one is bigmac's trace, the other is not"});
}

TEST_F(ProfilerTrace, WithOperatorsThatOverlapByARoundingIsPutInOrder) {
  make({.ranks = 2});
  for (int rank = 0; rank < 2; ++rank) {
    auto events = events_of(rank, plain, 1, "x");
    for (auto& event : events) event["dur"] = event["dur"].get<double>() + 0.5;
    write(concat("t", rank, ".json"), file_of(rank, events).dump());
  }
  auto step = read_measured({folder()}).steps[0];
  for (const auto& row : step.timeline.rows)
    for (size_t n = 1; n < row.operators.size(); ++n)
      EXPECT_GE(row.operators[n].start, row.operators[n - 1].end);
}

}  // namespace
}  // namespace bigmac
