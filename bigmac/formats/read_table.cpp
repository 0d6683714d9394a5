#include "bigmac/formats/read_table.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/common/read_file.h"
#include "bigmac/formats/in_quotes.h"
#include "bigmac/formats/table_csv.h"
#include "bigmac/formats/table_json.h"
#include "bigmac/formats/torch_table.h"

namespace bigmac {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

std::string_view name(TableFormat format) {
  if (format == TableFormat::json) return "bigmac JSON";
  return format == TableFormat::csv ? "bigmac CSV" : "torch CSV";
}

TableFile read_table(const std::string& path) {
  auto text = read_file(path, kMostTableBytes);
  if (text.empty())
    throw InvalidInput(
        concat("cannot read '", path, "': it is empty; right would be a table as JSON or CSV"));
  return parse_table(text, path);
}

TableFile parse_table(std::string_view text, const std::string& file) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  auto begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  char first = begin < text.size() ? text[begin] : '\0';
  if (first == '{') return {TableFormat::json, parse_json(text, file), {}};
  if (first == '#' || text.starts_with("rank,")) return {TableFormat::csv, parse_csv(text, file), {}};
  if ((first >= '0' && first <= '9') || first == '(' || first == ',' || first == '"') {
    auto table = parse_torch_csv(text, file);
    auto schedule = to_schedule(table, file);
    return {TableFormat::torch, std::move(schedule), std::move(table)};
  }
  throw InvalidInput(
      concat("[table] ", file, ": begins with ", in_quotes(text.substr(begin, 20)),
             "; right would be bigmac's JSON ({\"bigmac_table\":1,...), its CSV (# bigmac table 1) "
             "or a schedule of torch (0F0,0F1,...)"));
}

}  // namespace bigmac
