#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bigmac {

// Megatron Core's pipeline layout strings (--pipeline-model-parallel-layout): what each pipeline stage holds.
//   E embedding   t layer   m MTP layer   L loss   | cut between stages   , no meaning, between items
//   x*n           the letter or cut x, n times         t*11   |*2
//   (..)*n        the group n times, not nested        (tt|)*29
// "Et*3|(tt|)*29,m|L" has 32 stages, 61 layers and an MTP layer.
// On P ranks, stage k is chunk k div P of rank k mod P.

struct LayoutStage {
  bool embedding = false;
  int64_t layers = 0;  // behind the embedding
  int64_t mtp = 0;     // behind the layers
  bool loss = false;   // behind all

  bool operator==(const LayoutStage&) const = default;
};

struct Layout {
  std::vector<LayoutStage> stages;  // may hold empty ones

  int64_t layers() const;
  int64_t mtp() const;
  bool operator==(const Layout&) const = default;
};

// The most letters and cuts of a layout once its repeats are written out.
inline constexpr int64_t kMostLayoutItems = 100'000;

// Throws InvalidInput as "[layout] position 7 ('x'): ..." (counted from 1) for anything but the above, a
// repeat of 0 or beyond kMostLayoutItems, and a layout that does not begin with its only E, does not end with
// its only L, or has a layer behind an MTP layer.
Layout parse_layout(std::string_view text);

// That the layout fits a model of `layers` layers and, where given, `mtp` MTP layers, on `ranks` pipeline
// ranks. Throws InvalidInput naming both numbers: "[layout] holds 59 layers, the model has 61".
void check_layout(const Layout& layout, int64_t layers, std::optional<int64_t> mtp = {},
                  std::optional<int64_t> ranks = {});

// "Et*3|(tt|)*29,m|L": three and more of a letter as a repeat, the same stages in a row as a group where that
// is shorter. For a layout that parse_layout could have returned, reads back as the same.
std::string to_text(const Layout& layout);

}  // namespace bigmac
