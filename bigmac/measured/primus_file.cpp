#include "bigmac/measured/primus_file.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "bigmac/common/error.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac {
namespace {

using json::Level;
using json::Token;

const std::string kLists[] = {"fwd_start",   "fwd_end",   "fwd_minibatch",   "fwd_chunk",
                              "bwd_start",   "bwd_end",   "bwd_minibatch",   "bwd_chunk",
                              "wgrad_start", "wgrad_end", "wgrad_minibatch", "wgrad_chunk"};

bool is_list(const std::string& key) {
  return std::find(std::begin(kLists), std::end(kLists), key) != std::end(kLists);
}

int64_t iteration_number(const std::string& path, const std::string& key) {
  int64_t number = -1;
  auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc() || end != key.data() + key.size() || number < 0)
    throw InvalidInput(concat("[primus] ", path, ": iteration ", in_quotes(key), " must be a whole number"));
  return number;
}

class RankFile : public json::Visitor {
 public:
  RankFile(const std::string& path, LeftOut* left, const json::Progress& progress)
      : path_(path), left_(left) {
    if (left_ == nullptr)
      json::walk_file(path, *this, {}, progress);
    else
      cut_ = json::walk_what_is_there(path, *this, {}, progress);
    if (cut_ && iterations_.empty()) throw InvalidInput(cut_->why);
  }

  PrimusFile take() { return {std::move(iterations_), std::move(cut_)}; }

  void opened(const std::vector<Level>& levels, bool is_object) override {
    if (levels.empty() && !is_object) throw InvalidInput(concat("[primus] ", path_, ": must be an object"));
    if (levels.size() == 1) {
      iteration_ = nullptr;
      refuse_or_leave_out([&] {
        auto number = iteration_number(path_, levels[0].key);
        if (!is_object) fail(levels, "must be an object");
        auto [at, is_new] = iterations_.emplace(number, PrimusIteration{});
        if (!is_new) fail(levels, "is there twice");
        iteration_ = &at->second;
      });
    }
    if (levels.size() == 2) {
      bool known = iteration_ != nullptr && is_list(levels[1].key);
      list_ = nullptr;
      refuse_or_leave_out([&] {
        if (known && is_object) fail(levels, "must be an array of numbers");
        auto* list = known ? &iteration_->lists[levels[1].key] : nullptr;
        if (list != nullptr && !list->empty()) fail(levels, "is there twice");
        list_ = list;
      });
    }
    if (levels.size() == 3 && list_ != nullptr)
      refuse_or_leave_out([&] {
        list_->push_back(kNoNumber);
        fail(levels, "must be a number, got an object or array");
      });
  }
  void closed(const std::vector<Level>& levels) override {
    if (levels.size() == 2) list_ = nullptr;
  }
  void value(const std::vector<Level>& levels, const Token& token) override {
    refuse_or_leave_out([&] { take(levels, token); });
  }

 private:
  static constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

  template <class Read>
  void refuse_or_leave_out(Read&& read) {
    if (left_ == nullptr) return read();
    try {
      read();
    } catch (const InvalidInput& error) {
      left_->add("values cannot be read; they are left out", error.what());
    }
  }

  void take(const std::vector<Level>& levels, const Token& token) {
    if (levels.size() < 2) fail(levels, concat("must be an object, got ", token.shown()));
    if (levels.size() == 2 && is_list(levels[1].key))
      fail(levels, concat("must be an array of numbers, got ", token.shown()));
    bool is_figure = levels.size() == 2 && (levels[1].key == "total" || levels[1].key == "memory");
    bool in_list = levels.size() == 3 && list_ != nullptr;
    if (iteration_ == nullptr || (!is_figure && !in_list)) return;
    bool number = token.kind == Token::Kind::number;
    if (in_list) list_->push_back(number ? token.number : kNoNumber);
    if (!number) fail(levels, concat("must be a number, got ", token.shown()));
    if (in_list) return;
    if (token.number < 0) fail(levels, concat("must be at least 0, got ", token.shown()));
    (levels[1].key == "total" ? iteration_->total : iteration_->memory) = token.number;
  }

  [[noreturn]] void fail(const std::vector<Level>& levels, const std::string& what) const {
    throw InvalidInput(concat("[primus] ", path_, ": ", json::pointer(levels), " ", what));
  }

  const std::string& path_;
  LeftOut* left_;
  std::optional<json::Break> cut_{};
  std::map<int64_t, PrimusIteration> iterations_;
  PrimusIteration* iteration_ = nullptr;
  std::vector<double>* list_ = nullptr;
};

}  // namespace

PrimusFile read_primus_file(const std::string& path, LeftOut* left, const json::Progress& progress) {
  return RankFile(path, left, progress).take();
}

}  // namespace bigmac
