#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bigmac::train {

// A tensor of a checkpoint, whole, in one file.
struct StoredTensor {
  std::string file;   // in the checkpoint's folder
  std::string dtype;  // as safetensors calls it: F32, BF16, ...
  std::vector<int64_t> shape;
  uint32_t checksum = 0;  // CRC-32 of its bytes, as zlib reckons it
  bool operator==(const StoredTensor&) const = default;
};

// What one rank says about its file once that is on the disk.
struct RankRecord {
  int64_t step = 0;
  int rank = 0, ranks = 1;
  uint64_t bytes = 0;                           // of its tensors
  std::map<std::string, StoredTensor> tensors;  // by global name
};

// model.safetensors.index.json: weight_map and metadata.total_size as Hugging Face has them, and beside them
//
//   "bigmac": {"step": 120, "ranks": 4, "facts": {"seed": "1", ...}, "checksum": 1234,
//              "tensors": {"backbone.norm.weight": {"dtype": "F32", "shape": [128], "checksum": 1234}, ...}}
//
// The outer checksum is that of the whole index as compact JSON with sorted keys, without it.
struct CheckpointIndex {
  int64_t step = 0;
  int ranks = 1;
  uint64_t bytes = 0;
  std::map<std::string, std::string> facts;
  std::map<std::string, StoredTensor> tensors;
};

uint32_t crc32_of(const void* data, size_t bytes, uint32_t before = 0);

// Throws InvalidInput where a text is not UTF-8.
std::string to_json(const RankRecord& record);
std::string to_json(const CheckpointIndex& index);

// Throw InvalidInput naming the file and what is wrong with it.
RankRecord read_rank_record(const std::string& path);
CheckpointIndex read_checkpoint_index(const std::string& path);

// "F32 [128, 4]"
std::string dtype_and_shape(const std::string& dtype, const std::vector<int64_t>& shape);

}  // namespace bigmac::train
