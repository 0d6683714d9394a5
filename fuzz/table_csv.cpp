#include "bigmac/formats/table_csv.h"

#include "bigmac/formats/table_json.h"
#include "fuzz/table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bigmac;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  return fuzz_table(text, parse_csv, [](const Schedule& schedule) {
    if (parse_json(to_json(schedule), "fuzz") != schedule) std::abort();
    return to_csv(schedule);
  });
}
