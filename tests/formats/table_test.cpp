#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>

#include "bigmac/formats/table_csv.h"
#include "bigmac/formats/table_json.h"
#include "bigmac/schedule/check.h"
#include "tests/formats/support.h"

namespace bigmac {
namespace {

struct Format {
  const char* name;
  std::string (*write)(const Schedule&);
  Schedule (*read)(std::string_view, const std::string&);
};
constexpr Format kFormats[] = {{"csv", to_csv, parse_csv}, {"json", to_json, parse_json}};

void expect_round_trip(const Schedule& schedule) {
  for (const auto& format : kFormats) {
    auto text = format.write(schedule);
    auto read = format.read(text, "t");
    EXPECT_EQ(read, schedule) << format.name;
    EXPECT_EQ(format.write(read), text) << format.name;
  }
}

Step small_step() {
  Step step;
  step.ranks = 2;
  step.microbatches = 2;
  step.arrangement = Arrangement::nested;
  step.modules.push_back({"image", Module::encoder, {{0, 1}, {0, 2.5}, {1, 1}}});
  return step;
}

TEST(OwnFormats, GiveEveryTableBackExactly) {
  RandomSteps steps(20250613);
  int made = 0;
  for (int i = 0; i < 3000; ++i) {
    auto arrangement = kArrangements[i % std::size(kArrangements)];
    Schedule schedule;
    try {
      schedule = make_schedule(steps.next(arrangement));
    } catch (const InvalidInput&) {
      continue;
    }
    ++made;
    SCOPED_TRACE(concat(i, " ", name(arrangement), " ", name(schedule.step.base), " ", shape(schedule.step)));
    expect_round_trip(schedule);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(made, 2000);
}

TEST(OwnFormats, KeepSizesToTheLastBit) {
  Step step = small_step();
  step.modules[0].items = {{0, std::nextafter(1.0, 2.0)}, {0, 0.1},  {0, 5e-324},
                           {1, 1.7976931348623157e308},   {1, 1e17}, {1, 3}};
  expect_round_trip(make_schedule(step));
}

TEST(OwnFormats, SayWhichEncoderIsFrozenAndTakeFilesThatSayNothing) {
  Step step = small_step();
  auto trained = make_schedule(step);
  step.modules[0].trained = false;
  auto schedule = make_schedule(step);
  ASSERT_NE(schedule.operators, trained.operators);
  const std::string flag = "\"warmup_units\":0,\"trained\":false,", none = "\"warmup_units\":0,";
  EXPECT_EQ(parse_json(with(to_json(schedule), flag, flag), "t"), schedule);
  EXPECT_EQ(parse_csv(with(to_csv(schedule), flag, flag), "t"), schedule);
  for (const auto* value : {"", "\"trained\":true,"}) {
    EXPECT_EQ(parse_json(with(to_json(trained), none, none + value), "t"), trained);
    EXPECT_EQ(parse_csv(with(to_csv(trained), none, none + value), "t"), trained);
  }
  // Another flag is another table, which check() tells.
  EXPECT_FALSE(check(parse_json(with(to_json(trained), none, flag), "t")).empty());
  EXPECT_FALSE(check(parse_csv(with(to_csv(schedule), flag, none), "t")).empty());
}

TEST(OwnFormats, KeepTheOverlapsAndStageRanksOfACustomTable) {
  Step step;
  step.ranks = 2;
  step.chunks = 2;
  step.microbatches = 7;
  step.base = Base::dualpipe_v;
  Schedule schedule = make_schedule(step);
  ASSERT_FALSE(schedule.overlapped.empty());
  expect_round_trip(schedule);
  schedule.step.base = Base::custom;
  schedule.step.stage_ranks = {0, 1, 1, 0};
  expect_round_trip(schedule);
  EXPECT_EQ(check(schedule), std::vector<std::string>());
}

TEST(OwnFormats, KeepWhatCheckFindsFaultWith) {
  Schedule schedule = make_schedule(small_step());
  std::reverse(schedule.operators.begin(), schedule.operators.begin() + schedule.row_begin[1]);
  for (const auto& format : kFormats) {
    auto read = format.read(format.write(schedule), "t");
    EXPECT_EQ(read, schedule);
    EXPECT_EQ(check(read), check(schedule));
    EXPECT_FALSE(check(read).empty());
  }
}

TEST(OwnFormats, LeaveToCheckWhatIsNoMatterOfForm) {
  auto text = to_json(make_schedule(small_step()));
  auto first_problem = [&](const std::string& from, const std::string& to) {
    auto problems = check(parse_json(with(text, from, to), "t"));
    return problems.empty() ? "none" : problems[0];
  };
  EXPECT_EQ(first_problem("\"items\":[0,2]", "\"items\":[2]"),
            "item 0 of 'image' (microbatch 0) is on no rank");
  EXPECT_EQ(first_problem("\"items\":[1]", "\"items\":[0,1]"), "item 0 of 'image' is in two shares, 0 and 1");
  EXPECT_EQ(first_problem("\"items\":[1]", "\"items\":[]"), "share 0 of 'image' has no items");
  EXPECT_EQ(first_problem("\"rank\":1", "\"rank\":2"), "share 1 is on rank 2, the step has ranks 0 to 1");
  EXPECT_EQ(first_problem("\"microbatch\":1}", "\"microbatch\":0}"),
            "rank 0 position 2 (backbone F chunk 0 microbatch 0) is there twice, first at position 1");
  EXPECT_EQ(first_problem("\"chunk\":0,\"microbatch\":1}", "\"chunk\":1,\"microbatch\":1}"),
            "rank 0 position 2 (backbone F chunk 1 microbatch 1) does not belong to this rank of the step");
  EXPECT_EQ(first_problem("\"microbatches\":2", "\"microbatches\":3"),
            "rank 0 misses backbone F chunk 0 microbatch 2");
}

TEST(OwnCsv, IsALineAnOperatorBehindTheStepAndItsUnits) {
  Step step = small_step();
  step.base = Base::gpipe;
  EXPECT_EQ(
      to_csv(make_schedule(step)),
      "# bigmac table 1\n"
      "# {\"step\":{\"ranks\":2,\"chunks\":1,\"microbatches\":2,\"base\":\"gpipe\",\"group\":0,"
      "\"schedule\":\"nested\",\"generator_unit\":0,\"spread\":true,\"order\":[],\"stage_ranks\":[],"
      "\"modules\":[\n"
      "# "
      "{\"name\":\"image\",\"kind\":\"encoder\",\"warmup_units\":0,\"items\":[{\"microbatch\":0,\"size\":1},"
      "{\"microbatch\":0,\"size\":2.5},{\"microbatch\":1,\"size\":1}]}]},\n"
      "# \"units\":[\n"
      "# {\"module\":\"image\",\"operator\":\"F\",\"unit\":0,\"place\":[0,0]},\n"
      "# {\"module\":\"image\",\"operator\":\"B\",\"unit\":0,\"place\":[5,5]}]}\n"
      "rank,position,module,operator,chunk,microbatch,overlap,share,unit,items\n"
      "0,0,image,F,,,,0,0,0.1\n"
      "0,1,backbone,F,0,0,,,,\n"
      "0,2,backbone,F,0,1,,,,\n"
      "0,3,backbone,B,0,0,,,,\n"
      "0,4,backbone,B,0,1,,,,\n"
      "0,5,image,B,,,,0,0,0.1\n"
      "1,0,image,F,,,,1,0,0.0 1.0\n"
      "1,1,backbone,F,0,0,,,,\n"
      "1,2,backbone,F,0,1,,,,\n"
      "1,3,backbone,B,0,0,,,,\n"
      "1,4,backbone,B,0,1,,,,\n"
      "1,5,image,B,,,,1,0,0.0 1.0\n");
}

TEST(OwnCsv, TakesBothKindsOfLineEndAndNoneAtTheEnd) {
  Schedule schedule = make_schedule(small_step());
  auto text = to_csv(schedule), crlf = text;
  for (size_t at = 0; (at = crlf.find('\n', at)) != crlf.npos; at += 2) crlf.insert(at, "\r");
  EXPECT_EQ(parse_csv(crlf, "t"), schedule);
  EXPECT_EQ(parse_csv(text.substr(0, text.size() - 1), "t"), schedule);
}

TEST(OwnCsv, RefusesToWriteANameThatItCannotHold) {
  for (std::string bad : {"", "a,b", "a\"b", "a#b", "a\nb", "a\x7f", "a\xff"}) {
    Step step = small_step();
    step.modules[0].name = bad;
    Schedule schedule = make_schedule(step);
    EXPECT_THROW(to_csv(schedule), InvalidInput) << bad;
    if (bad == "a\xff")
      EXPECT_THROW(to_json(schedule), InvalidInput);
    else
      EXPECT_EQ(parse_json(to_json(schedule), "t"), schedule);
  }
}

class BadCsv : public testing::Test {
 protected:
  std::string text = to_csv(make_schedule(small_step()));

  void expect(const std::string& bad, const std::vector<std::string>& parts) {
    expect_told(error_of([&] { parse_csv(bad, "t.csv"); }), parts);
  }
  void expect_changed(const std::string& from, const std::string& to, const std::vector<std::string>& parts) {
    expect(with(text, from, to), parts);
  }
};

TEST_F(BadCsv, NamesLineColumnAndWhatWouldBeRight) {
  // Line 8 is rank 0's first forward.
  ASSERT_NE(text.find("items\n0,0,image,F,,,,0,0,0.1\n0,1,backbone,F,0,0,,,,\n"), text.npos) << text;
  const std::string line = "\n0,1,backbone,F,0,0,,,,\n";
  struct Case {
    const char* line;
    std::vector<std::string> told;
  };
  for (const auto& [changed, told] : std::vector<Case>{
           {"0,1,backbone,F,0,x,,,,", {"[csv] t.csv:9:6: microbatch 'x' must be a whole number from 0 to"}},
           {"0,1,backbone,F,0,-1,,,,", {"t.csv:9:6: microbatch '-1' must be"}},
           {"0,1,backbone,F,0,01,,,,", {"microbatch '01' must be"}},
           {"0,1,backbone,F,0,0 ,,,,", {"microbatch '0 ' must be"}},
           {"0,1,backbone,F,0,1e0,,,,", {"microbatch '1e0' must be"}},
           {"0,1,backbone,F,0,nan,,,,", {"microbatch 'nan' must be"}},
           {"0,1,backbone,F,0,4294967296,,,,", {"a whole number from 0 to 4294967295"}},
           {"0,1,backbone,F,0,99999999999999999999,,,,", {"a whole number from 0 to 4294967295"}},
           {"0,1,backbone,F,65536,0,,,,", {"9:5: chunk '65536' must be a whole number from 0 to 65535"}},
           {"0,1,backbone,F,,0,,,,", {"9:5: chunk '' must be"}},
           {"2,1,backbone,F,0,0,,,,", {"9:1: rank '2' must be a whole number from 0 to 1"}},
           {"0,2,backbone,F,0,0,,,,", {"9:2: position '2' must be 1"}},
           {"1,0,backbone,F,0,0,,,,", {"10:1: rank '0' is behind rank 1"}},
           {"0,1,backbone,f,0,0,,,,", {"9:4: operator 'f' must be one of F, B, I, W, G"}},
           {"0,1,image,F,0,0,,,,", {"9:3: module 'image' must be backbone where there is no share"}},
           {"0,1,backbone,F,0,0,x,,,", {"9:7: overlap 'x' must be 1 or empty"}},
           {"0,1,backbone,F,0,0,,,1,", {"9:9: unit '1' must be empty for the backbone"}},
           {"0,1,backbone,F,0,0,,,,0.0", {"9:10: items '0.0' must be empty for the backbone"}},
           {"0,1,backbone,F,,,,0,0,0.1", {"9:3: module 'backbone' is no module of the step"}},
           {"0,1,image,B,0,,,0,0,0.1", {"9:5: chunk '0' must be empty for an encoder or generator"}},
           {"0,1,image,B,,,,99,0,0.1", {"9:8: share '99' must be a whole number from 0 to"}},
           {"0,1,image,B,,,,0,1,0.1",
            {"9:8: share '0' must have the rank, module, unit and items of its operator in line 8"}},
           {"0,1,image,B,,,,0,0,0.0", {"of its operator in line 8"}},
           {"0,1,image,B,,,,0,0,", {"of its operator in line 8"}},
           {"0,1,image,B,,,,0,0,0.2",
            {"9:10: items '0.2' has '0.2', which the module 'image' does not have"}},
           {"0,1,image,B,,,,0,0,7.0", {"does not have"}},
           {"0,1,image,B,,,,0,0,0.1 ", {"must be microbatch.number, with one space between items"}},
           {"0,1,image,B,,,,0,0,0.1  1.0", {"must be microbatch.number"}},
           {"0,1,image,B,,,,0,0,0", {"must be microbatch.number"}},
           {"0,1,backbone,F,0,0,,,", {"t.csv:9: has 9 fields, must have 10: rank,position,module"}},
           {"0,1,backbone,F,0,0,,,,,", {"t.csv:9: has more than 10 fields"}},
           {"", {"t.csv:9: has 1 fields"}},
           {"# 0", {"t.csv:9: has 1 fields"}}})
    expect_changed(line, concat("\n", changed, "\n"), told);
}

TEST_F(BadCsv, MissesWhatStandsBeforeTheOperators) {
  expect("", {"[csv] t.csv:1: must begin with the line '# bigmac table 1'"});
  expect_changed("table 1", "table 2",
                 {"t.csv:1: must begin with the line '# bigmac table 1', got '# bigmac table 2'"});
  expect_changed("rank,position", "rank,place", {"t.csv:7: must be rank,position,module,operator"});
  expect(text.substr(0, text.find("rank,")), {"must be rank,position,module"});
  expect_changed("# \"units\"", "#\"units\"", {"t.csv:4: must begin with '# '"});
  expect_changed("\"place\":[0,0]", "\"place\":[0 0]", {"[csv] t.csv:5:"});
  expect_changed("\"place\":[0,0]", "\"place\":[0,-1]",
                 {"[csv] t.csv: /units/0/place/1: must be a whole number from 0 to 268435456, got -1"});
  expect_changed("\"ranks\":2", "\"ranks\":1", {"rank '1' must be a whole number from 0 to 0"});
}

TEST_F(BadCsv, MissesSharesAndBackwardsOfOverlaps) {
  auto bad = with(with(text, "1,0,image,F,,,,1,", "1,0,image,F,,,,2,"), ",image,B,,,,1,", ",image,B,,,,2,");
  expect(bad, {"[csv] t.csv: share 1 has no operator, share 2 has; shares must be numbered from 0"});
  expect_changed("0,1,backbone,F,0,0,,,,\n", "0,1,backbone,F,0,0,1,,,\n",
                 {"rank 0 position 1: overlap is for a forward of the backbone with a B or I"});
}

class BadJson : public testing::Test {
 protected:
  std::string text = to_json(make_schedule(small_step()));

  void expect(const std::string& bad, const std::vector<std::string>& parts) {
    expect_told(error_of([&] { parse_json(bad, "t.json"); }), parts);
  }
  void expect_changed(const std::string& from, const std::string& to, const std::vector<std::string>& parts) {
    expect(with(text, from, to), parts);
  }
};

TEST_F(BadJson, IsNamedByLineAndColumnWhereItIsNoJson) {
  expect("", {"[json] t.json:1:1: the JSON ends too early"});
  expect("{\"bigmac_table\":1", {"[json] t.json:1:18: the JSON ends too early"});
  expect("{\n  \"bigmac_table\":oops}", {"[json] t.json:2:", "is no JSON at the end of"});
  expect(text + "junk", {"[json] t.json:25:1: is no JSON at the end of 'j'"});
  expect(text + "{}", {"is no JSON at the end of '{'"});
  expect_changed("\"size\":2.5", "\"size\":NaN", {"[json] t.json:3:", "is no JSON at the end of"});
  expect_changed("\"size\":2.5", "\"size\":1e999", {"has too large a number: '1e999'"});
  expect_changed("\"size\":2.5", "\"size\":01", {"is no JSON at the end of"});
  expect_changed("\"image\"", "\"im\xff\"", {"is no JSON at the end of"});
  expect_changed("},\n{", "},}{", {"is no JSON at the end of"});
  EXPECT_LT(error_of([&] { parse_json("\"" + std::string(1'000'000, 'x'), "t.json"); }).size(), 200);
}

TEST_F(BadJson, IsNamedByItsPlaceInTheTable) {
  expect("[]", {"[json] t.json: must be an object, got an array"});
  expect("{}", {"[json] t.json: lacks the key 'step'"});
  expect_changed("\"bigmac_table\":1", "\"bigmac_table\":2",
                 {"/bigmac_table: must be a whole number from 1 to 1, got 2"});
  expect_changed("\"chunk\":0", "\"chunk\":\"x\"",
                 {"[json] t.json: /rows/0/1/chunk: must be a whole number from 0 to 65535, got 'x'"});
  expect_changed("\"chunk\":0", "\"chunk\":65536", {"/rows/0/1/chunk", "got 65536"});
  expect_changed("\"chunk\":0", "\"chunk\":0.0", {"/rows/0/1/chunk", "got 0.0"});
  expect_changed("\"chunk\":0", "\"chunk\":-1", {"/rows/0/1/chunk", "got -1"});
  expect_changed("\"chunk\":0", "\"chunk\":null", {"/rows/0/1/chunk", "got null"});
  expect_changed("\"chunk\":0", "\"chunk\":[0]", {"/rows/0/1/chunk", "got an array"});
  expect_changed("\"chunk\":0", "\"chunk\":true", {"/rows/0/1/chunk", "got true"});
  expect_changed("\"chunk\":0", "\"chunk\":99999999999999999999", {"/rows/0/1/chunk"});
  expect_changed("\"chunk\":0", "\"chunk\":18446744073709551615",
                 {"/rows/0/1/chunk", "got 18446744073709551615"});
  expect_changed("\"chunk\":0", "\"chunc\":0",
                 {"[json] t.json: /rows/0/1: unknown key 'chunc' (did you mean 'chunk'?)"});
  expect_changed("\"chunk\":0", "\"chunk\":0,\"chunk\":0", {"/rows/0/1: has the key 'chunk' twice"});
  expect_changed("\"chunk\":0,", "", {"/rows/0/1: must have chunk and microbatch, or share"});
  expect_changed("\"chunk\":0", "\"chunk\":0,\"share\":0",
                 {"/rows/0/1: must have chunk and microbatch, or share"});
  expect_changed("\"operator\":\"F\",\"chunk\"", "\"operator\":\"E\",\"chunk\"",
                 {"/rows/0/1/operator: must be one of F, B, I, W, G, got 'E'"});
  expect_changed("\"operator\":\"F\",\"chunk\"", "\"chunk\"", {"/rows/0/1: lacks the key 'operator'"});
  expect_changed("\"microbatch\":0}", "\"microbatch\":0,\"overlap\":1}",
                 {"/overlap: must be true or false, got 1"});
  expect_changed("\"share\":0", "\"share\":7",
                 {"[json] t.json: /rows/0/0/share: is 7, the table has 2 shares"});
  expect_changed("\"items\":[1]", "\"items\":[3]", {"/shares/0/items: has 3, the module has 3 items"});
  expect_changed("{\"module\":\"image\",\"unit\":0,\"rank\"", "{\"module\":\"imago\",\"unit\":0,\"rank\"",
                 {"[json] t.json: unknown module 'imago' (did you mean 'image'?)"});
  expect_changed("\"base\":\"1f1b\"", "\"base\":\"1fb\"",
                 {"/step/base: unknown base schedule '1fb' (did you mean '1f1b'?)"});
  expect_changed("\"schedule\":\"nested\"", "\"schedule\":\"\\u0001\"",
                 {"/step/schedule: unknown schedule '\\x01'"});
  expect_changed("\"kind\":\"encoder\"", "\"kind\":\"backbone\"",
                 {"/step/modules/0/kind: must be 'encoder' or 'generator', got 'backbone'"});
  expect_changed("\"warmup_units\":0", "\"warmup_units\":0,\"trained\":0",
                 {"/step/modules/0/trained: must be true or false, got 0"});
  expect_changed("\"ranks\":2", "\"ranks\":0", {"/step/ranks: must be a whole number from 1 to"});
  expect_changed("\"ranks\":2", "\"ranks\":3", {"[json] t.json: /rows: has 2 rows, the step has 3 ranks"});
  expect_changed("\"spread\":true,", "", {"[json] t.json: /step: lacks the key 'spread'"});
}

TEST_F(BadJson, IsNoLegalStep) {
  expect_changed("\"size\":2.5", "\"size\":0",
                 {"[json] t.json: [schedule] module 'image': item 1", "has size 0"});
  expect_changed("\"size\":2.5", "\"size\":-1", {"has size -1"});
  expect_changed("\"order\":[]", "\"order\":[0,0]", {"[order] has microbatch 0 twice"});
  expect_changed("\"stage_ranks\":[]", "\"stage_ranks\":[0,7]", {"stage 1 is on rank 7"});
  expect_changed("\"group\":0", "\"group\":2", {"has no groups"});
  expect_changed("\"kind\":\"encoder\"", "\"trained\":false,\"kind\":\"generator\"",
                 {"module 'image' is a generator and cannot be frozen"});
}

TEST_F(BadJson, HasFarFewerOperatorsThanItsStep) {
  expect_changed("\"microbatches\":2", "\"microbatches\":10000000",
                 {"[json] t.json: has 12 operators, far fewer than a step of P=2 V=1 M=10000000"});
  expect_changed("\"ranks\":2", "\"ranks\":10000000", {"far fewer than a step of P=10000000"});
  expect_changed("\"ranks\":2", "\"ranks\":268435456", {"make more than"});
}

TEST(OwnJson, TakesItsKeysInAnyOrder) {
  Schedule schedule = make_schedule(small_step());
  auto text = to_json(schedule);
  auto shares = text.find("\"shares\""), units = text.find("\"units\""), step = text.find("\"step\"");
  auto rows = text.find("\"rows\"");
  auto turned = "{" + text.substr(rows, text.rfind('}') - rows) + "," + text.substr(shares, rows - shares) +
                text.substr(units, shares - units) + text.substr(step, units - step) + "\"bigmac_table\":1}";
  EXPECT_EQ(parse_json(turned, "t"), schedule);
}

TEST(OwnFormats, CutAnywhereAreEitherRefusedOrFoundIncomplete) {
  Schedule schedule = make_schedule(small_step());
  for (const auto& format : kFormats) {
    auto text = format.write(schedule);
    for (size_t length = 0; length + 1 < text.size(); ++length) {
      Schedule read;
      try {
        read = format.read(std::string_view(text).substr(0, length), "t");
      } catch (const InvalidInput&) {
        continue;
      }
      EXPECT_FALSE(check(read).empty()) << format.name << " " << length;
    }
  }
}

TEST(OwnFormats, AreReadInSecondsWhenLarge) {
  Step step;
  step.ranks = 16;
  step.chunks = 4;
  step.microbatches = 4096;
  step.base = Base::interleaved;
  step.arrangement = Arrangement::nested;
  NestedModule module{"image", Module::encoder, {}};
  for (uint32_t m = 0; m < 4096; ++m)
    for (int i = 0; i < 4; ++i) module.items.push_back({m, 1.0 / (i + 1)});
  step.modules.push_back(module);
  Schedule schedule = make_schedule(step);
  for (const auto& format : kFormats) {
    auto start = std::chrono::steady_clock::now();
    auto text = format.write(schedule);
    auto written = std::chrono::steady_clock::now();
    EXPECT_EQ(format.read(text, "t"), schedule);
    auto read = std::chrono::steady_clock::now();
    double write_seconds = std::chrono::duration<double>(written - start).count();
    double read_seconds = std::chrono::duration<double>(read - written).count();
    RecordProperty(concat(format.name, "_mb"), int(text.size() >> 20));
    RecordProperty(concat(format.name, "_write_ms"), int(write_seconds * 1e3));
    RecordProperty(concat(format.name, "_read_ms"), int(read_seconds * 1e3));
    EXPECT_LT(read_seconds, 20) << text.size();
  }
}

}  // namespace
}  // namespace bigmac
