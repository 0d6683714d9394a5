#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bigmac/common/error.h"
#include "bigmac/controls/answer.h"
#include "bigmac/controls/controls_json.h"
#include "bigmac/controls/page_part.h"
#include "bigmac/view/page.h"
#include "tests/controls/settings.h"
#include "tests/view/web_driver.h"

namespace bigmac {
namespace {

using Json = nlohmann::json;

Controls small_step() {
  return {
      .ranks = 4, .chunks = 2, .microbatches = 16, .encoder = {.forward = 0.5, .backward = 1, .items = 4}};
}

uint32_t fnv(const std::string& bytes) {
  uint32_t hash = 2166136261u;
  for (char byte : bytes) hash = (hash ^ uint8_t(byte)) * 16777619u;
  return hash;
}

class ControlsInBrowser : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (engine().empty()) return;
    browser_ = new Browser(1280, 900);
    folder_ = std::filesystem::temp_directory_path() / concat("bigmac_controls_", getpid());
    std::filesystem::create_directories(folder_);
  }
  static void TearDownTestSuite() {
    delete browser_;
    browser_ = nullptr;
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    if (engine().empty()) GTEST_SKIP() << "bigmac was built without WebAssembly";
  }
  void TearDown() override {
    if (!browser_) return;
    EXPECT_EQ(browser_->complaints(), std::vector<std::string>{});
    browser_->resize(1280, 900);
  }

  Browser& browser() { return *browser_; }

  void open(const Controls& controls, const PagePart& part = {.open = true}) {
    auto path = (folder_ / "page.html").string();
    auto html = controls_part({controls, {}}, part);
    std::ofstream(path, std::ios::binary)
        << to_page({controlled(controls).recording}, {.title = "", .controls = html});
    browser().open(path);
  }
  void open_small() {
    open(small_step());
    rest();
  }
  // Waits until what is shown is what the controls say.
  void rest() { browser().wait_for("bigmac.controls().busy === false && bigmac.controls().ms > 0"); }
  void set(const std::string& id, const std::string& value) {
    browser().run(
        "const c = document.getElementById('control-" + id + "'); c.value = '" + value +
        "'; c.dispatchEvent(new Event(c.localName === 'select' ? 'change' : 'input', {bubbles: true}))");
    rest();
  }
  std::string text_of(const std::string& selector) {
    return browser().get("document.querySelector('" + selector + "').innerText");
  }
  double makespan() { return browser().get("bigmac.controls().report.makespan"); }

  static inline Browser* browser_ = nullptr;
  static inline std::filesystem::path folder_;
};

TEST_F(ControlsInBrowser, SimulateByteForByteWhatThisProgramDoes) {
  open_small();
  for (const auto& controls : legal_settings()) {
    auto request = to_json(controls).dump();
    auto found = browser().run(
        "return bigmac.simulate('" + request +
        "').then(({bytes}) => { let h = 2166136261; for (const b of bytes) h = Math.imul(h ^ b, "
        "16777619) >>> 0; return [bytes.length, h]; })");
    auto wanted = answer(request);
    EXPECT_EQ(found, (Json{wanted.size(), fnv(wanted)})) << command_of(controls);
  }
}

TEST_F(ControlsInBrowser, BeginWithThePagesStepAndItsFigures) {
  open_small();
  EXPECT_EQ(browser().get("document.getElementById('controls').hidden"), false);
  EXPECT_DOUBLE_EQ(makespan(), controlled(small_step()).report.makespan);
  EXPECT_EQ(text_of("#controls-command"), command_of(small_step()));
  auto figures = text_of("#controls-figures");
  for (const char* part : {"step", "of the ideal", "of the bound", "idle / total", "held at most", "encoder"})
    EXPECT_NE(figures.find(part), std::string::npos) << part << " in " << figures;
}

TEST_F(ControlsInBrowser, ChangeThePictureAndItsNumbers) {
  open_small();
  auto wanted = small_step();
  auto check = [&](const char* what) {
    auto made = controlled(wanted);
    EXPECT_DOUBLE_EQ(makespan(), made.report.makespan) << what;
    EXPECT_DOUBLE_EQ(browser().get("bigmac.length()"), made.report.makespan) << what;
    EXPECT_EQ(browser().get("bigmac.operators()[0]"), made.recording.schedule.operators.size()) << what;
    EXPECT_EQ(text_of("#controls-command"), command_of(wanted)) << what;
  };
  wanted.microbatches = 24;
  set("microbatches", "24");
  check("M");
  wanted.ranks = 6;
  set("pp-box", "6");
  check("P");
  wanted.arrangement = Arrangement::nested_fill;
  set("schedule", "nested-fill");
  check("schedule");
  wanted.generator = {.forward = 1.5, .backward = 0};
  set("generator-forward", "1.5");
  check("generator");
  wanted.encoder.items = 7;
  set("encoder-items", "7");
  check("items");
  wanted.warmup_units = 5;
  set("warmup_units", "5");
  check("W");
  wanted.warmup_units = 0;
  set("warmup_units", "0");
  check("W auto");
  wanted.chunks = 2;
  wanted.base = Base::zb_v;
  set("base", "zb-v");
  check("base");
  wanted.weight = 0.75;
  set("weight", "0.75");
  check("weight");
  wanted.latency = 0.1;
  set("latency", "0.1");
  check("latency");
  EXPECT_EQ(text_of("#title"), controlled(wanted).recording.name);
  browser().click("#controls-reset");
  rest();
  wanted = small_step();
  check("reset");
}

TEST_F(ControlsInBrowser, SayWhatIsImpossibleAndKeepTheLastPicture) {
  open_small();
  double before = browser().get("bigmac.length()");
  set("base", "zb-v");
  double with_zb_v = browser().get("bigmac.length()");
  EXPECT_NE(with_zb_v, before);
  set("vpp", "3");
  EXPECT_NE(text_of("#controls-problem").find("holds two chunks a rank, got P=4 V=3 M=16; take V=2"),
            std::string::npos)
      << text_of("#controls-problem");
  EXPECT_EQ(browser().get("bigmac.length()"), with_zb_v);
  set("vpp", "2");
  EXPECT_EQ(browser().get("document.getElementById('controls-problem').hidden"), true);
  set("microbatches-box", "0");
  EXPECT_NE(text_of("#controls-problem").find("microbatches must be"), std::string::npos);
  set("microbatches-box", "1000000");
  EXPECT_NE(text_of("#controls-problem").find("more than 3000000"), std::string::npos);
  EXPECT_EQ(browser().get("bigmac.length()"), with_zb_v);
}

TEST_F(ControlsInBrowser, SetABaselineBesideWhatComesNext) {
  open_small();
  double before = makespan();
  browser().click("#controls-keep");
  set("schedule", "megatron");
  EXPECT_EQ(browser().get("bigmac.operators().length"), 2);
  EXPECT_GT(makespan(), before);
  EXPECT_NE(text_of("#controls-figures").find('+'), std::string::npos);
  EXPECT_EQ(browser().get("document.getElementById('tab-compare').hidden"), false);
  browser().click("#tab-compare");
  EXPECT_NE(text_of("#compare").find("baseline: nested"), std::string::npos);
  browser().click("#tab-controls");
  set("schedule", "optimus");
  EXPECT_EQ(browser().get("bigmac.operators().length"), 2);
  browser().click("#controls-drop");
  rest();
  EXPECT_EQ(browser().get("bigmac.operators().length"), 1);
}

TEST_F(ControlsInBrowser, WorkByKeysAlone) {
  open_small();
  browser().run("document.getElementById('tab-controls').focus()");
  for (int tabs = 0; tabs < 12 && browser().get("document.activeElement.id") != "control-pp"; ++tabs)
    browser().press(key::kTab);
  ASSERT_EQ(browser().get("document.activeElement.id"), "control-pp");
  EXPECT_NE(browser().get("getComputedStyle(document.activeElement).outlineStyle"), "none");
  browser().press(key::kRight);
  rest();
  EXPECT_EQ(browser().get("bigmac.controls().values.pp"), 5);
  browser().press(key::kTab + key::kUp);
  rest();
  EXPECT_EQ(browser().get("bigmac.controls().values.pp"), 6);
  auto named = browser().get(
      "[...document.querySelectorAll('#controls input, #controls select')].every((c) => c.labels.length > 0 "
      "|| "
      "document.getElementById(c.getAttribute('aria-labelledby')))");
  EXPECT_EQ(named, true);
  browser().run("document.getElementById('control-base').focus()");
  browser().press("g");
  EXPECT_EQ(browser().get("bigmac.switches().causes"), false);
}

TEST_F(ControlsInBrowser, HaveSlidersOfTheSizeOfTheStepsTimes) {
  auto step = small_step();
  step.forward = 0.0012;
  step.backward = 0.0034;
  step.encoder = {.forward = 0.0005, .backward = 0.001};
  open(step);
  rest();
  EXPECT_DOUBLE_EQ(makespan(), controlled(step).report.makespan);
  step.forward = 0.0022;
  set("forward", "0.0022");
  EXPECT_DOUBLE_EQ(makespan(), controlled(step).report.makespan);
}

TEST_F(ControlsInBrowser, FitNarrowWindows) {
  browser().resize(500, 900);
  open_small();
  EXPECT_EQ(browser().get("document.documentElement.scrollWidth <= innerWidth"), true);
  EXPECT_EQ(browser().get("[...document.querySelectorAll('#controls input, #controls button')].every((c) => "
                          "c.getBoundingClientRect().right <= innerWidth)"),
            true);
}

TEST_F(ControlsInBrowser, SimulateAUsualStepWithinAFrameOrThree) {
  auto step = small_step();
  step.ranks = 8;
  step.microbatches = 64;
  step.arrangement = Arrangement::nested_fill;
  step.generator = {.forward = 1, .backward = 2, .items = 2};
  open(step);
  rest();
  double least = 1e9;
  for (int attempt = 0; attempt < 10; ++attempt) {
    set("encoder-items", std::to_string(3 + attempt % 2));
    least = std::min(least, browser().get("bigmac.controls().ms").get<double>());
  }
  printf("P=8 V=2 M=64, nested-fill with encoder and generator: simulated in %.1f ms\n", least);
  RecordProperty("milliseconds", std::to_string(least));
  EXPECT_LT(least, 200);  // 50 on cores that do nothing else
}

TEST_F(ControlsInBrowser, LeaveThePageAliveWhileALargeStepIsSimulated) {
  open_small();
  browser().run(
      "window.gaps = []; let last = performance.now();"
      "setInterval(() => { const now = performance.now(); window.gaps.push(now - last); last = now; }, 10);"
      "for (const [id, value] of [['microbatches-box', 1024], ['pp-box', 64]]) {"
      "const c = document.getElementById('control-' + id); c.value = value; c.dispatchEvent(new "
      "Event('input')); }"
      "document.getElementById('control-schedule').value = 'nested-fill';"
      "document.getElementById('control-schedule').dispatchEvent(new Event('change'))");
  browser().wait_for("document.getElementById('controls').classList.contains('busy')");
  rest();
  EXPECT_EQ(browser().get("document.getElementById('controls').classList.contains('busy')"), false);
  double ms = browser().get("bigmac.controls().ms"), longest = browser().get("Math.max(...window.gaps)");
  printf("P=64 V=2 M=1024, nested-fill: simulated in %.0f ms, the page stood still for %.0f ms\n", ms,
         longest);
  EXPECT_EQ(browser().get("bigmac.controls().values.pp"), 64);
  EXPECT_LT(longest, std::max(1500.0, ms / 2));
}

TEST_F(ControlsInBrowser, SayThatTheyNeedWebAssemblyWhereItIsOff) {
  auto off =
      browser().cdp("Page.addScriptToEvaluateOnNewDocument", {{"source", "delete window.WebAssembly"}});
  open(small_step());
  browser().wait_for("document.getElementById('controls-problem').hidden === false");
  EXPECT_NE(text_of("#controls-problem").find("WebAssembly switched off"), std::string::npos);
  EXPECT_EQ(browser().get("bigmac.operators()[0] > 0"), true);
  browser().cdp("Page.removeScriptToEvaluateOnNewDocument", off);
}

TEST_F(ControlsInBrowser, AreThereOnDemandOnly) {
  open(small_step(), {.open = false});
  EXPECT_EQ(browser().get("document.getElementById('tab-controls').hidden"), false);
  EXPECT_EQ(browser().get("document.getElementById('controls').hidden"), true);
  auto path = (folder_ / "without.html").string();
  std::ofstream(path, std::ios::binary) << to_page({controlled(small_step()).recording});
  browser().open(path);
  EXPECT_EQ(browser().get("document.getElementById('tab-controls').hidden"), true);
}

}  // namespace
}  // namespace bigmac
