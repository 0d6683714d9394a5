#include "bigmac/formats/table_json.h"

#include "fuzz/table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return bigmac::fuzz_table({reinterpret_cast<const char*>(data), size}, bigmac::parse_json,
                            [](const bigmac::Schedule& schedule) { return bigmac::to_json(schedule); });
}
