#include "bigmac/formats/read_table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bigmac/common/error.h"
#include "bigmac/formats/in_quotes.h"
#include "bigmac/formats/table_csv.h"
#include "bigmac/formats/table_json.h"
#include "bigmac/formats/torch_table.h"

namespace bigmac {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class File {
 public:
  explicit File(const std::string& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) fail(std::strerror(errno));
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::string read_all() const {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) fail(std::strerror(errno));
    if (S_ISDIR(status.st_mode)) fail("it is a folder; right would be a file");
    if (status.st_size > kMostTableBytes) fail_too_large();
    std::string text(size_t(status.st_size) + kBlock, '\0');
    size_t length = 0;
    while (true) {
      if (length == text.size()) text.resize(text.size() * 2);
      ssize_t count = ::read(descriptor_, text.data() + length, text.size() - length);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(std::strerror(errno));
      if (count == 0) break;
      length += size_t(count);
      if (int64_t(length) > kMostTableBytes) fail_too_large();
    }
    text.resize(length);
    if (text.empty()) fail("it is empty; right would be a table as JSON or CSV");
    return text;
  }

 private:
  static constexpr size_t kBlock = 1 << 16;

  [[noreturn]] void fail(const std::string& reason) const {
    throw InvalidInput(concat("cannot read '", path_, "': ", reason));
  }
  [[noreturn]] void fail_too_large() const { fail(concat("it has more than ", kMostTableBytes, " bytes")); }

  const std::string& path_;
  int descriptor_;
};

}  // namespace

std::string_view name(TableFormat format) {
  if (format == TableFormat::json) return "bigmac JSON";
  return format == TableFormat::csv ? "bigmac CSV" : "torch CSV";
}

TableFile read_table(const std::string& path) {
  return parse_table(File(path).read_all(), path);
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
