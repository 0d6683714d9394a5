#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bigmac/data/emoji_list.h"
#include "bigmac/data/glyphs.h"
#include "bigmac/data/picture.h"

namespace bigmac::data {

struct DatasetConfig {
  std::string font = kEmojiFontPath;
  std::string emoji_list = kEmojiListPath;
  int64_t picture = 32;    // side in pixels
  double held_out = 0.05;  // share of the pairs kept from training
};

struct Pair {
  std::string name;  // the caption, UTF-8
  std::string file_stem;
  bool held_out = false;
};

// Pictures with their captions, in the order of the list.
class Dataset {
 public:
  // `pictures`: [n, 3, side, side] uint8. Throws InvalidInput where shapes or counts disagree.
  Dataset(std::vector<Pair> pairs, torch::Tensor pictures);

  const std::vector<Pair>& pairs() const { return pairs_; }
  const torch::Tensor& pictures() const { return pictures_; }
  int64_t size() const { return static_cast<int64_t>(pairs_.size()); }
  int64_t side() const { return pictures_.size(2); }
  const std::vector<int64_t>& training() const { return training_; }  // ascending indices
  const std::vector<int64_t>& held_out() const { return held_out_; }

  // [3, side, side] float in [-1, 1]. Throws InvalidInput for an index outside the dataset.
  torch::Tensor picture(int64_t index) const;

  // Throws InvalidInput, with the nearest name, where none is called so.
  int64_t index_of(std::string_view name) const;

 private:
  std::vector<Pair> pairs_;
  torch::Tensor pictures_;
  std::vector<int64_t> training_, held_out_;
};

// Whether a pair is held out depends only on its code points and the share, and a larger share only
// adds pairs. Emoji that the font does not draw as one glyph are left out. Takes about a second.
// Throws InvalidInput for a missing or unfit font or list, a side outside 1..1024, a share outside
// [0, 1), or where nothing is left to train on.
Dataset load_dataset(const DatasetConfig& config = {});

// From [3, H, W], uint8 or float in [-1, 1] (clamped). Throws InvalidInput for another shape.
Picture to_picture(const torch::Tensor& tensor);

}  // namespace bigmac::data
