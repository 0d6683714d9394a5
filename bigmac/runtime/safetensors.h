#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace bigmac {

struct Safetensors {
  std::map<std::string, torch::Tensor> tensors;  // on the CPU, contiguous
  std::map<std::string, std::string> metadata;
};

// Writes the safetensors format: dtypes F64 F32 F16 BF16 I64 I32 U8 BOOL, any shape, from any device.
// The file is written beside `path`, brought to the disk and renamed, so that `path` holds either its
// old contents or all of the new ones. Throws InvalidInput for a tensor that the format cannot hold and
// Failure, naming the path and the reason, where writing fails.
void save_safetensors(const std::string& path, const std::map<std::string, torch::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

// Throws InvalidInput naming the file and what is wrong where it is missing, truncated or malformed.
Safetensors load_safetensors(const std::string& path);

}  // namespace bigmac
