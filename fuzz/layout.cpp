#include "bigmac/formats/layout.h"

#include <cstdlib>

#include "bigmac/common/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bigmac;
  Layout layout;
  try {
    layout = parse_layout({reinterpret_cast<const char*>(data), size});
  } catch (const InvalidInput&) {
    return 0;
  }
  auto written = to_text(layout);
  if (parse_layout(written) != layout) std::abort();
  check_layout(layout, layout.layers(), layout.mtp(), int64_t(layout.stages.size()));
  return 0;
}
