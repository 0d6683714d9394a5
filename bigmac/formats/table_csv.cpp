#include "bigmac/formats/table_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "bigmac/common/error.h"
#include "bigmac/formats/in_quotes.h"
#include "bigmac/formats/table_header.h"

namespace bigmac {
namespace {

constexpr std::string_view kFirstLine = "# bigmac table 1";
constexpr std::string_view kMargin = "# ";
constexpr std::string_view kColumns =
    "rank,position,module,operator,chunk,microbatch,overlap,share,unit,items";
constexpr std::string_view kBackbone = "backbone";
constexpr int64_t kShortestLine = 16;  // in bytes, no longer than any operator's

enum Column {
  rank_,
  position_,
  module_,
  operator_,
  chunk_,
  microbatch_,
  overlap_,
  share_,
  unit_,
  items_,
  columns_
};
constexpr std::string_view kNames[columns_] = {"rank",       "position", "module", "operator", "chunk",
                                               "microbatch", "overlap",  "share",  "unit",     "items"};

void check_name(const std::string& name) {
  auto illegal = [](char byte) {
    return (byte >= 0 && byte < ' ') || byte == 127 || byte == ',' || byte == '"' || byte == '#';
  };
  if (name.empty() || std::any_of(name.begin(), name.end(), illegal))
    throw InvalidInput(
        concat("[csv] cannot hold a module named ", in_quotes(name),
               "; right would be a name without comma, quote, '#' or control character, or JSON"));
}

std::string commented(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    auto end = std::min(text.find('\n', at), text.size());
    out += kMargin;
    out.append(text, at, end - at);
    out += '\n';
    at = end + 1;
  }
  return out;
}

void append_line(std::string& text, const Schedule& schedule, int rank, int64_t position, bool overlaps) {
  const Operator& op = schedule.row(rank)[size_t(position)];
  append_number(text, rank);
  text += ',';
  append_number(text, position);
  text += ',';
  if (op.module == Module::backbone) {
    ((text += kBackbone) += ',') += letter(op.phase);
    text += ',';
    append_number(text, op.chunk);
    text += ',';
    append_number(text, op.index);
    text += overlaps ? ",1,,,\n" : ",,,,\n";
    return;
  }
  const Share& share = schedule.shares.list.at(op.index);
  ((text += schedule.module_of(share).name) += ',') += letter(op.phase);
  text += ",,,,";
  append_number(text, op.index);
  text += ',';
  append_number(text, share.unit);
  ((text += ',') += item_list(schedule, share)) += '\n';
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file)
      : text_(text),
        name_("[csv] " + file),
        most_operators_(
            std::min(std::count(text.begin(), text.end(), '\n') + 1, int64_t(text.size()) / kShortestLine)) {}

  Schedule read() {
    read_header();
    if (!next_line() || line_ != kColumns) fail(concat("must be ", kColumns));
    schedule_.row_begin = {0};
    while (next_line()) read_operator();
    while (int64_t(schedule_.row_begin.size()) <= schedule_.step.ranks) end_row();
    collect_shares();
    if (int64_t bad = find_bad_overlap(schedule_); bad >= 0) {
      auto [rank, position] = placement_of(schedule_, bad);
      throw InvalidInput(concat(name_, ": rank ", rank, " position ", position,
                                ": overlap is for a forward of ",
                                "the backbone with a B or I of the backbone behind it"));
    }
    return std::move(schedule_);
  }

 private:
  // What the lines say of a share; its first operator's line, 0 while there is none.
  struct Found {
    int64_t line = 0;
    Share share;
  };

  bool next_line() {
    if (at_ == text_.size()) return false;
    auto end = std::min(text_.find('\n', at_), text_.size());
    line_ = text_.substr(at_, end - at_);
    if (end < text_.size() && line_.ends_with('\r')) line_.remove_suffix(1);
    at_ = std::min(end + 1, text_.size());
    ++number_;
    return true;
  }

  void read_header() {
    if (!next_line() || line_ != kFirstLine)
      fail(concat("must begin with the line '", kFirstLine, "', got ", in_quotes(line_)));
    std::string json;
    while (at_ < text_.size() && text_[at_] == '#') {
      next_line();
      if (!line_.starts_with(kMargin)) fail(concat("must begin with '", kMargin, "'"));
      (json += line_.substr(kMargin.size())) += '\n';
    }
    HeaderReader header;
    json::read(json, json::object(header.fields()), {name_, 2, int64_t(kMargin.size())});
    try {
      header.take(most_operators_, schedule_);
      for (const auto& module : schedule_.step.modules) check_name(module.name);
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat(name_, ": ", error.what()));
    }
    const auto& modules = schedule_.step.modules;
    for (size_t i = 0; i < modules.size(); ++i) modules_.emplace(modules[i].name, int32_t(i));
    found_.resize(size_t(most_operators_));
  }

  void read_operator() {
    split();
    int64_t rank = number(rank_, schedule_.step.ranks - 1);
    if (rank < int64_t(schedule_.row_begin.size()) - 1)
      fail(rank_, concat("is behind rank ", schedule_.row_begin.size() - 1, "; ranks must be in order"));
    while (int64_t(schedule_.row_begin.size()) - 1 < rank) end_row();
    int64_t expected = int64_t(schedule_.operators.size()) - schedule_.row_begin.back();
    if (number(position_, kMostOperators) != expected) fail(position_, concat("must be ", expected));
    Operator op;
    try {
      op.phase = phase_from_letter(std::string(fields_[operator_]));
    } catch (const InvalidInput& error) {
      fail(operator_, error.what());
    }
    if (fields_[share_].empty())
      read_backbone(op);
    else
      read_share(op, int32_t(rank));
    schedule_.operators.push_back(op);
  }

  void read_backbone(Operator& op) {
    if (fields_[module_] != kBackbone) fail(module_, "must be backbone where there is no share");
    op.chunk = uint16_t(number(chunk_, UINT16_MAX));
    op.index = uint32_t(number(microbatch_, UINT32_MAX));
    for (auto column : {unit_, items_})
      if (!fields_[column].empty()) fail(column, "must be empty for the backbone");
    if (fields_[overlap_].empty()) return;
    if (fields_[overlap_] != "1") fail(overlap_, "must be 1 or empty");
    schedule_.overlapped.push_back(int64_t(schedule_.operators.size()));
  }

  void read_share(Operator& op, int32_t rank) {
    for (auto column : {chunk_, microbatch_, overlap_})
      if (!fields_[column].empty()) fail(column, "must be empty for an encoder or generator");
    auto module = modules_.find(std::string(fields_[module_]));
    if (module == modules_.end()) fail(module_, concat("is no module of the step with a share"));
    op.index = uint32_t(number(share_, int64_t(found_.size()) - 1));
    op.module = schedule_.step.modules[size_t(module->second)].kind;
    Share share{.module = module->second,
                .unit = int32_t(number(unit_, INT32_MAX)),
                .rank = rank,
                .first = uint32_t(taken_.size())};
    read_items(schedule_.step.modules[size_t(share.module)]);
    share.count = uint32_t(taken_.size()) - share.first;
    Found& found = found_[op.index];
    if (found.line == 0) {
      found = {number_, share};
      return;
    }
    const Share& before = found.share;
    bool same = share.module == before.module && share.unit == before.unit && share.rank == before.rank &&
                std::equal(taken_.begin() + share.first, taken_.end(), taken_.begin() + before.first,
                           taken_.begin() + before.first + before.count);
    if (!same)
      fail(share_, concat("must have the rank, module, unit and items of its operator in line ", found.line));
    taken_.resize(share.first);
  }

  // "8.3 8.7 9.2" to the numbers in the module's items, behind those taken before.
  void read_items(const NestedModule& module) {
    auto text = fields_[items_];
    const auto& items = module.items;
    for (size_t at = 0; at < text.size();) {
      auto end = std::min(text.find(' ', at), text.size());
      auto item = text.substr(at, end - at);
      auto dot = item.find('.');
      int64_t microbatch = 0, within = 0;
      if (dot == item.npos || !whole(item.substr(0, dot), microbatch) ||
          !whole(item.substr(dot + 1), within) || end + 1 == text.size())
        fail(items_, "must be microbatch.number, with one space between items, as in 8.3 8.7 9.2");
      auto first = std::lower_bound(items.begin(), items.end(), microbatch,
                                    [](const Item& a, int64_t m) { return a.microbatch < m; }) -
                   items.begin();
      if (within >= int64_t(items.size()) - first || items[size_t(first + within)].microbatch != microbatch)
        fail(items_, concat("has ", in_quotes(item), ", which the module '", module.name, "' does not have"));
      taken_.push_back(uint32_t(first + within));
      at = end + 1;
    }
  }

  void end_row() { schedule_.row_begin.push_back(int64_t(schedule_.operators.size())); }

  void collect_shares() {
    auto used = found_.end();
    while (used != found_.begin() && (used - 1)->line == 0) --used;
    auto& shares = schedule_.shares;
    for (auto found = found_.begin(); found != used; ++found) {
      if (found->line == 0)
        throw InvalidInput(concat(name_, ": share ", found - found_.begin(), " has no operator, share ",
                                  used - found_.begin() - 1, " has; shares must be numbered from 0"));
      Share share = found->share;
      auto first = taken_.begin() + share.first;
      share.first = uint32_t(shares.items.size());
      shares.items.insert(shares.items.end(), first, first + share.count);
      shares.list.push_back(share);
    }
  }

  void split() {
    size_t begin = 0;
    for (int column = 0; column < columns_; ++column) {
      auto end = column + 1 < columns_ ? line_.find(',', begin) : line_.size();
      if (end == line_.npos)
        fail(concat("has ", column + 1, " fields, must have ", int(columns_), ": ", kColumns));
      fields_[column] = line_.substr(begin, end - begin);
      begin = end + 1;
    }
    if (fields_[items_].find(',') != line_.npos)
      fail(concat("has more than ", int(columns_), " fields: ", kColumns));
  }

  // Digits without leading zeros.
  static bool whole(std::string_view text, int64_t& value) {
    bool digits = !text.empty() && text.front() >= '0' && text.front() <= '9';
    if (!digits || (text.size() > 1 && text.front() == '0')) return false;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  }

  int64_t number(Column column, int64_t most) const {
    int64_t value = 0;
    if (!whole(fields_[column], value) || value > most)
      fail(column, concat("must be a whole number from 0 to ", most));
    return value;
  }

  [[noreturn]] void fail(Column column, const std::string& what) const {
    throw InvalidInput(concat(name_, ":", number_, ":", column + 1, ": ", kNames[column], " ",
                              in_quotes(fields_[column]), " ", what));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidInput(concat(name_, ":", std::max(number_, int64_t{1}), ": ", what));
  }

  std::string_view text_;
  std::string name_;
  int64_t most_operators_;  // that the text can hold
  size_t at_ = 0;
  int64_t number_ = 0;
  std::string_view line_;
  std::array<std::string_view, columns_> fields_;
  std::unordered_map<std::string, int32_t> modules_;
  std::vector<Found> found_;
  std::vector<uint32_t> taken_;  // items, by Share::first of what is found
  Schedule schedule_;
};

}  // namespace

std::string to_csv(const Schedule& schedule) {
  for (const auto& module : schedule.step.modules) check_name(module.name);
  std::string text = concat(kFirstLine, "\n") + commented(concat("{", header_text(schedule), "}"));
  (text += kColumns) += '\n';
  auto overlapped = schedule.overlapped.begin();
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (int64_t at = schedule.row_begin[rank]; at < schedule.row_begin[rank + 1]; ++at) {
      bool overlaps = overlapped != schedule.overlapped.end() && *overlapped == at;
      if (overlaps) ++overlapped;
      append_line(text, schedule, rank, at - schedule.row_begin[rank], overlaps);
    }
  return text;
}

Schedule parse_csv(std::string_view text, const std::string& file) {
  return Reader(text, file).read();
}

}  // namespace bigmac
