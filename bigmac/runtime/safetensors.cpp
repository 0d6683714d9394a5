#include "bigmac/runtime/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "bigmac/common/atomic_file.h"
#include "bigmac/common/error.h"

namespace bigmac {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the data of a safetensors file is little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostHeaderBytes = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

struct Dtype {
  const char* name;
  torch::ScalarType type;
};
constexpr Dtype kDtypes[] = {
    {"F64", torch::kFloat64}, {"F32", torch::kFloat32}, {"F16", torch::kFloat16}, {"BF16", torch::kBFloat16},
    {"I64", torch::kInt64},   {"I32", torch::kInt32},   {"U8", torch::kUInt8},    {"BOOL", torch::kBool},
};

const Dtype* find_dtype(const std::string& name) {
  for (const auto& dtype : kDtypes)
    if (dtype.name == name) return &dtype;
  return nullptr;
}

const Dtype* find_dtype(torch::ScalarType type) {
  for (const auto& dtype : kDtypes)
    if (dtype.type == type) return &dtype;
  return nullptr;
}

std::string known_dtypes() {
  std::string names;
  for (const auto& dtype : kDtypes) {
    if (!names.empty()) names += ' ';
    names += dtype.name;
  }
  return names;
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

// One tensor of a file; begin and end count from the first byte after the header.
struct Entry {
  std::string name;
  torch::ScalarType type;
  std::vector<int64_t> shape;
  uint64_t begin, end;
};

// Parses and checks one file.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_.number() < 0) throw InvalidInput(concat("cannot read ", path, ": ", std::strerror(errno)));
    struct stat status {};
    if (fstat(file_.number(), &status) != 0 || !S_ISREG(status.st_mode))
      throw wrong("it is not a regular file");
    size_ = static_cast<uint64_t>(status.st_size);
  }

  Safetensors load() {
    json header = read_header();
    Safetensors loaded;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata)
        loaded.metadata = parse_metadata(value);
      else
        entries.push_back(parse_entry(name, value));
    }
    check_layout(entries);
    for (const auto& entry : entries) loaded.tensors[entry.name] = read_tensor(entry);
    return loaded;
  }

 private:
  template <class... Parts>
  InvalidInput wrong(const Parts&... parts) const {
    return InvalidInput(concat(path_, " is not a valid safetensors file: ", parts...));
  }

  void read_at(uint64_t offset, void* data, uint64_t count) const {
    auto bytes = static_cast<char*>(data);
    while (count > 0) {
      ssize_t got =
          pread(file_.number(), bytes, std::min<uint64_t>(count, 1u << 30), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw Failure(concat("cannot read ", path_, ": ", std::strerror(errno)));
      if (got == 0) throw Failure(concat(path_, " became shorter while it was read"));
      bytes += got;
      offset += static_cast<uint64_t>(got);
      count -= static_cast<uint64_t>(got);
    }
  }

  json read_header() {
    if (size_ < kLengthBytes)
      throw wrong("it has ", size_, " bytes, fewer than the ", kLengthBytes, " of the header's length");
    uint64_t length = 0;
    read_at(0, &length, sizeof length);
    if (length > size_ - kLengthBytes)
      throw wrong("its header is said to have ", length, " bytes but the file has only ", size_);
    if (length > kMostHeaderBytes)
      throw wrong("its header has ", length, " bytes, more than ", kMostHeaderBytes);
    data_ = kLengthBytes + length;
    std::string text(length, '\0');
    read_at(kLengthBytes, text.data(), length);

    std::set<std::string> names;
    std::string repeated;
    auto note_names = [&](int depth, json::parse_event_t event, json& parsed) {
      if (depth == 1 && event == json::parse_event_t::key && !names.insert(parsed.get<std::string>()).second)
        repeated = parsed.get<std::string>();
      return true;
    };
    json header;
    try {
      header = json::parse(text, note_names);
    } catch (const json::exception& error) {
      throw wrong("its header is not JSON (", error.what(), ")");
    }
    if (!header.is_object()) throw wrong("its header is not a JSON object");
    if (!repeated.empty()) throw wrong("its header names '", repeated, "' twice");
    return header;
  }

  std::map<std::string, std::string> parse_metadata(const json& value) const {
    std::map<std::string, std::string> metadata;
    if (!value.is_object()) throw wrong("its ", kMetadata, " is not a JSON object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) throw wrong("its ", kMetadata, " holds '", key, "', which is not a string");
      metadata[key] = text.get<std::string>();
    }
    return metadata;
  }

  uint64_t parse_count(const std::string& name, const char* what, const json& value) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
      throw wrong("the ", what, " of tensor '", name, "' holds ", value.dump(), ", which is no size");
    return value.get<uint64_t>();
  }

  const json& field(const std::string& name, const json& value, const char* key) const {
    auto found = value.find(key);
    if (found == value.end()) throw wrong("tensor '", name, "' has no ", key);
    return *found;
  }

  Entry parse_entry(const std::string& name, const json& value) const {
    if (!value.is_object()) throw wrong("the entry of tensor '", name, "' is not a JSON object");
    const json &dtype = field(name, value, "dtype"), &shape = field(name, value, "shape"),
               &offsets = field(name, value, "data_offsets");
    const Dtype* known = dtype.is_string() ? find_dtype(dtype.get<std::string>()) : nullptr;
    if (!known)
      throw wrong("tensor '", name, "' has the unknown dtype ", dtype.dump(), " (known: ", known_dtypes(),
                  ")");
    if (!shape.is_array()) throw wrong("the shape of tensor '", name, "' is not a list");
    if (!offsets.is_array() || offsets.size() != 2)
      throw wrong("the data_offsets of tensor '", name, "' are not a list of two");

    Entry entry{name, known->type, {}, 0, 0};
    entry.begin = parse_count(name, "data_offsets", offsets[0]);
    entry.end = parse_count(name, "data_offsets", offsets[1]);
    if (entry.begin > entry.end)
      throw wrong("tensor '", name, "' ends at ", entry.end, ", before it begins at ", entry.begin);
    // The product may not overflow even where another size is 0: torch multiplies the strides.
    uint64_t bytes = c10::elementSize(known->type);
    bool empty = false;
    for (const auto& size : shape) {
      uint64_t count = parse_count(name, "shape", size);
      entry.shape.push_back(static_cast<int64_t>(count));
      empty |= count == 0;
      if (count > 0 && bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / count)
        throw wrong("the shape of tensor '", name, "' has too many elements");
      if (count > 0) bytes *= count;
    }
    if (empty) bytes = 0;
    if (bytes != entry.end - entry.begin)
      throw wrong("tensor '", name, "' has ", entry.end - entry.begin,
                  " bytes of data, but its shape and dtype need ", bytes);
    return entry;
  }

  // The tensors must fill the rest of the file, one after the other.
  void check_layout(std::vector<Entry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    uint64_t filled = 0, have = size_ - data_;
    for (const auto& entry : entries) {
      if (entry.begin < filled)
        throw wrong("the data of tensor '", entry.name, "' begins at ", entry.begin,
                    " and overlaps the tensor before it, which ends at ", filled);
      if (entry.begin > filled)
        throw wrong("the data has a hole of ", entry.begin - filled, " bytes before tensor '", entry.name,
                    "'");
      filled = entry.end;
    }
    if (filled > have)
      throw wrong("it is truncated: its header asks for ", data_ + filled, " bytes, but the file has ",
                  size_);
    if (filled < have)
      throw wrong("it has ", have - filled, " bytes after its last tensor: its header asks for ",
                  data_ + filled, " bytes, but the file has ", size_);
  }

  torch::Tensor read_tensor(const Entry& entry) const {
    auto tensor = torch::empty(entry.shape, torch::TensorOptions(entry.type));
    if (entry.begin == entry.end) return tensor;
    auto bytes = static_cast<uint8_t*>(tensor.data_ptr());
    uint64_t count = entry.end - entry.begin;
    read_at(data_ + entry.begin, bytes, count);
    if (entry.type == torch::kBool &&
        std::any_of(bytes, bytes + count, [](uint8_t byte) { return byte > 1; }))
      throw wrong("tensor '", entry.name, "' is BOOL but holds a byte other than 0 and 1");
    return tensor;
  }

  std::string path_;
  Descriptor file_;
  uint64_t size_ = 0;
  uint64_t data_ = 0;  // where the first byte after the header is
};

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
  for (const auto& [name, dtype, tensor] : stored) {
    uint64_t end = offset + static_cast<uint64_t>(tensor.numel()) * c10::elementSize(dtype->type);
    header[name] = {{"dtype", dtype->name}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
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
                      const std::map<std::string, std::string>& metadata) {
  auto stored = stored_order(path, tensors);
  std::string header = header_text(path, stored, metadata);
  AtomicFile file(path);
  uint64_t length = header.size();
  file.write(&length, sizeof length);
  file.write(header.data(), length);
  for (const auto& item : stored) {
    auto tensor = item.tensor.detach().to(torch::kCPU).resolve_conj().resolve_neg().contiguous();
    if (tensor.numel() > 0) file.write(tensor.data_ptr(), item.bytes());
  }
  file.publish();
}

Safetensors load_safetensors(const std::string& path) {
  return Reader(path).load();
}

}  // namespace bigmac
