#pragma once

#include <string>
#include <vector>

#include "bigmac/schedule/table.h"

namespace bigmac {

// Short names for the operators of one table, for pictures.
//
//   F0.3          backbone: phase, chunk, microbatch
//   EF3, EB3, G3  encoder, generator: all the items that microbatch 3 has
//   EF3.1         one item of several: microbatch and number within it
//   EFu2          a share with items of several microbatches, of unit 2
//   1EF3          of the second encoder, where there are several
class Labels {
 public:
  explicit Labels(const Schedule& schedule);  // must outlive it

  std::string operator()(const Operator& op) const;
  // The part behind the letters, without the chunk: "3", "3.1", "u2".
  std::string number(const Operator& op) const;

 private:
  const Schedule& schedule_;
  std::vector<std::string> prefixes_;               // by module
  std::vector<std::vector<uint32_t>> first_items_;  // by module and microbatch, one more
};

}  // namespace bigmac
