#include "bigmac/controls/exports.h"

#include <new>

#include "bigmac/controls/answer.h"

BigmacExchange* bigmac_begin(size_t size) {
  return new BigmacExchange{std::string(size, '\0')};
}

char* bigmac_data(BigmacExchange* exchange) {
  return exchange->text.data();
}

size_t bigmac_size(const BigmacExchange* exchange) {
  return exchange->text.size();
}

int bigmac_run(BigmacExchange* exchange) {
  try {
    exchange->text = bigmac::answer(exchange->text);
    return 1;
  } catch (const std::bad_alloc&) {
    exchange->text = "not enough memory for a step of this size";
  } catch (const std::exception& error) {
    exchange->text = error.what();
  }
  return 0;
}

void bigmac_end(BigmacExchange* exchange) {
  delete exchange;
}
