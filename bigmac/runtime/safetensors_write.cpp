#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "bigmac/common/atomic_file.h"
#include "bigmac/common/error.h"
#include "bigmac/runtime/safetensors.h"
#include "bigmac/runtime/safetensors_dtypes.h"

namespace bigmac {
namespace {

using nlohmann::json;
using namespace safetensors;

constexpr size_t kPiece = size_t{16} << 20;

struct Stored {
  std::string name;
  const Dtype* dtype;
  torch::Tensor tensor;  // not yet on the CPU, not yet contiguous
  uint64_t bytes() const {
    return static_cast<uint64_t>(tensor.numel()) * c10::elementSize(tensor.scalar_type());
  }
};

// Tensors with large elements come first, so that each begins at a multiple of its element's size.
std::vector<Stored> stored_order(const std::string& path,
                                 const std::map<std::string, torch::Tensor>& tensors) {
  std::vector<Stored> stored;
  for (const auto& [name, tensor] : tensors) {
    auto refuse = [&, &key = name](const std::string& what) {
      return InvalidInput(concat("cannot write tensor '", key, "' to ", path, ": ", what));
    };
    if (name == kMetadata) throw refuse("the format keeps that name for the metadata");
    if (!tensor.defined()) throw refuse("it is undefined");
    if (tensor.layout() != torch::kStrided) throw refuse("it is not dense");
    const Dtype* dtype = find_dtype(tensor.scalar_type());
    if (!dtype)
      throw refuse(
          concat("its dtype ", c10::toString(tensor.scalar_type()), " is not one of ", known_dtypes()));
    stored.push_back({name, dtype, tensor});
  }
  std::stable_sort(stored.begin(), stored.end(), [](const Stored& a, const Stored& b) {
    return c10::elementSize(a.dtype->type) > c10::elementSize(b.dtype->type);
  });
  return stored;
}

std::string header_text(const std::string& path, const std::vector<Stored>& stored,
                        const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const auto& item : stored) {
    uint64_t end = offset + item.bytes();
    header[item.name] = {
        {"dtype", item.dtype->name}, {"shape", item.tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& error) {
    throw InvalidInput(
        concat("cannot write ", path, ": a name or a metadata text is not UTF-8 (", error.what(), ")"));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMostHeaderBytes)
    throw InvalidInput(concat("cannot write ", path, ": its header would have ", text.size(),
                              " bytes, more than ", kMostHeaderBytes));
  return text;
}

}  // namespace

void save_safetensors(const std::string& path, const std::map<std::string, torch::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata,
                      const std::function<void()>& between) {
  auto stored = stored_order(path, tensors);
  std::string header = header_text(path, stored, metadata);
  AtomicFile file(path);
  uint64_t length = header.size();
  file.write(&length, sizeof length);
  file.write(header.data(), length);
  for (const auto& item : stored) {
    auto tensor = item.tensor.detach().to(torch::kCPU).resolve_conj().resolve_neg().contiguous();
    const auto* bytes = static_cast<const std::byte*>(tensor.data_ptr());
    for (uint64_t written = 0; written < item.bytes(); written += kPiece) {
      if (between) between();
      file.write(bytes + written, std::min<uint64_t>(kPiece, item.bytes() - written));
    }
  }
  file.publish();
}

void check_storable(const std::string& path, const std::map<std::string, torch::Tensor>& tensors,
                    const std::map<std::string, std::string>& metadata) {
  header_text(path, stored_order(path, tensors), metadata);
}

std::string safetensors_dtype(torch::ScalarType type) {
  const Dtype* dtype = find_dtype(type);
  if (!dtype)
    throw InvalidInput(concat("safetensors files hold no ", c10::toString(type), ", only ", known_dtypes()));
  return dtype->name;
}

}  // namespace bigmac
