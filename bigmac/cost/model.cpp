#include "bigmac/cost/model.h"

#include <algorithm>

namespace bigmac::cost {
namespace {

double rows_of_one(Rows rows, const Sequences& sequences) {
  switch (rows) {
    case Rows::tokens:
      return sequences.tokens;
    case Rows::text:
      return sequences.text;
    case Rows::joint:
      return sequences.tokens + sequences.text;
    case Rows::merged:
      return sequences.tokens / double(sequences.merge);
    case Rows::samples:
      return 1;
  }
  return 0;
}

}  // namespace

double rows_of(Rows rows, const Sequences& sequences) {
  return sequences.count * rows_of_one(rows, sequences);
}

double keys_of(const Part& attention, const Sequences& sequences) {
  double keys = rows_of_one(attention.rows, sequences);
  if (attention.window > 0) keys = std::min(keys, double(attention.window));
  return attention.causal ? (keys + 1) / 2 : keys;
}

int64_t passes_of(const Part& part) {
  return part.per_row * (part.experts > 0 ? part.top_k : 1);
}

}  // namespace bigmac::cost
