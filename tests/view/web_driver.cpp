#include "tests/view/web_driver.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bigmac/common/error.h"
#include "tests/view/http.h"

namespace bigmac {
namespace {

using Json = nlohmann::json;

// The driver picks a port and says which.
int read_port(int output) {
  std::string said;
  const std::string before = "started successfully on port ";
  while (true) {
    char letter = 0;
    if (read(output, &letter, 1) != 1) throw Failure("[browser] chromedriver does not start: " + said);
    said += letter;
    auto at = said.find(before);
    if (at != std::string::npos && said.back() == '.') return std::stoi(said.substr(at + before.size()));
  }
}

std::vector<uint8_t> from_base64(const std::string& text) {
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int count = 0;
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (char letter : text) {
    auto digit = digits.find(letter);
    if (digit == std::string::npos) continue;
    bits = bits << 6 | uint32_t(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(uint8_t(bits >> count));
  }
  return bytes;
}

}  // namespace

Browser::Browser(int width, int height) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Failure("[browser] no pipe");
  output_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = "chromedriver", port = "--port=0";
  char* arguments[] = {name.data(), port.data(), nullptr};
  int error = posix_spawnp(&driver_, "chromedriver", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0)
    throw Failure("[browser] chromedriver cannot be run; scripts/install-dependencies installs it");
  port_ = read_port(output_);
  Json options{
      {"args",
       {"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--force-device-scale-factor=1", concat("--window-size=", width, ",", height)}}};
  Json wanted{{"browserName", "chrome"},
              {"goog:chromeOptions", options},
              {"goog:loggingPrefs", {{"browser", "ALL"}}}};
  session_ = call("POST", "/session", {{"capabilities", {{"alwaysMatch", wanted}}}})["sessionId"];
  in_session("timeouts", {{"script", 100000}, {"pageLoad", 100000}});
  resize(width, height);
}

Browser::~Browser() {
  try {
    if (!session_.empty()) call("DELETE", "/session/" + session_, Json::object());
  } catch (const std::exception&) {
    session_.clear();
  }
  kill(driver_, SIGTERM);
  waitpid(driver_, nullptr, 0);
  close(output_);
}

Json Browser::call(const std::string& method, const std::string& path, const Json& body) {
  auto value = Json::parse(http(port_, method, path, method == "DELETE" ? "" : body.dump()))["value"];
  if (value.is_object() && value.contains("error"))
    throw Failure(concat("[browser] ", value["error"].get<std::string>(), ": ",
                         value.value("message", "").substr(0, 600)));
  return value;
}

Json Browser::in_session(const std::string& path, const Json& body) {
  return call("POST", concat("/session/", session_, "/", path), body);
}

void Browser::open(const std::string& path) {
  auto url = path.starts_with("http://") ? path : "file://" + std::filesystem::absolute(path).string();
  in_session("url", {{"url", url}});
  wait_for("document.documentElement.dataset.ready === 'true'");
}

Json Browser::run(const std::string& script) {
  return in_session("execute/sync", {{"script", script}, {"args", Json::array()}});
}

void Browser::wait_for(const std::string& expression) {
  for (int attempt = 0; attempt < 600; ++attempt) {
    if (get(expression) == true) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw Failure(concat("[browser] waited in vain until ", expression));
}

void Browser::click(const std::string& selector) {
  auto found = in_session("element", {{"using", "css selector"}, {"value", selector}});
  std::string id = found.begin().value();
  in_session(concat("element/", id, "/click"), Json::object());
}

void Browser::act(const Json& source) {
  in_session("actions", {{"actions", Json::array({source})}});
}

void Browser::press(const std::string& keys) {
  auto actions = Json::array();
  for (size_t i = 0; i < keys.size();) {
    auto lead = uint8_t(keys[i]);
    size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    for (const char* type : {"keyDown", "keyUp"})
      actions.push_back({{"type", type}, {"value", keys.substr(i, length)}});
    i += length;
  }
  act({{"type", "key"}, {"id", "keys"}, {"actions", actions}});
}

namespace {

Json pointer_move(double x, double y) {
  return {{"type", "pointerMove"}, {"duration", 30}, {"x", int(x)}, {"y", int(y)}, {"origin", "viewport"}};
}

}  // namespace

void Browser::move_to(double x, double y) {
  act({{"type", "pointer"}, {"id", "mouse"}, {"actions", {pointer_move(x, y)}}});
}

void Browser::drag(double x, double y, double dx, double dy) {
  Json down{{"type", "pointerDown"}, {"button", 0}}, up{{"type", "pointerUp"}, {"button", 0}};
  act({{"type", "pointer"},
       {"id", "mouse"},
       {"actions", {pointer_move(x, y), down, pointer_move(x + dx, y + dy), up}}});
}

void Browser::wheel(double x, double y, double dy) {
  Json scroll{{"type", "scroll"},  {"x", int(x)},   {"y", int(y)},         {"deltaX", 0},
              {"deltaY", int(dy)}, {"duration", 0}, {"origin", "viewport"}};
  act({{"type", "wheel"}, {"id", "wheel"}, {"actions", {scroll}}});
}

void Browser::resize(int width, int height) {
  in_session("window/rect", {{"width", width}, {"height", height}});
}

void Browser::save_screenshot(const std::string& path) {
  auto bytes = from_base64(
      call("GET", concat("/session/", session_, "/screenshot"), Json::object()).get<std::string>());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
}

Json Browser::cdp(const std::string& command, const Json& parameters) {
  return in_session("goog/cdp/execute", {{"cmd", command}, {"params", parameters}});
}

std::vector<std::string> Browser::complaints() {
  std::vector<std::string> found;
  for (const auto& entry : in_session("se/log", {{"type", "browser"}}))
    if (entry["level"] == "SEVERE" || entry["level"] == "WARNING") found.push_back(entry["message"]);
  return found;
}

}  // namespace bigmac
