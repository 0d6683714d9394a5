#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bigmac/formats/torch_csv.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

enum class TableFormat : uint8_t { json, csv, torch };

// "bigmac JSON", "bigmac CSV", "torch CSV"
std::string_view name(TableFormat format);

struct TableFile {
  TableFormat format = TableFormat::json;
  Schedule schedule;
  std::optional<TorchTable> torch;  // all of it, where the file is torch's
};

// The largest file that is read.
inline constexpr int64_t kMostTableBytes = int64_t{1} << 30;

// A table in any of the formats, recognised by how it begins: '{' is our JSON, '#' our CSV, a digit, '(',
// ',' or '"' torch's CSV. Throws InvalidInput for a file that is missing, no file, unreadable, empty or
// larger than that, for one that begins otherwise, and as its reader does (table_json.h, table_csv.h,
// torch_csv.h, torch_table.h). Pipes can be read as well.
TableFile read_table(const std::string& path);

// The same for text that has been read; `file` is named in errors.
TableFile parse_table(std::string_view text, const std::string& file);

}  // namespace bigmac
