#include <gtest/gtest.h>
#include <httplib.h>

#include <csignal>
#include <fstream>

#include "bigmac/controls/answer.h"
#include "bigmac/controls/controls_json.h"
#include "tests/apps/program.h"
#include "tests/controls/served.h"
#include "tests/view/unpacked.h"
#include "tests/view/web_driver.h"

namespace bigmac {
namespace {

using Json = nlohmann::json;

void write_table(const std::string& path, int microbatches) {
  auto outcome = run_bigmac({"schedule", "--pp", "2", "--microbatches", std::to_string(microbatches),
                             "--encoder", "--format", "csv", "--output", path});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
}

Json facts_of(const std::string& page) {
  return unpacked(recordings_in(page).at(0)).facts;
}

TEST(Serve, ShowsThePageAndReadsItsFileAgainOnEachReload) {
  TemporaryFile table("served.csv");
  write_table(table.path(), 4);
  Served served({table.path()});
  httplib::Client client("127.0.0.1", served.port());
  auto first = client.Get("/");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(first->get_header_value("Content-Type").substr(0, 9), "text/html");
  EXPECT_EQ(facts_of(first->body)["microbatches"], 4);
  write_table(table.path(), 6);
  EXPECT_EQ(facts_of(client.Get("/")->body)["microbatches"], 6);
  std::ofstream(table.path()) << "rank,nonsense\n";
  auto broken = client.Get("/");
  EXPECT_EQ(broken->status, 400);
  EXPECT_TRUE(contains(broken->body, table.path()));
  write_table(table.path(), 4);
  EXPECT_EQ(client.Get("/")->status, 200);
}

TEST(Serve, SimulatesWhatTheControlsSayAndRefusesRubbish) {
  Served served({"--controls"});
  httplib::Client client("127.0.0.1", served.port());
  Controls controls{.ranks = 4, .microbatches = 12, .encoder = {.forward = 0.5, .backward = 1}};
  auto request = to_json(controls).dump();
  auto good = client.Post("/simulate", request, "application/json");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->status, 200);
  EXPECT_TRUE(good->body == answer(request));
  const std::pair<std::string, const char*> rubbish[] = {{"", "no JSON"},
                                                         {"{\"pp\": -1}", "pp must be"},
                                                         {"{\"base\": \"zb-v\"}", "two chunks"},
                                                         {"\xff\x01", "no JSON"}};
  for (const auto& [body, part] : rubbish) {
    auto bad = client.Post("/simulate", body, "application/json");
    ASSERT_TRUE(bad);
    EXPECT_EQ(bad->status, 400);
    EXPECT_TRUE(contains(bad->body, part));
  }
  EXPECT_EQ(client.Post("/simulate", std::string(1'000'000, ' '), "application/json")->status, 413);
  EXPECT_EQ(client.Get("/etc/passwd")->status, 404);
  EXPECT_EQ(client.Get("/simulate")->status, 404);
  EXPECT_EQ(client.Get("/")->status, 200);
}

TEST(Serve, EndsCleanlyOnInterruptAndTerminate) {
  for (int signal : {SIGINT, SIGTERM}) {
    Served served({"--controls"});
    EXPECT_EQ(httplib::Client("127.0.0.1", served.port()).Get("/")->status, 200);
    EXPECT_EQ(served.end(signal), 0);
  }
}

TEST(Serve, NamesAPortThatIsTaken) {
  Served served({"--controls"});
  auto port = std::to_string(served.port());
  auto outcome = run_bigmac({"view", "--controls", "--serve", "--port", port});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(contains(outcome.err, "127.0.0.1:" + port));
}

TEST(Serve, SaysWhatIsWrongBeforeItServes) {
  EXPECT_EQ(run_bigmac("view no-such-file --serve --port 0").exit_code, 2);
  EXPECT_EQ(run_bigmac("view --serve --port 0").exit_code, 2);
  EXPECT_EQ(run_bigmac("view --controls --serve --port 70000").exit_code, 2);
  EXPECT_EQ(run_bigmac("view --controls --port 7070").exit_code, 2);
  EXPECT_EQ(run_bigmac("view --controls --serve -o page.html").exit_code, 2);
  EXPECT_EQ(run_bigmac("view --controls --serve --port 0 --host 203.0.113.7").exit_code, 1);
}

TEST(Serve, SimulatesForABrowserWithoutWebAssembly) {
  Served served({"--controls"});
  Browser browser(1280, 900);
  browser.cdp("Page.addScriptToEvaluateOnNewDocument", {{"source", "delete window.WebAssembly"}});
  browser.open(served.address());
  auto rest = [&] { browser.wait_for("bigmac.controls().busy === false && bigmac.controls().ms > 0"); };
  rest();
  double before = browser.get("bigmac.length()");
  browser.run(
      "const c = document.getElementById('control-microbatches'); c.value = 64; c.dispatchEvent(new "
      "Event('input'))");
  rest();
  EXPECT_GT(browser.get("bigmac.length()").get<double>(), 1.5 * before);
  EXPECT_EQ(browser.complaints(), std::vector<std::string>{});
  served.end(SIGTERM);
  browser.run(
      "const c = document.getElementById('control-microbatches'); c.value = 32; c.dispatchEvent(new "
      "Event('input'))");
  browser.wait_for("bigmac.controls().problem.includes('does not answer')");
}

}  // namespace
}  // namespace bigmac
