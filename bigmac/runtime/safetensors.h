#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace bigmac {

// The safetensors format: dtypes F64 F32 F16 BF16 I64 I32 U8 BOOL, any shape.

struct Safetensors {
  std::map<std::string, torch::Tensor> tensors;  // on the CPU, contiguous
  std::map<std::string, std::string> metadata;
};

// Writes tensors from any device. The file is written beside `path`, brought to the disk and renamed, so that
// `path` holds either its old contents or all of the new ones. Throws InvalidInput for a tensor that the
// format cannot hold and Failure, naming the path and the reason, where writing fails. `between`, if given,
// is called between pieces of at most 16 MiB; what it throws ends the writing.
void save_safetensors(const std::string& path, const std::map<std::string, torch::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {},
                      const std::function<void()>& between = {});

// Throws the InvalidInput that save_safetensors would throw for them; writes nothing.
void check_storable(const std::string& path, const std::map<std::string, torch::Tensor>& tensors,
                    const std::map<std::string, std::string>& metadata = {});

// "BF16"; throws InvalidInput for a dtype that the format has not.
std::string safetensors_dtype(torch::ScalarType type);

// Throws InvalidInput naming the file and what is wrong where it is missing, truncated or malformed.
Safetensors load_safetensors(const std::string& path);

// A file whose header has been read and checked against its length; tensors are read one at a time.
class SafetensorsFile {
 public:
  struct Entry {
    torch::ScalarType type;
    std::vector<int64_t> shape;
    uint64_t begin, end;  // bytes of the file
  };

  // Throws as load_safetensors.
  explicit SafetensorsFile(const std::string& path);

  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // On the CPU, contiguous. Throws InvalidInput for a name that is not there (with the nearest) and for data
  // that the dtype cannot hold, Failure where reading fails.
  torch::Tensor read(const std::string& name) const;

 private:
  class Descriptor;

  std::string path_;
  std::shared_ptr<const Descriptor> file_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace bigmac
