#include "bigmac/measured/recorded.h"
#include "bigmac/simulate/links.h"
#include "bigmac/timeline/trace.h"
#include "tests/measured/sound.h"

namespace bigmac {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string all_notes(const Recording& recording) {
  std::string text;
  for (const auto& note : recording.notes) text += note + "\n";
  return text;
}

// What a step with an encoder writes: operators, waits and transfers, memory.
class DamagedTrace : public InFolder {
 protected:
  void SetUp() override {
    InFolder::SetUp();
    Costs costs{.modules = {{0.5, 1}}};
    auto schedule = make_schedule(nested_step(3, 2, 3, true, false), costs);
    Links links{.exchange = Exchange::batched, .inside = {0.2, 0}, .between = {0.2, 0}};
    whole_ = {.name = "step", .schedule = schedule, .timeline = simulate(schedule, costs, links)};
    for (double rank : {0., 1., 2.}) whole_.memory.push_back({{0, 5, 9}, {10 + rank, 30, 20}});
    whole_.memory_limit = 40;
    write_trace(whole_, path("whole.json"), {.flows = false});
    text_ = bytes_of(path("whole.json"));
    json_ = Json::parse(text_);
  }

  Recording read(const std::string& name, const std::string& text) const {
    return recorded_step({write(name, text)});
  }
  Recording changed(const std::function<void(Json&)>& how) const {
    auto json = json_;
    how(json["traceEvents"]);
    auto recording = read("changed.json", json.dump());
    EXPECT_EQ(unsound(recording), "");
    return recording;
  }
  // Each of the events that is this rank's operator.
  static void for_each_operator(Json& events, int rank, const std::function<void(Json&)>& how) {
    for (auto& event : events)
      if (event["ph"] == "X" && event["args"].contains("operator") && event["pid"] == rank) how(event);
  }
  static Json& operator_named(Json& events, const std::string& name) {
    for (auto& event : events)
      if (event["ph"] == "X" && event["name"] == name) return event;
    throw std::runtime_error(name);
  }

  Recording whole_;
  std::string text_;
  Json json_;
};

TEST_F(DamagedTrace, IsWholeBefore) {
  auto recording = read("whole.json", text_);
  EXPECT_EQ(unsound(recording), "");
  EXPECT_TRUE(recording.notes.empty()) << all_notes(recording);
  EXPECT_EQ(recording.schedule.operators.size(), whole_.schedule.operators.size());
}

TEST_F(DamagedTrace, IsReadUpToWhereItIsCutAtEveryByte) {
  // Events are lines.
  std::vector<size_t> ends;
  for (size_t at = 0; (at = text_.find("\"operator\":", at)) != std::string::npos; ++at)
    ends.push_back(text_.find('\n', at) - 1);  // without the comma
  ASSERT_EQ(ends.size(), whole_.schedule.operators.size());
  for (size_t length = 1; length + 1 < text_.size(); ++length) {
    auto operators =
        size_t(std::count_if(ends.begin(), ends.end(), [&](size_t end) { return end <= length; }));
    SCOPED_TRACE(concat("cut behind ", length, " bytes, ", operators, " operators"));
    auto file = write("cut.json", text_.substr(0, length));
    if (operators == 0) {
      EXPECT_TRUE(refusal([&] { recorded_step({file}); })) << "no operator";
      continue;
    }
    auto recording = recorded_step({file});
    ASSERT_EQ(unsound(recording), "");
    ASSERT_EQ(recording.schedule.operators.size(), operators);
    ASSERT_EQ(recording.timeline.rows.size(), 3u);
    auto notes = all_notes(recording);
    ASSERT_TRUE(contains(notes, "cut.json")) << notes;
    ASSERT_TRUE(contains(notes, concat(operators, " operators"))) << notes;
    ASSERT_EQ(recording.missing.empty(), operators == ends.size()) << notes;
    if (operators < ends.size()) {
      ASSERT_TRUE(contains(notes, concat(ends.size() - operators, " are missing"))) << notes;
    }
  }
}

TEST_F(DamagedTrace, IsReadUpToWhereItsGzipIsCutAtEveryByte) {
  auto bytes = bytes_of(write_gzip("whole.json.gz", text_));
  size_t most = 0;
  for (size_t length = 1; length < bytes.size(); ++length) {
    SCOPED_TRACE(concat("cut behind ", length, " bytes"));
    auto file = write("cut.json.gz", bytes.substr(0, length));
    try {
      auto recording = recorded_step({file});
      ASSERT_EQ(unsound(recording), "");
      ASSERT_GE(recording.schedule.operators.size(), most);
      most = recording.schedule.operators.size();
      ASSERT_TRUE(contains(all_notes(recording), "cut.json.gz ends too early")) << all_notes(recording);
    } catch (const InvalidInput&) {
      ASSERT_EQ(most, 0u) << "less was read of more";
    }
  }
  EXPECT_EQ(most, whole_.schedule.operators.size());
}

TEST_F(DamagedTrace, LacksARank) {
  auto recording = changed([](Json& events) {
    auto kept = Json::array();
    for (const auto& event : events)
      if (event["pid"] != 1) kept.push_back(event);
    events = kept;
  });
  EXPECT_EQ(recording.timeline.rows.size(), 3u);
  EXPECT_TRUE(recording.timeline.rows[1].operators.empty());
  EXPECT_EQ(recording.timeline.rows[2].operators.size(), whole_.timeline.rows[2].operators.size());
  EXPECT_FALSE(recording.missing.empty());
  expect_parts(all_notes(recording), {"of 3 ranks these are missing, no operator of them was read: 1",
                                      "operators are missing, on rank 1"});
}

TEST_F(DamagedTrace, LacksFilesOfRanks) {
  for (int rank : {0, 2}) {
    auto events = Json::array();
    for (const auto& event : json_["traceEvents"])
      if (event["pid"] == rank) events.push_back(event);
    write(concat("rank", rank, ".json"), Json{{"traceEvents", events}}.dump());
  }
  write("rank5.json", "");
  write("rank7.json",
        "\x7f"
        "ELF junk");
  std::filesystem::remove(path("whole.json"));
  auto recording = recorded_step({folder()});
  EXPECT_EQ(unsound(recording), "");
  EXPECT_TRUE(recording.timeline.rows[1].operators.empty());
  expect_parts(all_notes(recording),
               {"of 3 ranks these are missing, no operator of them was read: 1",
                "rank5.json' is left out: cannot read", "it is empty", "rank7.json' is left out"});
}

TEST_F(DamagedTrace, HasTimesThatCannotBe) {
  struct Damage {
    std::function<void(Json&)> how;
    std::vector<std::string> told;
    bool whole;
  };
  auto at = [&](const std::string& name, const std::string& key, const Json& value) {
    return [=](Json& events) { operator_named(events, name)[key] = value; };
  };
  const Damage damages[] = {
      {at("B0.1", "dur", -5), {"1 events", "left out", "(B0.1): takes -5"}, false},
      {at("B0.1", "dur", 1e300), {"(B0.1)", "1e+300", "no clock"}, false},
      {at("B0.1", "ts", -1e300), {"(B0.1)", "no clock"}, false},
      {at("B0.1", "ts", nullptr), {"(B0.1): lacks ts"}, false},
      {at("B0.1", "ts", -1e15),
       {"1 operators are far from all others in time", "B chunk 0 microbatch 1"},
       false},
      {at("F0.1", "dur", 9e6),
       {"overlap the one behind them", "the first: rank 0, F chunk 0 microbatch 1 at"},
       true},
      {at("F0.1", "name", "F0.1 again"), {}, true},
  };
  for (const auto& [how, told, whole] : damages) {
    auto recording = changed(how);
    expect_parts(all_notes(recording), told);
    EXPECT_EQ(recording.missing.empty(), whole) << all_notes(recording);
    EXPECT_LT(recording.timeline.length(), 2 * whole_.timeline.length());
  }
}

TEST_F(DamagedTrace, HasNumbersThatCannotBe) {
  auto argument = [&](const std::string& name, const std::string& key, const Json& value) {
    return [=](Json& events) { operator_named(events, name)["args"][key] = value; };
  };
  for (const auto& how :
       {argument("F0.1", "microbatch", 2000000000), argument("F0.1", "position", 2000000000),
        argument("F0.1", "chunk", 70000), argument("F0.1", "stage", 1000000), argument("F0.1", "stage", 2),
        argument("F0.1", "operator", "G"), argument("F0.1", "operator", "Q"),
        argument("F0.1", "module", "text"), argument("EF0", "items", Json::array()),
        argument("EF0", "unit", -1), argument("EF0", "operator", "G"), argument("EF0", "module", "other")}) {
    auto recording = changed(how);
    EXPECT_FALSE(recording.missing.empty());
    EXPECT_FALSE(recording.notes.empty());
    EXPECT_GE(recording.schedule.operators.size() + 2, whole_.schedule.operators.size());
  }
}

TEST_F(DamagedTrace, HoldsOperatorsTwice) {
  auto recording = changed([](Json& events) {
    auto twice = operator_named(events, "F0.2");
    twice["ts"] = 1e5 + twice["ts"].get<double>();
    events.push_back(twice);
    events.push_back(operator_named(events, "EB0"));
  });
  EXPECT_EQ(recording.schedule.operators.size(), whole_.schedule.operators.size());
  expect_parts(all_notes(recording), {"2 operators are there twice; the first is taken; the first: rank 0"});
}

// Whatever happens to a trace, it is shown or refused, and what is shown can be drawn.
TEST_F(DamagedTrace, IsShownOrRefusedWhateverHappensToIt) {
  Random random(kSeed);
  const Json values[] = {nullptr,       true,          -1,         0,   3,  7,   1e6, 1e12, -1e12,
                         1e18,          1e300,         2147483647, 1.5, "", "x", "F", "B",  "encoder",
                         Json::array(), Json::object()};
  auto any = [&](int64_t most) { return size_t(integer(random, 0, most)); };
  int shown = 0;
  for (int round = 0; round < 1500; ++round) {
    auto json = json_;
    std::string text;
    for (int64_t n = integer(random, 1, 4); n > 0; --n) {
      auto& events = json["traceEvents"];
      auto& event = events[any(int64_t(events.size()) - 1)];
      auto* into = &event;
      if (event.contains("args") && integer(random, 0, 1) == 0) into = &event["args"];
      if (into->contains("items") && integer(random, 0, 1) == 0 && !(*into)["items"].empty())
        into = &(*into)["items"][0];
      if (!into->is_object() || into->empty()) continue;
      auto field = into->begin();
      std::advance(field, std::ptrdiff_t(any(int64_t(into->size()) - 1)));
      auto kind = integer(random, 0, 9);
      if (kind == 0)
        events.erase(events.begin() + std::ptrdiff_t(any(int64_t(events.size()) - 1)));
      else if (kind == 1)
        events.push_back(Json(event));
      else if (kind == 2 && field.value().is_number())
        field.value() = field.value().get<double>() + double(integer(random, -3, 3));
      else
        field.value() = values[any(int64_t(std::size(values)) - 1)];
    }
    text = json.dump();
    if (integer(random, 0, 2) == 0) text[any(int64_t(text.size()) - 1)] = char(integer(random, 0, 255));
    if (integer(random, 0, 3) == 0) text.resize(any(int64_t(text.size()) - 1));
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round));
    try {
      auto recording = read("any.json", text);
      ASSERT_EQ(unsound(recording), "") << text;
      ASSERT_TRUE(recording.missing.empty() || !recording.notes.empty()) << text;
      ++shown;
    } catch (const InvalidInput&) {
    }
  }
  EXPECT_GT(shown, 1000);
}

}  // namespace
}  // namespace bigmac
