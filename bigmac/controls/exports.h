#pragma once

#include <cstddef>
#include <string>

// What the page calls in WebAssembly (view/page/engine.js): begin, write the request at data, run, read text
// or error at data, end.
struct BigmacExchange {
  std::string text;
};

extern "C" {
BigmacExchange* bigmac_begin(size_t size);  // of the request
char* bigmac_data(BigmacExchange* exchange);
size_t bigmac_size(const BigmacExchange* exchange);
int bigmac_run(BigmacExchange* exchange);  // 1: the answer (answer.h), 0: what is wrong, in words
void bigmac_end(BigmacExchange* exchange);
}
