#include "bigmac/runtime/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/runtime/safetensors_dtypes.h"

namespace bigmac {

class SafetensorsFile::Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : path_(path), number_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number_ < 0) throw InvalidInput(concat("cannot read ", path, ": ", std::strerror(errno)));
  }
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  // Nothing where it is not a regular file.
  std::optional<uint64_t> size() const {
    struct stat status {};
    if (fstat(number_, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return static_cast<uint64_t>(status.st_size);
  }

  void read_at(uint64_t offset, void* data, uint64_t count) const {
    auto* bytes = static_cast<char*>(data);
    while (count > 0) {
      ssize_t got = pread(number_, bytes, std::min<uint64_t>(count, 1u << 30), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw Failure(concat("cannot read ", path_, ": ", std::strerror(errno)));
      if (got == 0) throw Failure(concat(path_, " became shorter while it was read"));
      bytes += got;
      offset += static_cast<uint64_t>(got);
      count -= static_cast<uint64_t>(got);
    }
  }

 private:
  std::string path_;
  int number_;
};

namespace {

using nlohmann::json;
using namespace safetensors;
using Entry = SafetensorsFile::Entry;

constexpr int kMostDepth = 8;  // of the header's JSON; what is used is 3

template <class... Parts>
InvalidInput wrong(const std::string& path, const Parts&... parts) {
  return InvalidInput(concat(path, " is not a valid safetensors file: ", parts...));
}

// Checks a header's text; `size` is the file's, `data` where the first byte after the header is.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, uint64_t size, uint64_t data)
      : path_(path), size_(size), data_(data) {}

  json parse(const std::string& text) const {
    std::set<std::string> names;
    std::string repeated;
    auto note_names = [&](int depth, json::parse_event_t event, json& parsed) {
      if (depth > kMostDepth) throw wrong("its header is nested deeper than ", kMostDepth);
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

    Entry entry{known->type, {}, 0, 0};
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
  void check_layout(const std::map<std::string, Entry>& entries) const {
    using Item = std::map<std::string, Entry>::value_type;
    std::vector<const Item*> items;
    items.reserve(entries.size());
    for (const auto& item : entries) items.push_back(&item);
    std::sort(items.begin(), items.end(), [](const Item* a, const Item* b) {
      return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
    });
    uint64_t filled = 0, have = size_ - data_;
    for (const Item* item : items) {
      const auto& [name, entry] = *item;
      if (entry.begin < filled)
        throw wrong("the data of tensor '", name, "' begins at ", entry.begin,
                    " and overlaps the tensor before it, which ends at ", filled);
      if (entry.begin > filled)
        throw wrong("the data has a hole of ", entry.begin - filled, " bytes before tensor '", name, "'");
      filled = entry.end;
    }
    if (filled > have)
      throw wrong("it is truncated: its header asks for ", data_ + filled, " bytes, but the file has ",
                  size_);
    if (filled < have)
      throw wrong("it has ", have - filled, " bytes after its last tensor: its header asks for ",
                  data_ + filled, " bytes, but the file has ", size_);
  }

 private:
  template <class... Parts>
  InvalidInput wrong(const Parts&... parts) const {
    return InvalidInput(concat(path_, " is not a valid safetensors file: ", parts...));
  }

  const std::string& path_;
  uint64_t size_, data_;
};

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), file_(std::make_shared<Descriptor>(path)) {
  auto size = file_->size();
  if (!size) throw wrong(path, "it is not a regular file");
  if (*size < kLengthBytes)
    throw wrong(path, "it has ", *size, " bytes, fewer than the ", kLengthBytes, " of the header's length");
  uint64_t length = 0;
  file_->read_at(0, &length, sizeof length);
  if (length > *size - kLengthBytes)
    throw wrong(path, "its header is said to have ", length, " bytes but the file has only ", *size);
  if (length > kMostHeaderBytes)
    throw wrong(path, "its header has ", length, " bytes, more than ", kMostHeaderBytes);
  std::string text(length, '\0');
  file_->read_at(kLengthBytes, text.data(), length);

  uint64_t data = kLengthBytes + length;
  HeaderParser parser(path_, *size, data);
  json header = parser.parse(text);
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata)
      metadata_ = parser.parse_metadata(value);
    else
      entries_.emplace(name, parser.parse_entry(name, value));
  }
  parser.check_layout(entries_);
  for (auto& [name, entry] : entries_) entry.begin += data, entry.end += data;
}

torch::Tensor SafetensorsFile::read(const std::string& name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) {
    std::vector<std::string> names;
    for (const auto& item : entries_) names.push_back(item.first);
    auto nearest = nearest_name(name, names);
    throw InvalidInput(concat(path_, " has no tensor '", name, "'",
                              nearest.empty() ? "" : concat(" (did you mean '", nearest, "'?)")));
  }
  const Entry& entry = found->second;
  auto tensor = at::empty(entry.shape, torch::TensorOptions(entry.type));
  if (entry.begin == entry.end) return tensor;
  auto* bytes = static_cast<uint8_t*>(tensor.data_ptr());
  uint64_t count = entry.end - entry.begin;
  file_->read_at(entry.begin, bytes, count);
  if (entry.type == torch::kBool && std::any_of(bytes, bytes + count, [](uint8_t byte) { return byte > 1; }))
    throw wrong(path_, "tensor '", name, "' is BOOL but holds a byte other than 0 and 1");
  return tensor;
}

Safetensors load_safetensors(const std::string& path) {
  SafetensorsFile file(path);
  Safetensors loaded;
  loaded.metadata = file.metadata();
  for (const auto& item : file.entries()) loaded.tensors[item.first] = file.read(item.first);
  return loaded;
}

}  // namespace bigmac
