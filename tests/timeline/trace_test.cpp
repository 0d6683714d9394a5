#include "bigmac/timeline/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "bigmac/schedule/make.h"
#include "bigmac/simulate/simulate.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Trace : public testing::Test {
 protected:
  Trace() {
    std::string pattern = (fs::temp_directory_path() / "bigmac-trace-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw Failure("mkdtemp failed");
    folder_ = pattern;
  }
  ~Trace() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  // Plain or compressed; strict: no comments, no trailing commas, no NaN.
  static Json read(const std::string& path) {
    std::string text;
    auto* file = gzopen(path.c_str(), "rb");
    char buffer[4096];
    for (int count; (count = gzread(file, buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(count));
    EXPECT_EQ(gzclose(file), Z_OK);
    return Json::parse(text);
  }

  Json written(const Timeline& timeline, double second = 1) const {
    auto path = (folder_ / "trace.json").string();
    write_trace(schedule(), timeline, path, second);
    std::ifstream file(path);
    return Json::parse(file);  // strict: no comments, no trailing commas, no NaN
  }

  // The message of the Failure that writing to `path` ends in.
  static std::string failure(const std::string& path) {
    try {
      write_trace(schedule(), two_ranks(), path);
    } catch (const Failure& error) {
      return error.what();
    }
    ADD_FAILURE() << "wrote " << path;
    return {};
  }

  // The caller's microbatches 3, 2, 1, 0 stand at positions 0 to 3. Images of unit 0: 5 | 2 1; of unit 1: 1
  // | 1.
  static Schedule schedule() {
    Step step = nested_step(2, 2, 4, true, true);
    step.modules[0].items = {{0, 1}, {0, 5}, {1, 2}, {2, 1}, {3, 1}};
    step.order = {3, 2, 1, 0};
    return make_schedule(step);
  }

  static Timeline two_ranks() {
    Timeline timeline{.start = 10, .end = 20, .rows = std::vector<Timeline::Row>(2)};
    auto f = backbone_forward(1, 3), e = encoder_backward(1), g = generate(6);
    timeline.rows[0].operators = {{f, 12, 15}, {e, 16, 18}};
    timeline.rows[0].intervals = {{Spent::transfer, -1, f, 10, 12}, {Spent::wait, 1, e, 15, 16}};
    timeline.rows[1].operators = {{g, 13, 17.5}};
    return timeline;
  }

  fs::path folder_;
};

TEST_F(Trace, IsStrictJsonWithTheFieldsOfTraceEvents) {
  auto trace = written(two_ranks());
  ASSERT_TRUE(trace.is_object());
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  int complete = 0, named = 0;
  for (const auto& event : trace["traceEvents"]) {
    for (const char* field : {"name", "ph", "pid", "tid"}) EXPECT_TRUE(event.contains(field)) << event;
    if (event["ph"] == "X") {
      ++complete;
      EXPECT_TRUE(event["ts"].is_number()) << event;
      EXPECT_TRUE(event["dur"].is_number()) << event;
      EXPECT_TRUE(event["cat"].is_string()) << event;
      EXPECT_GE(event["ts"], 0) << event;
    } else if (event["ph"] != "s" && event["ph"] != "f") {
      EXPECT_EQ(event["ph"], "M") << event;
      EXPECT_TRUE(event["args"]["name"].is_string()) << event;
      ++named;
    }
  }
  EXPECT_EQ(complete, 5);
  EXPECT_EQ(named, 5);  // two processes, their operators, one's waits and transfers
}

TEST_F(Trace, ShowsOperatorsAndWaitsOnThreadsOfTheirRankInMicrosecondsFromTheStart) {
  auto trace = written(two_ranks());
  Json events = Json::array();
  for (auto& event : trace["traceEvents"])
    if (event["ph"] == "X") events.push_back(event);
  auto expected = Json::parse(R"([
    {"name": "F1.3", "cat": "backbone", "ph": "X", "pid": 0, "tid": 0, "ts": 2e6, "dur": 3e6,
     "args": {"module": "backbone", "operator": "F", "chunk": 1, "microbatch": 0, "position": 3}},
    {"name": "EBu0", "cat": "encoder", "ph": "X", "pid": 0, "tid": 0, "ts": 6e6, "dur": 2e6,
     "args": {"module": "image", "operator": "B", "unit": 0,
              "items": [{"item": 0, "microbatch": 3, "size": 1}, {"item": 2, "microbatch": 2, "size": 2}]}},
    {"name": "transfer F1.3", "cat": "transfer", "ph": "X", "pid": 0, "tid": 1, "ts": 0, "dur": 2e6,
     "args": {"for": "backbone F chunk 1 microbatch 3", "peer": -1}},
    {"name": "wait EBu0", "cat": "wait", "ph": "X", "pid": 0, "tid": 1, "ts": 5e6, "dur": 1e6,
     "args": {"for": "image B unit 0 items 0 of microbatch 0, 0 of microbatch 1", "peer": 1}},
    {"name": "G2", "cat": "generator", "ph": "X", "pid": 1, "tid": 0, "ts": 3e6, "dur": 4.5e6,
     "args": {"module": "picture", "operator": "G", "unit": 1, "items": [{"item": 2, "microbatch": 1, "size": 1}]}}])");
  EXPECT_EQ(events, expected);
}

TEST_F(Trace, TakesTheLengthOfASecond) {
  auto trace = written(two_ranks(), 1000);
  EXPECT_EQ(trace["traceEvents"][9]["name"], "G2");
  EXPECT_EQ(trace["traceEvents"][9]["dur"], 4500);
}

TEST_F(Trace, OfNothingIsStillATrace) {
  EXPECT_EQ(written({})["traceEvents"], Json::array());
}

TEST_F(Trace, FailsNamingAPathThatCannotBeWritten) {
  auto path = (folder_ / "no" / "such" / "folder" / "trace.json").string();
  auto message = failure(path);
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_NE(message.find("No such file or directory"), std::string::npos) << message;
  message = failure(folder_.string());
  EXPECT_NE(message.find(folder_.string()), std::string::npos) << message;
  EXPECT_NE(message.find("Is a directory"), std::string::npos) << message;
}

TEST_F(Trace, FailsWhereTheDiskIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  auto message = failure("/dev/full");
  EXPECT_NE(message.find("/dev/full"), std::string::npos) << message;
  EXPECT_NE(message.find("No space left"), std::string::npos) << message;
}

// The rules of trace events, for steps of all kinds.
TEST_F(Trace, HasArrowsWithBothEndsInsideTheOperatorsThatNeedEachOther) {
  Random random(kSeed);
  for (int round = 0; round < 60; ++round) {
    Base base = kBases[size_t(integer(random, 0, 5))];
    auto chunks = chunks_of(base, 3);
    auto step =
        step_of_base(base, integer(random, 1, 5),
                     chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))], integer(random, 1, 8));
    step = nested(step, integer(random, 0, 1) == 0, integer(random, 0, 1) == 0);
    for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, ": ", describe(step)));
    Costs costs;
    for (size_t n = 0; n < step.modules.size(); ++n) costs.modules.push_back({uniform(random, 0.1, 1), 0.7});
    costs.latency = 0.1;
    Recording recording{.name = {}, .schedule = make_schedule(step, costs), .timeline = {}};
    recording.timeline = simulate(recording.schedule, costs);
    Dependencies dependencies(recording.schedule);
    size_t needed = 0;
    for (int rank = 0; rank < recording.schedule.ranks(); ++rank)
      for (const auto& op : recording.schedule.row(rank))
        dependencies.for_each_predecessor(rank, op, [&](int64_t, int from) { needed += from != rank; });
    for (const char* name : {"trace.json", "trace.json.gz"}) {
      auto path = (folder_ / name).string();
      write_trace(recording, path, {.second = 1000});
      auto trace = read(path);
      std::map<int, std::vector<std::pair<double, double>>> slices;
      std::map<int64_t, std::pair<Json, Json>> arrows;
      for (const auto& event : trace["traceEvents"]) {
        if (event["ph"] == "X" && event["tid"] == 0)
          slices[event["pid"]].emplace_back(event["ts"], double(event["ts"]) + double(event["dur"]));
        if (event["ph"] == "s") arrows[event["id"]].first = event;
        if (event["ph"] == "f") arrows[event["id"]].second = event;
      }
      EXPECT_EQ(arrows.size(), needed);
      auto inside = [&](const Json& event) {
        const auto& list = slices[event["pid"]];
        double at = event["ts"];
        return std::any_of(list.begin(), list.end(),
                           [&](const auto& s) { return s.first <= at && at < s.second; });
      };
      for (const auto& [id, ends] : arrows) {
        ASSERT_TRUE(ends.first.is_object() && ends.second.is_object()) << id;
        EXPECT_LE(double(ends.first["ts"]), double(ends.second["ts"]));
        EXPECT_EQ(ends.second["bp"], "e");
        EXPECT_TRUE(inside(ends.first)) << ends.first;
        EXPECT_TRUE(inside(ends.second)) << ends.second;
      }
    }
  }
}

TEST_F(Trace, HasNoArrowsWhereTheyAreNotWantedOrClocksContradictThem) {
  Recording recording{.name = {}, .schedule = schedule(), .timeline = two_ranks()};
  auto path = (folder_ / "trace.json").string();
  auto count = [&](const TraceOptions& options) {
    write_trace(recording, path, options);
    auto trace = read(path);
    return std::count_if(trace["traceEvents"].begin(), trace["traceEvents"].end(),
                         [](const Json& event) { return event["ph"] == "s"; });
  };
  auto made = make_schedule(nested_step(2, 1, 2, false, false));
  recording.schedule = made;
  recording.timeline = simulate(made, Costs{});
  EXPECT_EQ(count({}), 4);
  EXPECT_EQ(count({.flows = false}), 0);
  for (auto& slice : recording.timeline.rows[1].operators) slice.start -= 100, slice.end -= 100;
  EXPECT_EQ(count({}), 2);  // the gradients to rank 0 alone
}

TEST_F(Trace, CountsTheBytesThatARankHolds) {
  Recording recording{.name = {}, .schedule = schedule(), .timeline = two_ranks()};
  recording.memory = {{{10, 12, 15}, {100, 300, 50}}};
  recording.memory_limit = 400;
  auto path = (folder_ / "trace.json").string();
  write_trace(recording, path);
  Json counted = Json::array();
  auto trace = read(path);
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "C") counted.push_back({event["pid"], event["ts"], event["args"]});
  EXPECT_EQ(
      counted,
      Json::parse(R"([[0, 0.0, {"bytes": 100.0, "free": 300.0}], [0, 2e6, {"bytes": 300.0, "free": 100.0}],
                                     [0, 5e6, {"bytes": 50.0, "free": 350.0}]])"));
}

TEST_F(Trace, KeepsAnyName) {
  auto step = nested_step(1, 1, 1, true, false);
  for (const auto& name :
       std::vector<std::string>{std::string("a\"b\\c\n\t\x01"), std::string("Bild \xC3\xA4 \xF0\x9F\x8D\x94"),
                                std::string("\xff")}) {
    step.modules[0].name = name;
    Recording recording{.name = {}, .schedule = make_schedule(step), .timeline = {}};
    recording.timeline = simulate(recording.schedule, Costs{.modules = {{1, 1}}});
    auto path = (folder_ / "trace.json").string();
    write_trace(recording, path);
    bool found = false;
    auto trace = read(path);
    for (const auto& event : trace["traceEvents"])
      if (event.contains("args") && event["args"].contains("module"))
        found = found || event["args"]["module"] == (name == "\xff" ? "\xEF\xBF\xBD" : name);
    EXPECT_TRUE(found) << name;
  }
}

// Every operator is written by itself or counted in an event that covers it; all of them take what they took.
TEST_F(Trace, PutsTheSteadyStateTogetherWhereThereAreMoreOperatorsThanWanted) {
  Recording recording{
      .name = {}, .schedule = make_schedule(nested_step(4, 2, 400, true, false)), .timeline = {}};
  recording.timeline = simulate(recording.schedule, Costs{.modules = {{0.5, 1}}});
  auto path = (folder_ / "trace.json").string();
  for (int64_t most : {0, 1000, 2000, 1'000'000}) {
    SCOPED_TRACE(concat("most ", most));
    write_trace(recording, path, {.most = most});
    auto trace = read(path);
    std::map<int, double> busy, ends;
    std::map<int, int64_t> operators;
    int64_t single = 0, merged = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X" || event["tid"] != 0) continue;
      int rank = event["pid"];
      EXPECT_GE(double(event["ts"]), ends[rank] - 1e-3);  // in order, without overlaps
      ends[rank] = double(event["ts"]) + double(event["dur"]);
      if (event["cat"] != "merged") {
        ++single, ++operators[rank];
        busy[rank] += double(event["dur"]);
        continue;
      }
      merged += int64_t(event["args"]["operators"]);
      operators[rank] += int64_t(event["args"]["operators"]);
      double took = 0;
      for (const auto& [name, microseconds] : event["args"]["microseconds"].items())
        took += double(microseconds);
      EXPECT_NEAR(took, double(event["args"]["busy"]) * double(event["dur"]), 1e-3 * took);
      busy[rank] += took;
    }
    EXPECT_EQ(trace["otherData"]["operators"], single);
    EXPECT_EQ(merged > 0, most > 0 && most < int64_t(recording.schedule.operators.size()));
    if (merged > 0) {
      EXPECT_LE(single, most);
      EXPECT_EQ(trace["otherData"]["merged"], merged);
    }
    for (int rank = 0; rank < 4; ++rank) {
      double all = rank_times(recording.timeline)[size_t(rank)].busy * 1e6;
      EXPECT_EQ(operators[rank], int64_t(recording.schedule.row(rank).size()));
      EXPECT_NEAR(busy[rank], all, 1e-6 * all);
    }
  }
}

TEST_F(Trace, WritesAPartOfTheStep) {
  Recording recording{
      .name = {}, .schedule = make_schedule(nested_step(4, 2, 40, true, false)), .timeline = {}};
  recording.timeline = simulate(recording.schedule, Costs{.modules = {{0.5, 1}}});
  auto path = (folder_ / "trace.json").string();
  write_trace(recording, path, {.from = 20, .to = 31});
  int64_t written = 0, expected = 0, starts = 0, ends = 0;
  auto trace = read(path);
  for (const auto& event : trace["traceEvents"]) {
    starts += event["ph"] == "s";
    ends += event["ph"] == "f";
    if (event["ph"] != "X") continue;
    ++written;
    EXPECT_GT(double(event["ts"]) + double(event["dur"]), 20e6);
    EXPECT_LT(double(event["ts"]), 31e6);
  }
  for (const auto& row : recording.timeline.rows)
    for (const auto& slice : row.operators) expected += slice.end > 20 && slice.start < 31;
  EXPECT_EQ(written, expected);
  EXPECT_GT(starts, 0);
  EXPECT_EQ(starts, ends);
  EXPECT_THROW(write_trace(recording, path, {.from = 31, .to = 20}), InvalidInput);
  EXPECT_THROW(write_trace(recording, path, {.from = recording.timeline.length() + 1}), InvalidInput);
}

}  // namespace
}  // namespace bigmac
