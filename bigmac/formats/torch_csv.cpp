#include "bigmac/formats/torch_csv.h"

#include <algorithm>
#include <charconv>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac {
namespace {

constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::string_view kOneIdleCell = "\"\"";

struct Kind {
  TorchKind kind;
  std::string_view current, old;
  bool has_microbatch;

  std::string_view name(TorchDialect dialect) const {
    return dialect == TorchDialect::current ? current : old;
  }
};

constexpr Kind kKinds[] = {
    {TorchKind::forward, "F", "F", true},
    {TorchKind::input_gradient, "I", "B", true},
    {TorchKind::weight_gradient, "W", "W", true},
    {TorchKind::full_backward, "B", "BW", true},
    {TorchKind::send_forward, "SEND_F", "SEND_F", true},
    {TorchKind::receive_forward, "RECV_F", "RECV_F", true},
    {TorchKind::send_backward, "SEND_B", "SEND_B", true},
    {TorchKind::receive_backward, "RECV_B", "RECV_B", true},
    {TorchKind::unshard, "UNSHARD", "UNSHARD", false},
    {TorchKind::reshard, "RESHARD", "RESHARD", false},
    {TorchKind::reduce_gradient, "REDUCE_GRAD", "REDUCE_GRAD", false},
};

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

size_t count_digits(std::string_view text) {
  return size_t(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

bool is_forward_and_backward(TorchKind one, TorchKind other) {
  auto backward = one == TorchKind::forward ? other : one;
  return (one == TorchKind::forward) != (other == TorchKind::forward) &&
         (backward == TorchKind::full_backward || backward == TorchKind::input_gradient);
}

// The cell around `offset`, as "1:2 '0BW0'".
std::string cell_at(std::string_view text, size_t offset) {
  auto before = text.substr(0, offset);
  auto line = before.substr(before.rfind('\n') + 1);
  auto begin = before.size() - line.size() + line.rfind(',') + 1;
  auto end = std::min(text.find_first_of(",\r\n", offset), text.size());
  return concat(std::count(before.begin(), before.end(), '\n') + 1, ":",
                std::count(line.begin(), line.end(), ',') + 1, " ",
                in_quotes(text.substr(begin, end - begin)));
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  TorchTable read() {
    check_size();
    first_bw_ = text_.find("BW");
    table_.dialect = find_dialect();
    for (size_t at = 0; at < text_.size();) {
      auto end = text_.find('\n', at);
      table_.final_line_end = end != text_.npos;
      auto line = text_.substr(at, end - at);
      bool crlf = table_.final_line_end && line.ends_with('\r');
      if (crlf) line.remove_suffix(1);
      if (at == 0) table_.line_end = crlf ? LineEnd::crlf : LineEnd::lf;
      read_row(line);
      at = table_.final_line_end ? end + 1 : text_.size();
    }
    return std::move(table_);
  }

 private:
  void check_size() const {
    auto lines = std::count(text_.begin(), text_.end(), '\n') + (text_.ends_with('\n') ? 0 : 1);
    auto cells = std::count(text_.begin(), text_.end(), ',') + lines;
    auto head = concat("[torch csv] ", file_, ": ");
    if (text_.empty()) throw InvalidInput(head + "is empty; right would be one row a rank");
    if (lines > kMostTorchRows)
      throw InvalidInput(concat(head, "holds ", lines, " rows, the most is ", kMostTorchRows,
                                "; right would be one row a rank"));
    if (cells > kMostTorchCells)
      throw InvalidInput(concat(head, "holds ", cells, " cells, the most is ", kMostTorchCells));
  }

  // No other action has a W or an I in its name.
  TorchDialect find_dialect() const {
    auto holds = [&](char letter) { return text_.find(letter) != text_.npos; };
    bool old = first_bw_ != text_.npos || (holds('W') && !holds('I'));
    return old ? TorchDialect::old : TorchDialect::current;
  }

  void read_row(std::string_view line) {
    auto& row = table_.rows.emplace_back();
    if (line.empty()) return;
    if (line == kOneIdleCell) return void(row.emplace_back());
    row.reserve(size_t(std::count(line.begin(), line.end(), ',')) + 1);
    for (size_t at = 0; at <= line.size();) {
      auto end = std::min(line.find(',', at), line.size());
      cell_ = line.substr(at, end - at);
      row.push_back(read_cell());
      at = end + 1;
    }
  }

  TorchCell read_cell() const {
    if (cell_.empty()) return {};
    if (cell_.front() == '(') return read_overlap();
    if (cell_.front() == '"') fail("is quoted; right would be without quotes");
    return {read_action(cell_), {}};
  }

  TorchCell read_overlap() const {
    auto close = cell_.find(')');
    if (close == cell_.npos || cell_.substr(close + 1) != kOverlap)
      fail("does not end in ')OVERLAP_F_B'; right would be as in (0F7;7B3)OVERLAP_F_B");
    auto parts = cell_.substr(1, close - 1);
    auto cut = parts.find(';');
    if (cut == parts.npos || parts.find(';', cut + 1) != parts.npos)
      fail(concat("overlaps ", std::count(parts.begin(), parts.end(), ';') + (parts.empty() ? 0 : 1),
                  " actions; right would be one forward and one backward, as in (0F7;7B3)OVERLAP_F_B"));
    TorchCell cell{read_action(parts.substr(0, cut)), read_action(parts.substr(cut + 1))};
    if (!is_forward_and_backward(cell.first.kind, cell.second.kind))
      fail(
          "overlaps other actions than one forward and one backward; right would be as in "
          "(0F7;7B3)OVERLAP_F_B");
    return cell;
  }

  TorchAction read_action(std::string_view text) const {
    auto digits = count_digits(text);
    auto rest = text.substr(digits);
    auto letters = size_t(std::find_if(rest.begin(), rest.end(), is_digit) - rest.begin());
    auto name = rest.substr(0, letters);
    auto microbatch = rest.substr(letters);
    if (digits == 0)
      fail(concat(part(text), "does not begin with a stage; right would be stage, action and microbatch, as ",
                  "in 2F0"));
    TorchAction action;
    action.stage = uint16_t(read_number("stage", text.substr(0, digits), UINT16_MAX));
    if (name.empty())
      fail(concat(part(text), "lacks an action; right would be stage, action and microbatch, as in 2F0"));
    const Kind& kind = find_kind(name);
    action.kind = kind.kind;
    if (!kind.has_microbatch) {
      if (!microbatch.empty())
        fail(concat(part(text), "has ", in_quotes(microbatch), " behind ", name,
                    ", which has no microbatch; right would be ", action.stage, name));
      return action;
    }
    auto length = count_digits(microbatch);
    if (length == 0)
      fail(concat(part(text), "lacks the microbatch of ", name, "; right would be as in ", action.stage, name,
                  "0"));
    action.microbatch = uint32_t(read_number("microbatch", microbatch.substr(0, length), UINT32_MAX));
    if (length != microbatch.size())
      fail(concat(part(text), "goes on with ", in_quotes(microbatch.substr(length)), "; right would be ",
                  action.stage, name, action.microbatch));
    return action;
  }

  uint64_t read_number(const char* what, std::string_view digits, uint64_t most) const {
    uint64_t number = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || number > most)
      fail(concat("has ", what, " ", in_quotes(digits), ", the largest is ", most));
    if (digits.size() > 1 && digits.front() == '0')
      fail(concat("has ", what, " ", in_quotes(digits), " with a leading zero; right would be ", number));
    return number;
  }

  const Kind& find_kind(std::string_view name) const {
    for (const Kind& kind : kKinds)
      if (kind.name(table_.dialect) == name) return kind;
    if (table_.dialect == TorchDialect::old && name == "I")
      fail(concat("is an input gradient in the current dialect, but ", cell_at(text_, first_bw_),
                  " is a full backward in the old one; right would be I and B, or B and BW, in all cells"));
    std::vector<std::string> known;
    for (const Kind& kind : kKinds) known.emplace_back(kind.name(table_.dialect));
    fail(unknown_name("action", escaped(name), known));
  }

  // Which part of the cell an error is about, where the cell is an overlap.
  std::string part(std::string_view text) const {
    return text.size() == cell_.size() ? std::string() : in_quotes(text) + " ";
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidInput(concat("[torch csv] ", file_, ":", table_.rows.size(), ":",
                              table_.rows.back().size() + 1, ": ", in_quotes(cell_), " ", what));
  }

  std::string_view text_;
  const std::string& file_;
  size_t first_bw_ = 0;
  TorchTable table_;
  std::string_view cell_;
};

class Writer {
 public:
  explicit Writer(TorchDialect dialect) : dialect_(dialect) {}

  void write(const TorchCell& cell) {
    if (cell.idle()) return;
    if (!cell.overlaps()) return write(cell.first);
    text += '(';
    write(cell.first);
    text += ';';
    write(cell.second);
    text += ')';
    text += kOverlap;
  }

  void write(const TorchAction& action) {
    const auto& kind = kKinds[size_t(action.kind) - 1];
    write(action.stage);
    text += kind.name(dialect_);
    if (kind.has_microbatch) write(action.microbatch);
  }

  std::string text;

 private:
  void write(uint32_t number) {
    char digits[10];
    text.append(digits, std::to_chars(digits, std::end(digits), number).ptr);
  }

  TorchDialect dialect_;
};

void check_overlaps(const TorchTable& table) {
  for (size_t r = 0; r < table.rows.size(); ++r)
    for (size_t c = 0; c < table.rows[r].size(); ++c) {
      const TorchCell& cell = table.rows[r][c];
      if (cell.overlaps() && !is_forward_and_backward(cell.first.kind, cell.second.kind))
        throw InvalidInput(
            concat("[torch csv] row ", r + 1, " cell ", c + 1, " must overlap one forward and one backward"));
    }
}

void check_dialect(const TorchTable& table, TorchDialect dialect) {
  bool full = false, input = false, weight = false;
  for (const auto& row : table.rows)
    for (const auto& cell : row)
      for (auto kind : {cell.first.kind, cell.second.kind}) {
        full = full || kind == TorchKind::full_backward;
        input = input || kind == TorchKind::input_gradient;
        weight = weight || kind == TorchKind::weight_gradient;
      }
  if (dialect == TorchDialect::old && input && !full && !weight)
    throw InvalidInput(
        "[torch csv] the old dialect cannot hold input gradients with neither full backwards nor weight "
        "gradients: its B would be read as a full backward; right would be the current dialect");
  if (dialect == TorchDialect::current && full && weight && !input)
    throw InvalidInput(
        "[torch csv] the current dialect cannot hold full backwards and weight gradients without input "
        "gradients: its B would be read as an input gradient; right would be the old dialect");
}

}  // namespace

TorchTable parse_torch_csv(std::string_view text, const std::string& file) {
  return Reader(text, file).read();
}

std::string to_text(const TorchTable& table, TorchDialect dialect) {
  check_overlaps(table);
  check_dialect(table, dialect);
  Writer writer(dialect);
  for (const auto& row : table.rows) {
    if (row.size() == 1 && row[0].idle()) writer.text += kOneIdleCell;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) writer.text += ',';
      writer.write(row[c]);
    }
    bool last = &row == &table.rows.back();
    if (!last || table.final_line_end || row.empty())
      writer.text += table.line_end == LineEnd::crlf ? "\r\n" : "\n";
  }
  return std::move(writer.text);
}

std::string to_text(const TorchAction& action, TorchDialect dialect) {
  Writer writer(dialect);
  if (action.kind != TorchKind::none) writer.write(action);
  return std::move(writer.text);
}

}  // namespace bigmac
