#include "bigmac/common/error.h"
#include "bigmac/cost/split.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac::cost {
namespace {

constexpr int64_t kMostLayers = 1'000'000;  // of a stage

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Split read() {
    bool brackets = skip('[');
    bool chunks = brackets && next() == '[';
    size_t width = 0;
    do {
      if (!chunks) {
        split_.push_back(read_number());
        continue;
      }
      size_t before = split_.size();
      if (!skip('[')) fail("must be '[', since the chunk before is a list too");
      read_numbers();
      if (!skip(']')) fail("must be ',' or ']'");
      if (width == 0) width = split_.size();
      if (split_.size() - before != width)
        fail(concat("a chunk has ", split_.size() - before, " stages, the first has ", width), at_ - 1);
    } while (skip(','));
    if (brackets && !skip(']')) fail("must be ',' or ']'");
    if (next() != '\0' || at_ < text_.size())
      fail(brackets ? "nothing may follow the list" : "must be ',' or the end");
    return std::move(split_);
  }

 private:
  void read_numbers() {
    do split_.push_back(read_number());
    while (skip(','));
  }

  int64_t read_number() {
    int64_t number = 0;
    bool none = true;
    for (next(); at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, none = false)
      if ((number = number * 10 + (text_[at_] - '0')) > kMostLayers)
        fail(concat("a stage may hold at most ", kMostLayers, " layers"));
    if (none) fail("must be a number of layers, as in [6,11,11,8]");
    return number;
  }

  // Behind spaces; 0 at the end.
  char next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool skip(char expected) {
    if (next() != expected || at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  [[noreturn]] void fail(const std::string& what) {
    next();
    fail(what, at_);
  }
  [[noreturn]] void fail(const std::string& what, size_t position) const {
    auto found = position < text_.size() ? in_quotes(text_.substr(position, 1)) : std::string("the end");
    throw InvalidInput(concat("[split] position ", position + 1, " (", found, "): ", what));
  }

  std::string_view text_;
  size_t at_ = 0;
  Split split_;
};

}  // namespace

Split parse_split(std::string_view text, int64_t layers, int64_t stages) {
  auto split = Reader(text).read();
  check_split(split, layers, stages);
  return split;
}

void check_split(const Split& split, int64_t layers, int64_t stages) {
  if (layers < 1) throw InvalidInput(concat("[split] layers must be at least 1, got ", layers));
  if (stages < 1) throw InvalidInput(concat("[split] stages must be at least 1, got ", stages));
  if (int64_t(split.size()) != stages)
    throw InvalidInput(concat("[split] has ", split.size(), " stages, the pipeline has ", stages));
  int64_t held = 0;
  for (size_t stage = 0; stage < split.size(); ++stage) {
    if (split[stage] < 0 || split[stage] > kMostLayers)
      throw InvalidInput(concat("[split] stage ", stage, " must hold between 0 and ", kMostLayers,
                                " layers, got ", split[stage]));
    held += split[stage];
  }
  if (held != layers) throw InvalidInput(concat("[split] holds ", held, " layers, the model has ", layers));
}

}  // namespace bigmac::cost
