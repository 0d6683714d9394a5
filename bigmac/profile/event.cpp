#include "bigmac/profile/event.h"

#include <array>

namespace bigmac {

Spent spent_of(Activity activity) {
  return activity == Activity::wait ? Spent::wait : Spent::transfer;
}

std::string_view name(Activity activity) {
  static constexpr std::array<std::string_view, 9> kNames = {"none",     "compute", "send", "receive", "wait",
                                                             "exchange", "item",    "data", "update"};
  return size_t(activity) < kNames.size() ? kNames[size_t(activity)] : "unknown";
}

}  // namespace bigmac
