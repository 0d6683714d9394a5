#pragma once

#include <span>
#include <vector>

#include "bigmac/schedule/dependencies.h"

namespace bigmac {

// Something that one operator makes and another takes: all that a stage hands to its neighbour, or the values
// or the gradients of one item. Its key is its own in the step.
struct Part {
  int64_t key;
  int rank;  // where it comes from, or goes to
};

// What every operator takes and gives, part by part: the dependencies between operators, drawn out to items.
// A microbatch's items come in order of module and number, those of frozen encoders, to which no gradients go
// back, behind all others; a share's in its own order. An operator sends a
// rank all parts for it as one message, in this order.
class Routes {
 public:
  explicit Routes(const Schedule& schedule);

  std::vector<Part> inputs(int rank, const Operator& op) const;
  std::vector<Part> outputs(int rank, const Operator& op) const;
  bool is_item(const Part& part) const { return part.key < first_edge_; }

  const Dependencies& dependencies() const { return dependencies_; }

  struct ItemPlace {
    int32_t module;
    int32_t microbatch;  // its position in the schedule
    int32_t number;      // within the microbatch
    int32_t share = -1;  // -1 where the table leaves its module out
  };
  // Items are numbered over all modules.
  const ItemPlace& place(int32_t item) const { return places_[item]; }
  std::span<const int32_t> of_share(int64_t share) const { return of_share_[share]; }
  std::span<const int32_t> encoded(int64_t m) const { return encoded_[m]; }      // a microbatch's
  std::span<const int32_t> generated(int64_t m) const { return generated_[m]; }  // likewise

 private:
  std::vector<Part> parts(std::span<const int32_t> items, bool gradients, int rank) const;
  std::vector<Part> parts_by_share(std::span<const int32_t> items, bool gradients) const;
  std::span<const int32_t> returned(int64_t m) const;  // of the encoded, those that gradients go back to

  Dependencies dependencies_;
  std::vector<ItemPlace> places_;
  std::vector<std::vector<int32_t>> of_share_, encoded_, generated_;
  int64_t first_edge_;
};

}  // namespace bigmac
