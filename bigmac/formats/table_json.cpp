#include "bigmac/formats/table_json.h"

#include "bigmac/common/error.h"
#include "bigmac/formats/table_header.h"

namespace bigmac {
namespace {

constexpr int64_t kVersion = 1;

void append_operator(std::string& text, const Operator& op, bool overlapped) {
  text += "{\"operator\":\"";
  text += letter(op.phase);
  if (op.module == Module::backbone) {
    text += "\",\"chunk\":";
    append_number(text, op.chunk);
    text += ",\"microbatch\":";
  } else {
    text += "\",\"share\":";
  }
  append_number(text, op.index);
  text += overlapped ? ",\"overlap\":true}" : "}";
}

void append_share(std::string& text, const Schedule& schedule, const Share& share) {
  text += "{\"module\":" + json::quoted(schedule.module_of(share).name) + ",\"unit\":";
  append_number(text, share.unit);
  text += ",\"rank\":";
  append_number(text, share.rank);
  text += ",\"items\":[";
  for (uint32_t item : schedule.shares.items_of(share)) {
    if (text.back() != '[') text += ',';
    append_number(text, item);
  }
  text += "]}";
}

class Reader {
 public:
  explicit Reader(const std::string& file) : source_{"[json] " + file} {}

  Schedule read(std::string_view text) {
    json::read(text, rule(), source_);
    try {
      finish();
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat(source_.name, ": ", error.what()));
    }
    return std::move(schedule_);
  }

 private:
  json::Rule rule() {
    auto fields = header_.fields();
    fields.push_back({"bigmac_table", json::whole(kVersion, kVersion, [](int64_t) {})});
    fields.push_back({"shares", json::array(share_rule())});
    auto row = json::array(operator_rule(), {},
                           [this] { schedule_.row_begin.push_back(int64_t(schedule_.operators.size())); });
    fields.push_back({"rows", json::array(row, [this] { schedule_.row_begin = {0}; })});
    return json::object(std::move(fields));
  }

  json::Rule share_rule() {
    auto& shares = schedule_.shares;
    auto last = [&shares]() -> Share& { return shares.list.back(); };
    return json::object(
        {{"module", json::text([this, last](const std::string& value) {
            last().module = header_.module_number(value);
          })},
         {"unit", json::whole(0, INT32_MAX, [last](int64_t value) { last().unit = int32_t(value); })},
         {"rank", json::whole(0, INT32_MAX, [last](int64_t value) { last().rank = int32_t(value); })},
         {"items", json::array(json::whole(0, UINT32_MAX,
                                           [&shares, last](int64_t value) {
                                             shares.items.push_back(uint32_t(value));
                                             ++last().count;
                                           }))}},
        [&shares] { shares.list.push_back({.first = uint32_t(shares.items.size())}); });
  }

  json::Rule operator_rule() {
    auto number = [this](int which, int64_t most, auto Operator::*into) {
      return json::whole(0, most, [this, which, into](int64_t value) {
        has_ |= which;
        op_.*into = std::remove_reference_t<decltype(op_.*into)>(value);
      });
    };
    auto begin = [this] {
      op_ = {};
      has_ = 0;
      overlaps_ = false;
    };
    return json::object(
        {{"operator", json::text([this](const std::string& value) { op_.phase = phase_from_letter(value); })},
         {"chunk", number(kChunk, UINT16_MAX, &Operator::chunk), false},
         {"microbatch", number(kMicrobatch, UINT32_MAX, &Operator::index), false},
         {"share", number(kShare, UINT32_MAX, &Operator::index), false},
         {"overlap", json::boolean([this](bool value) { overlaps_ = value; }), false}},
        begin, [this] { add_operator(); });
  }

  void add_operator() {
    if (has_ != kShare && has_ != (kChunk | kMicrobatch))
      throw InvalidInput("must have chunk and microbatch, or share");
    // Encoder or generator, as its share's module will say.
    if (has_ == kShare) op_.module = Module::encoder;
    if (overlaps_) schedule_.overlapped.push_back(int64_t(schedule_.operators.size()));
    schedule_.operators.push_back(op_);
  }

  void finish() {
    header_.take(int64_t(schedule_.operators.size()), schedule_);
    if (int64_t(schedule_.row_begin.size()) != schedule_.step.ranks + 1)
      throw InvalidInput(concat("/rows: has ", schedule_.row_begin.size() - 1, " rows, the step has ",
                                schedule_.step.ranks, " ranks"));
    find_modules_of_shares();
    for (size_t offset = 0; offset < schedule_.operators.size(); ++offset) {
      Operator& op = schedule_.operators[offset];
      if (op.module == Module::backbone) continue;
      if (op.index >= schedule_.shares.list.size())
        throw InvalidInput(concat(path(int64_t(offset)), "/share: is ", op.index, ", the table has ",
                                  schedule_.shares.list.size(), " shares"));
      op.module = schedule_.module_of(schedule_.shares.list[op.index]).kind;
    }
    if (int64_t bad = find_bad_overlap(schedule_); bad >= 0)
      throw InvalidInput(concat(path(bad), "/overlap: is for a forward of the backbone with a B or I of the ",
                                "backbone behind it"));
  }

  void find_modules_of_shares() {
    auto module = header_.modules(schedule_.step);
    auto& list = schedule_.shares.list;
    for (size_t i = 0; i < list.size(); ++i) {
      list[i].module = module[size_t(list[i].module)];
      const auto& of = schedule_.module_of(list[i]);
      for (uint32_t item : schedule_.shares.items_of(list[i]))
        if (item >= of.items.size())
          throw InvalidInput(
              concat("/shares/", i, "/items: has ", item, ", the module has ", of.items.size(), " items"));
    }
  }

  std::string path(int64_t offset) const {
    auto [rank, position] = placement_of(schedule_, offset);
    return concat("/rows/", rank, "/", position);
  }

  static constexpr int kChunk = 1, kMicrobatch = 2, kShare = 4;

  json::Source source_;
  Schedule schedule_;
  HeaderReader header_;
  Operator op_;
  int has_ = 0;
  bool overlaps_ = false;
};

}  // namespace

std::string to_json(const Schedule& schedule) {
  std::string text = "{\"bigmac_table\":1,\n" + header_text(schedule) + ",\n\"shares\":[";
  for (const auto& share : schedule.shares.list) {
    text += text.back() == '[' ? "\n" : ",\n";
    append_share(text, schedule, share);
  }
  text += "],\n\"rows\":[";
  auto overlapped = schedule.overlapped.begin();
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    text += rank == 0 ? "\n[" : ",\n[";
    for (int64_t at = schedule.row_begin[rank]; at < schedule.row_begin[rank + 1]; ++at) {
      text += text.back() == '[' ? "\n" : ",\n";
      bool overlaps = overlapped != schedule.overlapped.end() && *overlapped == at;
      if (overlaps) ++overlapped;
      append_operator(text, schedule.operators[size_t(at)], overlaps);
    }
    text += ']';
  }
  return text + "]}\n";
}

Schedule parse_json(std::string_view text, const std::string& file) {
  return Reader(file).read(text);
}

}  // namespace bigmac
