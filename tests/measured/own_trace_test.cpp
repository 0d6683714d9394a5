#include "bigmac/measured/read_trace.h"

#include "bigmac/measured/replay.h"
#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/trace.h"
#include "tests/measured/support.h"

namespace bigmac {
namespace {

constexpr Arrangement kArrangements[] = {Arrangement::nested,      Arrangement::nested_fill,
                                         Arrangement::three_phase, Arrangement::optimus,
                                         Arrangement::megatron,    Arrangement::disttrain};

class OwnTrace : public InFolder {
 protected:
  MeasuredStep read_back(const Schedule& schedule, const Timeline& timeline) const {
    write_trace(schedule, timeline, path("trace.json"));
    auto found = read_measured({path("trace.json")});
    EXPECT_EQ(found.steps.size(), 1u);
    EXPECT_TRUE(found.notes.empty()) << found.notes[0];
    return std::move(found.steps.at(0));
  }
  static void expect_same(const MeasuredStep& read, const Schedule& schedule, const Timeline& timeline) {
    ASSERT_EQ(words_of(read.schedule), words_of(schedule));
    EXPECT_EQ(read.schedule.step.order, schedule.step.order);
    for (const auto& module : read.schedule.step.modules)
      for (const auto& wrote : schedule.step.modules)
        EXPECT_TRUE(module.name != wrote.name || module.trained == wrote.trained) << module.name;
    EXPECT_NEAR(read.length(), timeline.length(), 1e-9 * timeline.length());
    for (size_t rank = 0; rank < timeline.rows.size(); ++rank)
      for (size_t n = 0; n < timeline.rows[rank].operators.size(); ++n) {
        const auto &found = read.timeline.rows[rank].operators[n], &wrote = timeline.rows[rank].operators[n];
        ASSERT_NEAR(found.start - read.timeline.start, wrote.start - timeline.start,
                    1e-9 * timeline.length());
        ASSERT_NEAR(found.end - read.timeline.start, wrote.end - timeline.start, 1e-9 * timeline.length());
      }
  }
};

TEST_F(OwnTrace, IsReadBackWithEveryOperatorItemAndTime) {
  Random random(kSeed);
  for (int round = 0; round < 150; ++round) {
    Base base = kBases[size_t(integer(random, 0, 5))];
    auto chunks = chunks_of(base, 3);
    auto step =
        step_of_base(base, integer(random, 1, 5),
                     chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))], integer(random, 1, 12));
    bool encoder = integer(random, 0, 3) > 0, generator = integer(random, 0, 2) == 0;
    if (encoder || generator) {
      step = nested(step, encoder, generator);
      step.arrangement = kArrangements[size_t(integer(random, 0, 5))];
      if (step.arrangement == Arrangement::disttrain && step.ranks < 3)
        step.arrangement = Arrangement::nested;
      for (auto& module : step.modules) {
        module.items = random_items(random, step.microbatches, 1, 3);
        module.trained = module.kind == Module::generator || integer(random, 0, 2) > 0;
      }
      if (step.arrangement == Arrangement::nested && integer(random, 0, 1) == 0)
        step.generator_unit = integer(random, 1, step.ranks);
    }
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, ": ", describe(step)));
    Costs costs;
    for (size_t n = 0; n < step.modules.size(); ++n) costs.modules.push_back({uniform(random, 0.1, 1), 0.7});
    costs.latency = 0.1;
    auto schedule = make_schedule(step, costs);
    auto timeline = simulate(schedule, costs);
    expect_same(read_back(schedule, timeline), schedule, timeline);
  }
}

TEST_F(OwnTrace, KeepsPermutedMicrobatches) {
  auto step = nested_step(3, 2, 6, true, false);
  step.order = {5, 1, 3, 0, 2, 4};
  Costs costs{.modules = {{0.5, 1}}};
  auto schedule = make_schedule(step, costs);
  auto timeline = simulate(schedule, costs);
  expect_same(read_back(schedule, timeline), schedule, timeline);
}

TEST_F(OwnTrace, LastsAsLongAsItsTransfers) {
  auto schedule = make_schedule(backbone_step(2, 1, 2));
  auto timeline = simulate(schedule, Costs{});
  timeline.rows[0].intervals = {
      {Spent::transfer, -1, backbone_backward(0, 1), timeline.end, timeline.end + 3}};
  write_trace(schedule, timeline, path("trace.json"));
  auto step = read_measured({path("trace.json")}).steps[0];
  EXPECT_NEAR(step.length(), timeline.end + 3, 1e-9);
  EXPECT_NEAR(replay(step, Statistic::each).length(), timeline.end, 1e-9);
}

TEST_F(OwnTrace, OfSimulatedCostsFitsThemAgain) {
  Random random(kSeed);
  for (int round = 0; round < 20; ++round) {
    auto step = nested_step(integer(random, 2, 5), integer(random, 1, 3), integer(random, 3, 12), true, true);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, ": ", describe(step)));
    auto costs = random_stage_costs(random, step);
    auto schedule = make_schedule(step, costs);
    auto timeline = simulate(schedule, costs);
    auto read = read_back(schedule, timeline);
    for (auto statistic : {Statistic::mean, Statistic::median}) {
      auto found = fit_costs(read, statistic);
      for (size_t s = 0; s < costs.forward.size(); ++s) {
        EXPECT_NEAR(found.forward[s], costs.forward[s], 1e-9);
        EXPECT_NEAR(found.backward[s], costs.backward[s], 1e-9);
      }
      EXPECT_NEAR(found.modules[0].forward, costs.modules[0].forward, 1e-9);
      EXPECT_NEAR(found.modules[0].backward, costs.modules[0].backward, 1e-9);
      EXPECT_NEAR(found.modules[1].forward, costs.modules[1].forward + costs.modules[1].backward, 1e-9);
    }
    for (auto statistic : {Statistic::each, Statistic::mean, Statistic::median})
      EXPECT_NEAR(replay(read, statistic).length(), timeline.length(), 1e-8);
  }
}

TEST_F(OwnTrace, IsRefusedWhereSomethingIsMissing) {
  auto schedule = make_schedule(nested_step(2, 1, 3, true, false), Costs{.modules = {{0.5, 1}}});
  write_trace(schedule, simulate(schedule, Costs{.modules = {{0.5, 1}}}), path("trace.json"));
  Json whole = Json::parse(std::ifstream(path("trace.json")));
  auto changed = [&](const std::string& name, const std::function<void(Json&)>& how) {
    Json json = whole;
    for (auto& event : json["traceEvents"])
      if (event["name"] == name && event["ph"] == "X") how(event);
    return told({write("changed.json", json.dump())});
  };
  EXPECT_EQ(changed("F0.1", [](Json&) {}), "");
  expect_parts(changed("F0.1", [](Json& e) { e["ph"] = "i"; }), {"changed.json"});
  expect_parts(changed("B0.1", [](Json& e) { e["pid"] = 7; }), {"rank 2 is missing", "3 from 0 to 7"});
  expect_parts(changed("B0.1", [](Json& e) { e["pid"] = "x"; }), {"pid 'x' must be a rank"});
  expect_parts(changed("F0.1", [](Json& e) { e["dur"] = -1; }), {"(F0.1): takes -1 microseconds"});
  expect_parts(changed("F0.1", [](Json& e) { e.erase("dur"); }), {"event ", "(F0.1): lacks dur"});
  expect_parts(changed("F0.1", [](Json& e) { e["ts"] = nullptr; }), {"(F0.1): lacks ts"});
  expect_parts(changed("F0.1", [](Json& e) { e["args"]["operator"] = "Q"; }),
               {"(F0.1): operator must be one of F, B"});
  expect_parts(changed("F0.1", [](Json& e) { e["args"].erase("position"); }),
               {"(F0.1): lacks chunk, microbatch or position"});
  expect_parts(changed("F0.1", [](Json& e) { e["args"]["position"] = 1.5; }),
               {"lacks chunk, microbatch or position"});
  expect_parts(changed("F0.1", [](Json& e) { e["args"]["microbatch"] = 2000000000; }),
               {"F chunk 0 microbatch 2000000000 does not fit a rank with"});
  expect_parts(changed("F0.1", [](Json& e) { e["args"]["chunk"] = 70000; }),
               {"F chunk 70000 microbatch 1 does not fit"});
  expect_parts(changed("EF0", [](Json& e) { e["args"].erase("items"); }), {"(EF0): lacks its items"});
  expect_parts(changed("EF0", [](Json& e) { e["args"].erase("unit"); }), {"(EF0): lacks its unit"});
  expect_parts(changed("EF0", [](Json& e) { e["cat"] = "encoda"; }),
               {"(EF0): cat:", "did you mean 'encoder'"});
  expect_parts(changed("EF0", [](Json& e) { e["args"]["items"][0]["item"] = 9; }), {"item 9 of 'image'"});
  expect_parts(changed("EF0", [](Json& e) { e["args"]["items"][0]["microbatch"] = 9; }),
               {"microbatch 9; there are 3"});
}

}  // namespace
}  // namespace bigmac
