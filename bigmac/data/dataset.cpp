#include "bigmac/data/dataset.h"

#include <cstring>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac::data {
namespace {

// FNV-1a over the code points as little-endian 32-bit words, folded to 32 bits and scaled to [0, 1).
double split_position(const std::u32string& codepoints) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char32_t codepoint : codepoints)
    for (int shift = 0; shift < 32; shift += 8) {
      hash ^= (codepoint >> shift) & 0xFFu;
      hash *= 0x100000001b3u;
    }
  return static_cast<double>((hash ^ (hash >> 32)) & 0xFFFFFFFFu) / 4294967296.0;
}

}  // namespace

Dataset::Dataset(std::vector<Pair> pairs, torch::Tensor pictures)
    : pairs_(std::move(pairs)), pictures_(std::move(pictures)) {
  bool fits = pictures_.defined() && pictures_.scalar_type() == torch::kUInt8 && pictures_.dim() == 4 &&
              pictures_.size(1) == 3 && pictures_.size(2) == pictures_.size(3);
  if (!fits) throw InvalidInput("a dataset's pictures must be a uint8 tensor [n, 3, side, side]");
  if (pictures_.size(0) != size())
    throw InvalidInput(concat("a dataset has ", size(), " pairs but ", pictures_.size(0), " pictures"));
  for (int64_t i = 0; i < size(); ++i)
    (pairs_[static_cast<size_t>(i)].held_out ? held_out_ : training_).push_back(i);
}

torch::Tensor Dataset::picture(int64_t index) const {
  if (index < 0 || index >= size())
    throw InvalidInput(concat("picture ", index, " is outside the dataset 0..", size() - 1));
  return pictures_[index].to(torch::kFloat32).div_(127.5).sub_(1);
}

int64_t Dataset::index_of(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& pair : pairs_) {
    if (pair.name == name) return static_cast<int64_t>(names.size());
    names.push_back(pair.name);
  }
  auto nearest = nearest_name(name, names);
  throw InvalidInput(concat("no picture is called '", name, "'",
                            nearest.empty() ? "" : " (did you mean '" + nearest + "'?)"));
}

Dataset load_dataset(const DatasetConfig& config) {
  if (!(config.held_out >= 0 && config.held_out < 1))
    throw InvalidInput(concat("the held-out share is ", config.held_out, "; it must be in [0, 1)"));
  auto list = read_emoji_list(config.emoji_list);
  EmojiFont font(config.font);

  std::vector<Pair> pairs;
  std::vector<uint8_t> bytes;
  bool any_to_train = false;
  for (auto& emoji : list) {
    auto picture = font.render(emoji.codepoints, config.picture);
    if (!picture) continue;
    bool held_out = split_position(emoji.codepoints) < config.held_out;
    any_to_train |= !held_out;
    pairs.push_back({std::move(emoji.name), std::move(emoji.file_stem), held_out});
    bytes.insert(bytes.end(), picture->bytes.begin(), picture->bytes.end());
  }
  if (!any_to_train)
    throw InvalidInput(concat("of the ", list.size(), " emoji in ", config.emoji_list, ", the font ",
                              config.font, " draws ", pairs.size(), " and none of them is left to train on"));
  auto pictures =
      torch::empty({static_cast<int64_t>(pairs.size()), 3, config.picture, config.picture}, torch::kUInt8);
  std::memcpy(pictures.data_ptr(), bytes.data(), bytes.size());
  return Dataset(std::move(pairs), std::move(pictures));
}

Picture to_picture(const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.dim() != 3 || tensor.size(0) != 3 || tensor.numel() == 0)
    throw InvalidInput("a picture must be a tensor [3, H, W]");
  auto bytes = tensor.detach().to(torch::kCPU);
  if (bytes.scalar_type() != torch::kUInt8)
    bytes = bytes.to(torch::kFloat32).add(1).mul(127.5).round().clamp(0, 255).nan_to_num().to(torch::kUInt8);
  bytes = bytes.contiguous();
  Picture picture(tensor.size(1), tensor.size(2));
  std::memcpy(picture.bytes.data(), bytes.data_ptr(), picture.bytes.size());
  return picture;
}

}  // namespace bigmac::data
