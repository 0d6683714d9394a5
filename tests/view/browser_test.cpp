#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bigmac/common/error.h"
#include "bigmac/view/columns.h"
#include "bigmac/view/page.h"
#include "tests/view/recordings.h"
#include "tests/view/web_driver.h"

namespace bigmac {
namespace {

using Json = nlohmann::json;

// One browser for all tests, since starting one takes seconds; each test opens a page anew.
class PageInBrowser : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    browser_ = new Browser(1280, 800);
    folder_ = std::filesystem::temp_directory_path() / concat("bigmac_view_", getpid());
    std::filesystem::create_directories(folder_);
  }
  static void TearDownTestSuite() {
    delete browser_;
    browser_ = nullptr;
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override {
    auto complaints = browser_->complaints();
    EXPECT_EQ(complaints, std::vector<std::string>{});
    browser_->resize(1280, 800);
  }

  Browser& browser() { return *browser_; }

  void open(const std::vector<Recording>& recordings) {
    auto path = (folder_ / "page.html").string();
    std::ofstream(path, std::ios::binary) << to_page(recordings);
    browser().open(path);
  }
  void open_nested() { open({nested_recording()}); }

  // The middle of an operator in the window.
  std::pair<double, double> place_of(const std::string& label, int rank) {
    auto at =
        browser().run(concat("const place = bigmac.placeOf('", label, "', ", rank,
                             "); const box = document.getElementById('timeline').getBoundingClientRect();"
                             "return [box.left + place.x, box.top + place.y];"));
    return {at[0], at[1]};
  }
  double span() { return browser().get("bigmac.view().to - bigmac.view().from"); }
  std::string text_of(const std::string& selector) {
    return browser().get("document.querySelector('" + selector + "').innerText");
  }
  void focus_timeline() { browser().run("document.getElementById('timeline').focus()"); }

  static inline Browser* browser_ = nullptr;
  static inline std::filesystem::path folder_;
};

TEST_F(PageInBrowser, OpensWithAllOperatorsAndItsFigures) {
  auto recording = nested_recording();
  open({recording});
  EXPECT_EQ(browser().get("bigmac.operators()[0]"), recording.schedule.operators.size());
  EXPECT_EQ(browser().get("document.title"), "nested");
  EXPECT_NE(text_of("#figures").find("idle / total"), std::string::npos);
  EXPECT_NE(text_of("#findings").find("compute"), std::string::npos);
  EXPECT_NE(text_of("#legend").find("vision forward"), std::string::npos);
}

TEST_F(PageInBrowser, DrawsOperatorsInTheirColours) {
  open_nested();
  auto [x, y] = place_of("G0", 0);
  auto pixel =
      browser().run(concat("const c = document.getElementById('timeline'), box = c.getBoundingClientRect();"
                           "return [...c.getContext('2d').getImageData(",
                           x, " - box.left, ", y, " - box.top - 9, 1, 1).data];"));
  EXPECT_EQ(pixel, (Json{0xcc, 0x79, 0xa7, 255}));
}

TEST_F(PageInBrowser, ZoomsWithWheelAndKeysAndFitsAllWithZero) {
  open_nested();
  double all = span();
  auto [x, y] = place_of("F0.3", 1);
  double under = browser().get("bigmac.placeOf('F0.3', 1).x");
  browser().wheel(x, y, -400);
  double zoomed = span();
  EXPECT_LT(zoomed, all * 0.7);
  EXPECT_NEAR(browser().get("bigmac.placeOf('F0.3', 1).x").get<double>(), under, 2);
  focus_timeline();
  browser().press("+");
  EXPECT_LT(span(), zoomed * 0.9);
  browser().press("--");
  EXPECT_GT(span(), zoomed);
  browser().press("0");
  EXPECT_DOUBLE_EQ(span(), all);
}

TEST_F(PageInBrowser, PansByDragAndByArrows) {
  open_nested();
  browser().run("bigmac.setView(bigmac.length() * 0.4, bigmac.length() * 0.6)");
  double from = browser().get("bigmac.view().from");
  browser().drag(500, 300, -120, 0);
  double dragged = browser().get("bigmac.view().from");
  EXPECT_GT(dragged, from);
  focus_timeline();
  browser().press(key::kLeft);
  EXPECT_LT(browser().get("bigmac.view().from").get<double>(), dragged);
}

TEST_F(PageInBrowser, ShowsTheOperatorUnderTheMouse) {
  open_nested();
  auto [x, y] = place_of("B1.2", 2);
  browser().move_to(x, y);
  browser().wait_for("bigmac.hovered() !== null");
  auto hovered = browser().get("bigmac.hovered()");
  EXPECT_EQ(hovered["label"], "B1.2");
  EXPECT_EQ(hovered["rank"], 2);
  auto tip = text_of("#tip");
  for (const char* part : {"B1.2 on rank 2", "LLM backward", "2, 6, 1", "microbatch", "start", "duration",
                           "waited", "needs", "F1.2 on rank 2", "B1.2 on rank 3"})
    EXPECT_NE(tip.find(part), std::string::npos) << part << " in " << tip;
}

TEST_F(PageInBrowser, ShowsItemsWithTheirSizesAndPredecessors) {
  open_nested();
  browser().run("document.getElementById('search').value = 'vision backward rank 0'");
  browser().click("#next");
  auto chosen = browser().get("bigmac.selected()");
  EXPECT_EQ(chosen["lines"]["what"], "vision backward");
  EXPECT_NE(chosen["lines"]["items"].get<std::string>().find("size"), std::string::npos);
  EXPECT_NE(text_of("#details").find("needs"), std::string::npos);
  size_t before = browser().get("document.querySelectorAll('#details .go').length");
  EXPECT_GE(before, 2u);
  browser().click("#details .go");
  EXPECT_NE(browser().get("bigmac.selected()"), chosen);
}

TEST_F(PageInBrowser, SearchesByRankMicrobatchModuleAndLabel) {
  open_nested();
  auto count = [&](const std::string& text) {
    browser().run("const s = document.getElementById('search'); s.value = '" + text +
                  "'; s.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))");
    return text_of("#found");
  };
  EXPECT_EQ(count("F0.3"), "1 of 4");
  EXPECT_EQ(count("F0.3 rank 2"), "1 of 1");
  EXPECT_EQ(browser().get("bigmac.selected().rank"), 2);
  EXPECT_EQ(count("m 7 forward rank 1 llm"), "1 of 2");
  EXPECT_EQ(count("picture rank 3").substr(0, 5), "1 of ");
  EXPECT_EQ(browser().get("bigmac.selected().lines.what"), "picture forward and backward");
  EXPECT_EQ(count("nothing such"), "nothing found");
}

TEST_F(PageInBrowser, WalksThroughWhatItFoundAndAround) {
  open_nested();
  focus_timeline();
  browser().press("/F0.3" + key::kEnter);
  auto first = browser().get("bigmac.selected()");
  browser().press(key::kEnter);
  EXPECT_EQ(text_of("#found"), "2 of 4");
  EXPECT_NE(browser().get("bigmac.selected()"), first);
  browser().press(key::kEnter + key::kEnter + key::kEnter);
  EXPECT_EQ(browser().get("bigmac.selected()"), first);
}

TEST_F(PageInBrowser, CanBeUsedByKeysAlone) {
  open_nested();
  for (int tabs = 0; tabs < 40 && browser().get("document.activeElement.id") != "timeline"; ++tabs)
    browser().press(key::kTab);
  ASSERT_EQ(browser().get("document.activeElement.id"), "timeline");
  EXPECT_NE(browser().get("getComputedStyle(document.activeElement).outlineStyle"), "none");
  browser().press(key::kEnter);
  auto first = browser().get("bigmac.selected()");
  ASSERT_FALSE(first.is_null());
  browser().press(key::kRight);
  auto second = browser().get("bigmac.selected()");
  EXPECT_EQ(second["rank"], first["rank"]);
  EXPECT_NE(second["label"], first["label"]);
  browser().press(key::kDown);
  EXPECT_EQ(browser().get("bigmac.selected().rank"), first["rank"].get<int>() + 1);
  EXPECT_NE(text_of("#live").find("on rank"), std::string::npos);
  browser().press("ck");
  EXPECT_EQ(browser().get("bigmac.switches().causes"), true);
  EXPECT_EQ(browser().get("bigmac.switches().path"), true);
  browser().press("?");
  EXPECT_EQ(browser().get("document.getElementById('help').open"), true);
  browser().press(key::kEscape);
  EXPECT_EQ(browser().get("document.getElementById('help').open"), false);
  focus_timeline();
  browser().press(key::kEscape);
  EXPECT_TRUE(browser().get("bigmac.selected()").is_null());
}

TEST_F(PageInBrowser, HoldsTheSameAsTablesForThoseWhoCannotUseTheCanvas) {
  auto recording = nested_recording();
  open({recording});
  browser().click("#tab-ranks");
  EXPECT_EQ(browser().get("document.querySelectorAll('#ranks tbody tr').length"), 4);
  EXPECT_NE(text_of("#ranks thead").find("transfer"), std::string::npos);
  browser().click("#tab-waits");
  EXPECT_GT(browser().get("document.querySelectorAll('#waits tbody tr').length"), 3);
  browser().click("#tab-critical");
  EXPECT_NE(text_of("#critical").find("hangs on"), std::string::npos);
  EXPECT_EQ(browser().get("document.querySelectorAll('[role=tabpanel]:not([hidden])').length"), 1);
}

TEST_F(PageInBrowser, ComparesRecordingsInNumbers) {
  open({megatron_recording(), nested_recording()});
  auto table = text_of("#compare");
  for (const char* part : {"makespan", "idle / total", "rank 3", "megatron", "nested", "%"})
    EXPECT_NE(table.find(part), std::string::npos) << part << " in " << table;
  auto x = browser().run(
      "return [bigmac.placeOf('F0.0', 0, 0).width, bigmac.placeOf('F0.0', 0, 1).width,"
      "bigmac.placeOf('F0.0', 3, 0).y, bigmac.placeOf('F0.0', 0, 1).y]");
  EXPECT_NEAR(x[0].get<double>(), 2 * x[1].get<double>(), 0.01);  // one axis: 2 against 1
  EXPECT_LT(x[2], x[3]);
}

TEST_F(PageInBrowser, SaysThatSecondsAndUnitsDoNotCompare) {
  auto measured = nested_recording("measured");
  measured.measured = true;
  open({measured, megatron_recording()});
  EXPECT_NE(text_of("#compare").find("do not compare"), std::string::npos);
  EXPECT_EQ(browser().get("bigmac.length()"), 1);
}

TEST_F(PageInBrowser, SavesWhatIsSeenAsSvgWithARectForEachVisibleOperator) {
  open({nested_recording("a <b> & \"c\" \x02")});
  for (const char* view : {"bigmac.setView(0, bigmac.length())", "bigmac.setView(7.5, 12.25)"}) {
    browser().run(view);
    auto counts = browser().run(
        "const svg = new DOMParser().parseFromString(bigmac.toSvg(), 'image/svg+xml');"
        "return [svg.querySelectorAll('parsererror').length, svg.querySelectorAll('rect.op').length,"
        "bigmac.countVisible()]");
    EXPECT_EQ(counts[0], 0);
    EXPECT_EQ(counts[1], counts[2]);
    EXPECT_GT(counts[1], 10);
  }
  browser().press("kc");
  EXPECT_EQ(browser().run("return new DOMParser().parseFromString(bigmac.toSvg(), 'image/svg+xml')"
                          ".querySelectorAll('parsererror').length"),
            0);
}

TEST_F(PageInBrowser, SavesWhatIsSeenAsPng) {
  open_nested();
  auto head = browser().run(
      "return bigmac.toPng().then((blob) => blob.arrayBuffer()).then((b) => [...new Uint8Array(b).slice(0, "
      "4)])");
  EXPECT_EQ(head, (Json{0x89, 'P', 'N', 'G'}));
}

TEST_F(PageInBrowser, ShowsMemoryUnderTheRowsWithItsLimit) {
  auto recording = nested_recording();
  open({recording});
  EXPECT_EQ(browser().get("document.getElementById('switch-memory').hidden"), true);
  add_memory(recording);
  open({recording});
  EXPECT_EQ(browser().get("document.getElementById('switch-memory').hidden"), false);
  browser().click("#tab-ranks");
  EXPECT_NE(text_of("#ranks").find("GiB"), std::string::npos);
  double before = browser().get("bigmac.placeOf('F0.0', 1).y");
  browser().click("#switch-memory");
  EXPECT_NE(browser().get("bigmac.placeOf('F0.0', 1).y").get<double>(), before);
}

TEST_F(PageInBrowser, FitsANarrowWindow) {
  browser().resize(500, 800);
  open({megatron_recording(), nested_recording()});
  EXPECT_EQ(browser().get("document.documentElement.scrollWidth <= innerWidth"), true);
  EXPECT_GT(browser().get("document.getElementById('timeline').clientWidth"), 380);
  EXPECT_GT(browser().get("document.querySelector('.side').getBoundingClientRect().top"), 400);
  auto small = browser().get(
      "[...document.querySelectorAll('.toolbar button:not([hidden])')].filter((b) => "
      "b.getBoundingClientRect().right > "
      "innerWidth).length");
  EXPECT_EQ(small, 0);
}

TEST_F(PageInBrowser, SwitchesBetweenDarkAndLight) {
  open_nested();
  auto ground = [&] { return browser().get("getComputedStyle(document.body).backgroundColor"); };
  auto before = ground();
  browser().click("#theme");
  EXPECT_NE(ground(), before);
  browser().click("#theme");
  EXPECT_EQ(ground(), before);
}

TEST_F(PageInBrowser, ShowsNamesThatLookLikeMarkup) {
  const std::string name = "</script><script>window.broken = 1</script> \xe2\x82\xac \x01";
  auto recording = nested_recording(name);
  recording.schedule.step.modules[0].name = "<i>vision</i>";
  recording.notes = {"<b>note</b>"};
  open({recording});
  EXPECT_TRUE(browser().get("window.broken === undefined").get<bool>());
  EXPECT_NE(text_of("#legend").find("<i>vision</i>"), std::string::npos);
}

TEST_F(PageInBrowser, OpensAStepInWhichNothingRan) {
  auto recording = nested_recording();
  for (auto& row : recording.timeline.rows) row = {};
  open({recording});
  focus_timeline();
  browser().press(key::kEnter + key::kRight + "ckanzps+-0");
  EXPECT_EQ(browser().get("bigmac.operators()[0]"), 0);
  EXPECT_TRUE(browser().get("bigmac.selected()").is_null());
}

TEST_F(PageInBrowser, LetsGoOfTheOperatorThenOfTheSearchWithEscape) {
  open_nested();
  browser().press("/F0.3" + key::kEnter + key::kEscape);
  ASSERT_FALSE(browser().get("bigmac.selected()").is_null());
  browser().press(key::kEscape);
  EXPECT_TRUE(browser().get("bigmac.selected()").is_null());
  EXPECT_EQ(text_of("#found"), "1 of 4");
  browser().press(key::kEscape);
  EXPECT_EQ(text_of("#found"), "");
}

TEST_F(PageInBrowser, ShowsRecordingsThatAreMadeInThePage) {
  open_nested();
  browser().click("#tab-ranks");
  browser().run("bigmac.setView(0, bigmac.length() / 2)");
  auto made = megatron_recording("made here");
  auto bytes = to_columns(made);
  auto numbers = Json::array();
  for (char byte : bytes) numbers.push_back(uint8_t(byte));
  browser().run("bigmac.show([Uint8Array.from(" + numbers.dump() + ")], true)");
  EXPECT_EQ(browser().get("bigmac.operators()[0]"), made.schedule.operators.size());
  EXPECT_DOUBLE_EQ(span(), made.timeline.length() / 2);
  EXPECT_EQ(browser().get("document.getElementById('ranks').hidden"), false);
}

TEST_F(PageInBrowser, PansOverAMillionOperatorsSmoothly) {
  open({million_recording()});
  EXPECT_EQ(browser().get("bigmac.operators()[0]"), 1048576);
  double least = 1e9;
  for (double share : {1e-4, 1e-2, 0.5}) {
    auto found = browser().run(concat("return bigmac.measurePan(2, ", share, ")"));
    printf("a million operators, %g of the step seen: %.1f frames/s, %.1f ms to paint one\n", share,
           found["rate"].get<double>(), found["paint"].get<double>());
    least = std::min(least, found["rate"].get<double>());
  }
  RecordProperty("frames_per_second", std::to_string(least));
  EXPECT_GT(least, 12);  // 30 and more on cores that do nothing else
}

}  // namespace
}  // namespace bigmac
