#include "bigmac/simulate/links.h"

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/schedule/check.h"
#include "bigmac/simulate/exchange.h"

namespace bigmac {

std::string_view name(Exchange exchange) {
  switch (exchange) {
    case Exchange::overlapped:
      return "overlapped";
    case Exchange::in_order:
      return "in-order";
    case Exchange::batched:
      return "batched";
  }
  return "";
}

Exchange exchange_from_name(std::string_view text) {
  for (auto exchange : {Exchange::overlapped, Exchange::in_order, Exchange::batched})
    if (text == name(exchange)) return exchange;
  throw InvalidInput(unknown_name("exchange", text, {"overlapped", "in-order", "batched"}));
}

Timeline simulate(const Schedule& schedule, const Costs& costs, const Links& links) {
  ExchangeRun run(schedule, costs, links);
  if (!run.run()) throw InvalidInput("[simulate] " + check(schedule).back());
  return run.take();
}

}  // namespace bigmac
