#include "bigmac/analysis/own_events.h"

#include <cmath>
#include <optional>

#include "bigmac/measured/json_stream.h"

namespace bigmac {
namespace {

using json::Level;
using json::Token;

std::optional<Spent> spent_of(std::string_view category) {
  for (auto spent : {Spent::transfer, Spent::wait, Spent::order})
    if (category == name(spent)) return spent;
  return {};
}

class Reader : public json::Visitor {
 public:
  explicit Reader(std::map<int64_t, OwnEvents>& found) : found_(found) {}

  void opened(const std::vector<Level>& levels, bool is_object) override {
    if (levels.empty()) depth_ = is_object ? 2 : 1;
    if (levels.size() == depth_) event_ = {};
  }

  void value(const std::vector<Level>& levels, const Token& token) override {
    bool number = token.kind == Token::Kind::number, text = token.kind == Token::Kind::text;
    if (levels.size() == depth_ + 1) {
      const auto& key = levels[depth_].key;
      if (text && key == "ph") event_.kind = token.text.size() == 1 ? token.text[0] : ' ';
      if (text && key == "cat") event_.spent = spent_of(token.text);
      if (number && key == "pid" && token.number >= 0 && token.number <= INT32_MAX)
        event_.rank = int64_t(token.number);
      if (number && key == "ts") event_.start = token.number;
      if (number && key == "dur") event_.duration = token.number;
    }
    if (levels.size() != depth_ + 2 || levels[depth_].key != "args") return;
    const auto& key = levels[depth_ + 1].key;
    if (text && key == "operator") event_.is_operator = true;
    if (number && key == "peer" && std::abs(token.number) <= INT32_MAX) event_.peer = int(token.number);
    if (number && key == "bytes") event_.bytes = token.number;
    if (number && key == "free") event_.free = token.number;
  }

  void closed(const std::vector<Level>& levels) override {
    if (levels.size() == depth_ && event_.rank >= 0 && event_.start) take();
  }

 private:
  struct Event {
    char kind = ' ';
    bool is_operator = false;
    int64_t rank = -1;
    int peer = -1;
    std::optional<Spent> spent{};
    std::optional<double> start{}, duration{}, bytes{};
    double free = 0;
  };

  void take() {
    double start = *event_.start;
    if (event_.kind == 'C' && event_.bytes) {
      auto& row = found_[event_.rank];
      row.memory.times.push_back(start);
      row.memory.bytes.push_back(*event_.bytes);
      if (event_.free > 0) row.memory_limit = *event_.bytes + event_.free;
    }
    if (event_.kind != 'X' || !event_.duration) return;
    if (event_.spent)
      found_[event_.rank].intervals.push_back(
          {*event_.spent, event_.peer, {}, start, start + *event_.duration});
    if (!event_.is_operator) return;
    auto& row = found_[event_.rank];
    if (row.first_operator < 0 || start < row.first_operator) row.first_operator = start;
  }

  std::map<int64_t, OwnEvents>& found_;
  size_t depth_ = 2;  // of an event
  Event event_;
};

}  // namespace

std::map<int64_t, OwnEvents> read_own_events(const std::vector<std::string>& paths) {
  std::map<int64_t, OwnEvents> found;
  for (const auto& path : paths) {
    Reader reader(found);
    json::walk_file(path, reader);
  }
  std::erase_if(found, [](const auto& row) { return row.second.first_operator < 0; });
  return found;
}

}  // namespace bigmac
