#include "bigmac/controls/controls.h"

#include <gtest/gtest.h>

#include "bigmac/common/error.h"
#include "bigmac/controls/answer.h"
#include "bigmac/controls/controls_json.h"
#include "bigmac/controls/exports.h"
#include "bigmac/controls/page_part.h"
#include "bigmac/view/columns.h"
#include "tests/apps/program.h"
#include "tests/controls/settings.h"
#include "tests/view/unpacked.h"

namespace bigmac {
namespace {

using Json = nlohmann::json;

std::string error_of(const std::string& request) {
  try {
    answer(request);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(Controls, SimulateWhatTheirCommandLineSimulates) {
  TemporaryFile page("controls_page.html");
  for (const auto& controls : legal_settings()) {
    auto command = command_of(controls);
    SCOPED_TRACE(command);
    auto made = controlled(controls);
    ASSERT_TRUE(command.starts_with("bigmac "));
    auto outcome = run_bigmac(command.substr(7) + " --json --page " + page.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    auto wanted = Json::parse(outcome.out), found = Json::parse(to_json(made.report));
    for (const auto& [field, value] : found.items()) EXPECT_EQ(value, wanted[field]) << field;
    auto columns = recordings_in(page.text()).at(0);
    made.recording.name = unpacked(columns).facts["name"];
    EXPECT_TRUE(to_columns(made.recording) == columns);
  }
}

TEST(Controls, SimulateOrSayWhatIsWrongForEveryBaseArrangementAndShape) {
  size_t legal = 0, illegal = 0;
  for (auto base :
       {Base::gpipe, Base::one_f_one_b, Base::interleaved, Base::zb_h1, Base::zb_v, Base::dualpipe_v})
    for (int arrangement = 0; arrangement <= int(Arrangement::disttrain); ++arrangement)
      for (int64_t chunks : {1, 2, 3})
        for (int64_t ranks : {1, 2, 5})
          for (int64_t microbatches : {1, 7}) {
            Controls controls{.ranks = ranks, .chunks = chunks, .microbatches = microbatches, .base = base};
            controls.arrangement = Arrangement(arrangement);
            controls.encoder = {.forward = 0.5, .backward = 1, .items = 2};
            controls.generator = {.forward = 1, .backward = 2};
            try {
              auto made = controlled(controls);
              EXPECT_GE(made.report.makespan, made.report.lower_bound * (1 - 1e-9));
              ++legal;
            } catch (const InvalidInput& error) {
              EXPECT_GT(std::string(error.what()).size(), 20u);
              ++illegal;
            }
          }
  EXPECT_GT(legal, 300u);
  EXPECT_GT(illegal, 100u);
}

TEST(Controls, HaveNoModuleWhereBothOfItsTimesAreZero) {
  Controls controls;
  EXPECT_TRUE(controlled(controls).recording.schedule.step.modules.empty());
  controls.encoder.backward = 1;
  EXPECT_EQ(controlled(controls).recording.schedule.step.modules.size(), 1u);
}

TEST(Controls, AreTheSameAsJsonAndBack) {
  for (const auto& controls : legal_settings()) {
    auto json = to_json(controls);
    EXPECT_EQ(to_json(controls_from_json(json.dump())), json);
    EXPECT_EQ(command_of(controls_from_json(json.dump())), command_of(controls));
  }
  EXPECT_EQ(to_json(controls_from_json("{}")), to_json(Controls{}));
}

TEST(Controls, RefuseRubbishNamingTheFieldAndWhatWouldBeRight) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no JSON"},
      {"{\"pp\": 4", "no JSON: at byte"},
      {"[1]", "must be an object"},
      {"{\"pp\": 0}", "pp must be a whole number from 1"},
      {"{\"pp\": 1.5}", "pp must be a whole number"},
      {"{\"pp\": 1e30}", "pp must be a whole number"},
      {"{\"vpp\": -1}", "vpp must be"},
      {"{\"microbatches\": \"many\"}", "got \"many\""},
      {"{\"base\": \"zbv\"}", "did you mean 'zb-v'"},
      {"{\"base\": \"custom\"}", "custom"},
      {"{\"schedule\": 3}", "schedule must be a name"},
      {"{\"forward\": -1}", "forward must be a number from 0"},
      {"{\"forward\": 0, \"backward\": 0}", "must have a forward or a backward"},
      {"{\"forward\": 1e300}", "forward must be a number from 0 to 1e+12"},
      {"{\"weight\": 3}", "weight"},
      {"{\"encoder\": 1}", "encoder: must be an object"},
      {"{\"encoder\": {\"forward\": 1, \"items\": 0}}", "encoder: items must be"},
      {"{\"encoder\": {\"sizes\": 1}}", "encoder: unknown field 'sizes'"},
      {"{\"microbatchs\": 1}", "did you mean 'microbatches'"},
      {"{\"base\": \"zb-v\", \"vpp\": 3}", "holds two chunks"},
      {"{\"pp\": 1000, \"microbatches\": 100000}", "more than 3000000"},
      {"{\"encoder\": {\"forward\": 1, \"items\": 200000000}}", "more than 3000000"},
  };
  for (const auto& [request, part] : cases)
    EXPECT_NE(error_of(request).find(part), std::string::npos) << request << " -> " << error_of(request);
  EXPECT_NE(error_of(std::string(20'000, ' ')).find("too many"), std::string::npos);
}

TEST(Controls, AnswerWithReportCommandAndColumns) {
  auto controls = legal_settings().front();
  auto bytes = answer(to_json(controls).dump());
  auto byte = [&](size_t at) { return size_t(uint8_t(bytes.at(at))); };
  size_t size = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
  auto json = Json::parse(bytes.substr(4, size));
  auto made = controlled(controls);
  EXPECT_EQ(json["report"]["makespan"], made.report.makespan);
  EXPECT_EQ(json["command"], command_of(controls));
  EXPECT_TRUE(bytes.substr(4 + size) == to_columns(made.recording));
}

TEST(Controls, AnswerTheSameThroughWhatWebAssemblyExports) {
  auto exchanged = [](const std::string& request) {
    auto* exchange = bigmac_begin(request.size());
    request.copy(bigmac_data(exchange), request.size());
    int good = bigmac_run(exchange);
    std::string text(bigmac_data(exchange), bigmac_size(exchange));
    bigmac_end(exchange);
    return std::pair(good, text);
  };
  EXPECT_TRUE(exchanged("{}") == std::pair(1, answer("{}")));
  EXPECT_EQ(exchanged("{\"pp\": 0}"), std::pair(0, error_of("{\"pp\": 0}")));
}

TEST(NearestControls, SimulateTheStepAgainWhereTheyHaveAllOfIt) {
  for (const auto& controls : legal_settings()) {
    if (controls.arrangement == Arrangement::disttrain || controls.arrangement == Arrangement::llm_only)
      continue;
    SCOPED_TRACE(command_of(controls));
    auto made = controlled(controls);
    auto ones = [](const ControlledModule& module) {
      return ModuleCosts{.forward = module.forward, .backward = module.backward};
    };
    Costs costs{.forward = {controls.forward}, .backward = {controls.backward}, .latency = controls.latency};
    if (controls.weight) costs.weight = {*controls.weight};
    if (controls.encoder.exists()) costs.modules.push_back(ones(controls.encoder));
    if (controls.generator.exists()) costs.modules.push_back(ones(controls.generator));
    auto nearest = nearest_controls(made.recording.schedule.step, costs);
    EXPECT_EQ(nearest.left_out, std::vector<std::string>{});
    EXPECT_NEAR(controlled(nearest.controls).report.makespan, made.report.makespan, 1e-9);
  }
}

TEST(NearestControls, SayWhatOfAStepTheyDoNotHave) {
  Step step;
  step.ranks = step.microbatches = 2;
  step.arrangement = Arrangement::nested;
  step.modules = {NestedModule{.name = "image", .kind = Module::encoder, .items = {{0, 1}, {1, 3}}},
                  one_item_each("audio", Module::encoder, 2)};
  step.modules[1].trained = false;
  step.order = {1, 0};
  auto [controls, left_out] =
      nearest_controls(step, {.forward = {1, 2}, .backward = {2, 2}, .modules = {{1, 2}, {3, 4}}});
  EXPECT_EQ(left_out.size(), 5u);
  EXPECT_DOUBLE_EQ(controls.forward, 1.5);
  EXPECT_DOUBLE_EQ(controls.encoder.forward, 1 * 2 + 3);
  EXPECT_DOUBLE_EQ(controls.encoder.backward, 2 * 2);
  EXPECT_EQ(controls.encoder.items, 2);
}

// What a page's controls begin with; nothing where it has none.
Json start_in(const std::string& page) {
  const std::string before = "id=\"controls-start\">";
  auto at = page.find(before);
  if (at == std::string::npos) return {};
  at += before.size();
  return Json::parse(page.substr(at, page.find('<', at) - at));
}

TEST(PagePart, IsInPagesOfSimulatedStepsAndOfTablesAndBeginsWithTheirValues) {
  if (engine().empty()) GTEST_SKIP() << "bigmac was built without WebAssembly";
  TemporaryFile page("start.html"), table("start.csv");
  const std::string step =
      " --pp 4 --vpp 2 --microbatches 8 --encoder 0.3,0.7 --items 3 --schedule nested-fill";
  ASSERT_EQ(run_bigmac("simulate --backbone 1,2 --latency 0.1 --page " + page.path() + step).exit_code, 0);
  auto start = start_in(page.text());
  EXPECT_EQ(start["controls"], (Json{{"pp", 4},
                                     {"vpp", 2},
                                     {"microbatches", 8},
                                     {"base", nullptr},
                                     {"group", 0},
                                     {"schedule", "nested-fill"},
                                     {"warmup_units", 0},
                                     {"generator_unit", 0},
                                     {"forward", 1},
                                     {"backward", 2},
                                     {"weight", nullptr},
                                     {"latency", 0.1},
                                     {"encoder", {{"forward", 0.3}, {"backward", 0.7}, {"items", 3}}},
                                     {"generator", {{"forward", 0}, {"backward", 0}, {"items", 1}}}}));
  EXPECT_EQ(start["left_out"], Json::array());
  ASSERT_EQ(run_bigmac("schedule --format csv --output " + table.path() + step).exit_code, 0);
  ASSERT_EQ(
      run_bigmac("view --encoder 0.3,0.7 --latency 0.1 -o " + page.path() + " " + table.path()).exit_code, 0);
  EXPECT_EQ(start_in(page.text()), start);
  ASSERT_EQ(run_bigmac("view " BIGMAC_SHARED_DATA "/primus-pp8 -o " + page.path()).exit_code, 0);
  EXPECT_TRUE(start_in(page.text()).is_null());
  ASSERT_EQ(run_bigmac("simulate --page " + page.path() + step + " --order balanced --transfer 1").exit_code,
            0);
  EXPECT_EQ(start_in(page.text())["left_out"].size(), 2u);
  EXPECT_EQ(run_bigmac("view " BIGMAC_SHARED_DATA "/primus-pp8 --controls -o " + page.path()).exit_code, 2);
  ASSERT_EQ(run_bigmac("view --controls -o " + page.path()).exit_code, 0);
  EXPECT_EQ(start_in(page.text())["open"], true);
}

TEST(PagePart, KeepsWordsThatLookLikeMarkup) {
  auto part = controls_part({Controls{}, {"</script><script>alert(1)</script> \xff"}}, {.server = true});
  EXPECT_EQ(part.find("</script><script>alert"), std::string::npos);
  EXPECT_NE(part.find("controls-start"), std::string::npos);
}

TEST(PagePart, AddsLittleToAPageAndAsksForNothingWithoutAServer) {
  auto part = controls_part({Controls{}, {}});
  printf("controls add %.0f kB to a page, of a module of %.0f kB\n", double(part.size()) / 1e3,
         double(engine().size()) / 1e3);
  EXPECT_EQ(part.empty(), engine().empty());
  EXPECT_LT(part.size(), 600'000u);
  EXPECT_EQ(part.find("fetch("), std::string::npos);
  EXPECT_NE(controls_part({Controls{}, {}}, {.server = true}).find("fetch("), std::string::npos);
}

}  // namespace
}  // namespace bigmac
