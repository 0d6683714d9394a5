#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bigmac {

// A browser of its own: Debian's chromium, driven through chromedriver by the W3C WebDriver protocol. Throws
// Failure with the driver's words for whatever does not work, and where chromedriver is not installed.
class Browser {
 public:
  Browser(int width, int height);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  // Opens a page of bigmac's, a file or an address, and waits until it shows something.
  void open(const std::string& path);

  // What the script returns; of a promise, what it resolves to.
  nlohmann::json run(const std::string& script);
  // run("return " + expression)
  nlohmann::json get(const std::string& expression) { return run("return " + expression); }
  // Runs a line until it returns true, for some seconds.
  void wait_for(const std::string& expression);

  void click(const std::string& selector);
  void press(const std::string& keys);  // UTF-8, special keys as U+E000... of the protocol
  void move_to(double x, double y);     // of the window
  void drag(double x, double y, double dx, double dy);
  void wheel(double x, double y, double dy);
  void resize(int width, int height);
  void save_screenshot(const std::string& path);

  // A command of the Chrome DevTools Protocol.
  nlohmann::json cdp(const std::string& command, const nlohmann::json& parameters);

  // What the console has been told since the last call, warnings and errors only.
  std::vector<std::string> complaints();

 private:
  nlohmann::json call(const std::string& method, const std::string& path, const nlohmann::json& body);
  nlohmann::json in_session(const std::string& path, const nlohmann::json& body);
  void act(const nlohmann::json& source);

  pid_t driver_ = -1;
  int port_ = 0, output_ = -1;
  std::string session_;
};

namespace key {
inline const std::string kEnter = "\uE007", kTab = "\uE004", kEscape = "\uE00C", kShift = "\uE008",
                         kLeft = "\uE012", kUp = "\uE013", kRight = "\uE014", kDown = "\uE015";
}

}  // namespace bigmac
