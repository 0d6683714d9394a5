#include "bigmac/profile/event.h"

#include <array>

namespace bigmac {

std::string_view name(Activity activity) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "none", "compute", "send", "receive", "wait", "order", "exchange", "item", "data", "update"};
  return size_t(activity) < kNames.size() ? kNames[size_t(activity)] : "unknown";
}

}  // namespace bigmac
