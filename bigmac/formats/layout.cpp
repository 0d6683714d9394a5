#include "bigmac/formats/layout.h"

#include <algorithm>
#include <numeric>

#include "bigmac/common/error.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac {
namespace {

constexpr std::string_view kItems = "EtmL|";

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

// A letter or cut, and the position in the text that it comes from.
struct Item {
  char letter;
  size_t position;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<Item> read() {
    while (at_ < text_.size()) {
      if (text_[at_] == ',')
        ++at_;
      else if (text_[at_] == '(')
        read_group();
      else
        read_item();
    }
    return std::move(items_);
  }

  [[noreturn]] void fail(size_t position, const std::string& what) const {
    auto found = position < text_.size() ? in_quotes(text_.substr(position, 1)) : std::string("the end");
    throw InvalidInput(concat("[layout] position ", position + 1, " (", found, "): ", what));
  }

 private:
  void read_item() {
    size_t begin = at_;
    if (kItems.find(text_[at_]) == kItems.npos) fail_at_stray();
    items_.push_back({text_[at_++], begin});
    if (at_ < text_.size() && text_[at_] == '*')
      repeat(items_.size() - 1, read_count());
    else
      check_size(begin, int64_t(items_.size()));
  }

  void read_group() {
    size_t open = at_++, first = items_.size();
    while (at_ < text_.size() && text_[at_] != ')') {
      if (text_[at_] == '(')
        fail(at_, "groups must not be nested; right would be to write the inner one out");
      if (text_[at_] == ',')
        ++at_;
      else
        read_item();
    }
    if (at_ == text_.size()) fail(open, "the group is not closed; right would be as in (tt|)*29");
    if (items_.size() == first) fail(open, "the group is empty; right would be as in (tt|)*29");
    ++at_;
    if (at_ == text_.size() || text_[at_] != '*')
      fail(at_, "a group must be followed by how often it is repeated, as in (tt|)*29");
    repeat(first, read_count());
  }

  // Past the '*'. Counts beyond what a layout may hold come back as kMostLayoutItems + 1.
  int64_t read_count() {
    size_t begin = ++at_;
    int64_t count = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_)
      count = std::min(count * 10 + (text_[at_] - '0'), kMostLayoutItems + 1);
    if (at_ == begin) fail(at_, "'*' must be followed by how often, as in t*11");
    if (count == 0) fail(begin, "a repeat must be at least 1");
    count_begin_ = begin;
    return count;
  }

  void repeat(size_t first, int64_t count) {
    int64_t length = int64_t(items_.size() - first);
    check_size(count_begin_, int64_t(first) + length * count);
    items_.reserve(first + size_t(length * count));
    for (int64_t i = length; i < length * count; ++i) items_.push_back(items_[first + size_t(i - length)]);
  }

  void check_size(size_t position, int64_t size) const {
    if (size > kMostLayoutItems)
      fail(position, concat("the layout grows beyond ", kMostLayoutItems, " layers and cuts"));
  }

  [[noreturn]] void fail_at_stray() const {
    char found = text_[at_];
    if (found == ')') fail(at_, "no group is open; right would be as in (tt|)*29");
    if (found == '*') fail(at_, "'*' must follow a letter, a cut or a group, as in t*11 or (tt|)*29");
    if (is_digit(found)) fail(at_, "a number must follow '*', as in t*11");
    fail(at_,
         "must be one of E (embedding), t (layer), m (MTP layer), L (loss), '|' (cut), ',', or a group "
         "as in (tt|)*29");
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t count_begin_ = 0;
  std::vector<Item> items_;
};

void check_order(const Reader& reader, const std::vector<Item>& items, size_t end) {
  if (items.empty()) reader.fail(end, "the layout is empty; right would be as in Et*11|t*12|t*11,L");
  if (items.front().letter != 'E')
    reader.fail(items.front().position, "a layout must begin with the embedding E, in its first stage");
  bool mtp = false;
  for (size_t i = 1; i < items.size(); ++i) {
    auto [letter, position] = items[i];
    if (letter == 'E') reader.fail(position, "a layout must hold the embedding E once, at its beginning");
    if (letter == 'L' && i + 1 < items.size())
      reader.fail(items[i + 1].position, "a layout must end with the loss L, but this follows it");
    if (letter == 't' && mtp) reader.fail(position, "layers t must stand before all MTP layers m");
    mtp = mtp || letter == 'm';
  }
  if (items.back().letter != 'L') reader.fail(end, "a layout must end with the loss L, in its last stage");
}

std::string repeated(std::string_view item, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += item;
  return text;
}

std::string letters(std::string_view letter, int64_t count) {
  return count > 2 ? concat(letter, "*", count) : repeated(letter, count);
}

// `stage` ends in its cut.
std::string same_stages(const std::string& stage, int64_t count) {
  auto short_form = stage == "|" ? concat("|*", count) : concat("(", stage, ")*", count);
  auto long_length = int64_t(stage.size()) * count;
  return long_length > int64_t(short_form.size()) ? short_form : repeated(stage, count);
}

// Commas part a count from the letter or group behind it.
void append(std::string& text, std::string_view more) {
  bool counted = !text.empty() && is_digit(text.back());
  if (counted && !more.empty() && more.front() != '|') text += ',';
  text += more;
}

std::string stage_text(const LayoutStage& stage) {
  std::string text = stage.embedding ? "E" : "";
  append(text, letters("t", stage.layers));
  append(text, letters("m", stage.mtp));
  append(text, stage.loss ? "L" : "");
  return text;
}

}  // namespace

int64_t Layout::layers() const {
  return std::accumulate(stages.begin(), stages.end(), int64_t(0),
                         [](int64_t sum, const LayoutStage& stage) { return sum + stage.layers; });
}

int64_t Layout::mtp() const {
  return std::accumulate(stages.begin(), stages.end(), int64_t(0),
                         [](int64_t sum, const LayoutStage& stage) { return sum + stage.mtp; });
}

Layout parse_layout(std::string_view text) {
  Reader reader(text);
  auto items = reader.read();
  check_order(reader, items, text.size());
  Layout layout;
  layout.stages.emplace_back();
  for (auto [letter, position] : items) {
    auto& stage = layout.stages.back();
    switch (letter) {
      case 'E':
        stage.embedding = true;
        break;
      case 't':
        ++stage.layers;
        break;
      case 'm':
        ++stage.mtp;
        break;
      case 'L':
        stage.loss = true;
        break;
      default:
        layout.stages.emplace_back();
    }
  }
  return layout;
}

void check_layout(const Layout& layout, int64_t layers, std::optional<int64_t> mtp,
                  std::optional<int64_t> ranks) {
  if (layout.layers() != layers)
    throw InvalidInput(concat("[layout] holds ", layout.layers(), " layers, the model has ", layers));
  if (mtp && layout.mtp() != *mtp)
    throw InvalidInput(concat("[layout] holds ", layout.mtp(), " MTP layers, the model has ", *mtp));
  if (!ranks) return;
  auto stages = int64_t(layout.stages.size());
  if (*ranks < 1) throw InvalidInput(concat("[layout] pipeline ranks must be at least 1, got ", *ranks));
  if (stages % *ranks != 0)
    throw InvalidInput(concat("[layout] holds ", stages, " stages, which must be a multiple of the ", *ranks,
                              " pipeline ranks"));
}

std::string to_text(const Layout& layout) {
  std::string text;
  const auto& stages = layout.stages;
  for (size_t first = 0, next; first + 1 < stages.size(); first = next) {
    for (next = first + 1; next + 1 < stages.size() && stages[next] == stages[first];) ++next;
    append(text, same_stages(stage_text(stages[first]) + "|", int64_t(next - first)));
  }
  if (!stages.empty()) append(text, stage_text(stages.back()));
  return text;
}

}  // namespace bigmac
