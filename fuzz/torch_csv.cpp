#include "bigmac/formats/torch_csv.h"

#include <cstdlib>

#include "bigmac/common/error.h"
#include "bigmac/formats/torch_table.h"
#include "bigmac/schedule/check.h"

namespace bigmac {
namespace {

void check_table(const TorchTable& table) {
  Schedule schedule;
  try {
    check_communication(table, Sends::buffered);
    check_communication(table, Sends::blocking);
    schedule = to_schedule(table, "fuzz.csv");
  } catch (const InvalidInput&) {
    return;
  }
  bool fits = check(schedule).empty();
  check(schedule, Sends::blocking);
  // What is not complete may lack stages, or have operators that no step has.
  Schedule again;
  try {
    again = to_schedule(to_torch(schedule, table.dialect), "fuzz.csv");
  } catch (const InvalidInput&) {
    if (fits) std::abort();
    return;
  }
  if (again.operators.size() != schedule.operators.size()) std::abort();
  if (fits && again != schedule) std::abort();
}

}  // namespace
}  // namespace bigmac

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bigmac;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  TorchTable table;
  try {
    table = parse_torch_csv(text, "fuzz.csv");
  } catch (const InvalidInput&) {
    return 0;
  }
  check_table(table);
  auto written = to_text(table, table.dialect);
  if (parse_torch_csv(written, "fuzz.csv") != table) std::abort();
  if (written != text && text.find('\r') == text.npos) std::abort();
  auto other = table.dialect == TorchDialect::old ? TorchDialect::current : TorchDialect::old;
  try {
    written = to_text(table, other);
  } catch (const InvalidInput&) {
    return 0;
  }
  if (parse_torch_csv(written, "fuzz.csv").rows != table.rows) std::abort();
  return 0;
}
