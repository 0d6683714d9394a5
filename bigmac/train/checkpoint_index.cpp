#include "bigmac/train/checkpoint_index.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "bigmac/common/error.h"
#include "bigmac/common/read_file.h"

namespace bigmac::train {
namespace {

using nlohmann::json;

constexpr size_t kMostBytes = size_t{1} << 30;
constexpr int kMostDepth = 16;  // of an index's JSON

std::string dump(const json& value) {
  try {
    return value.dump();
  } catch (const json::exception& error) {
    throw InvalidInput(concat("a name or a fact of the checkpoint is not UTF-8 (", error.what(), ")"));
  }
}

json to_json(const StoredTensor& tensor) {
  return {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"checksum", tensor.checksum}};
}

// Reads fields of a file's JSON; messages name the file and the way to the field.
class Fields {
 public:
  Fields(const std::string& path, const json& value, std::string where = "")
      : path_(path), value_(value), where_(std::move(where)) {
    if (!value.is_object()) throw wrong(where_.empty() ? "it" : where_, " is not a JSON object");
  }

  Fields object(const std::string& key) const { return {path_, find(key), place(key)}; }
  std::string text(const std::string& key) const {
    const json& value = find(key);
    if (!value.is_string()) throw wrong(place(key), " is not a string");
    return value.get<std::string>();
  }
  uint64_t count(const std::string& key, uint64_t most = std::numeric_limits<int64_t>::max()) const {
    return to_count(find(key), place(key), most);
  }
  std::vector<int64_t> counts(const std::string& key) const {
    const json& value = find(key);
    if (!value.is_array()) throw wrong(place(key), " is not a list");
    std::vector<int64_t> numbers;
    for (const auto& item : value)
      numbers.push_back(int64_t(to_count(item, place(key), std::numeric_limits<int64_t>::max())));
    return numbers;
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const auto& item : value_.items()) names.push_back(item.key());
    return names;
  }

  template <class... Parts>
  InvalidInput wrong(const Parts&... parts) const {
    return InvalidInput(concat(path_, " is damaged: ", parts...));
  }

 private:
  std::string place(const std::string& key) const { return where_.empty() ? key : where_ + "." + key; }
  const json& find(const std::string& key) const {
    auto found = value_.find(key);
    if (found == value_.end()) throw wrong("it has no ", place(key));
    return *found;
  }
  uint64_t to_count(const json& value, const std::string& at, uint64_t most) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > most)
      throw wrong(at, " is ", value.dump(), ", which is no size");
    return value.get<uint64_t>();
  }

  const std::string& path_;
  const json& value_;
  std::string where_;
};

json parse_file(const std::string& path) {
  auto text = read_file(path, kMostBytes, "a JSON file");
  auto check_depth = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMostDepth)
      throw InvalidInput(concat(path, " is damaged: it is nested deeper than ", kMostDepth));
    return true;
  };
  try {
    return json::parse(text, check_depth);
  } catch (const json::exception& error) {
    throw InvalidInput(concat(path, " is not JSON (", error.what(), ")"));
  }
}

StoredTensor read_tensor(const Fields& tensors, const std::string& name, std::string file) {
  Fields fields = tensors.object(name);
  return {std::move(file), fields.text("dtype"), fields.counts("shape"),
          uint32_t(fields.count("checksum", std::numeric_limits<uint32_t>::max()))};
}

}  // namespace

uint32_t crc32_of(const void* data, size_t bytes, uint32_t before) {
  return uint32_t(crc32_z(before, static_cast<const Bytef*>(data), bytes));
}

std::string to_json(const RankRecord& record) {
  json tensors = json::object(),
       value = {
           {"step", record.step}, {"rank", record.rank}, {"ranks", record.ranks}, {"bytes", record.bytes}};
  for (const auto& [name, tensor] : record.tensors) tensors[name] = to_json(tensor);
  value["tensors"] = std::move(tensors);
  return dump(value);
}

std::string to_json(const CheckpointIndex& index) {
  json files = json::object(), tensors = json::object();
  for (const auto& [name, tensor] : index.tensors) {
    files[name] = tensor.file;
    tensors[name] = to_json(tensor);
  }
  json value = {{"metadata", {{"total_size", index.bytes}}}, {"weight_map", std::move(files)}};
  auto& own = value["bigmac"] = {{"step", index.step}, {"ranks", index.ranks}, {"facts", index.facts}};
  own["tensors"] = std::move(tensors);
  auto unsigned_text = dump(value);
  own["checksum"] = crc32_of(unsigned_text.data(), unsigned_text.size());
  return value.dump(1);
}

RankRecord read_rank_record(const std::string& path) {
  json value = parse_file(path);
  Fields fields(path, value);
  RankRecord record;
  record.step = int64_t(fields.count("step"));
  record.rank = int(fields.count("rank", std::numeric_limits<int>::max()));
  record.ranks = int(fields.count("ranks", std::numeric_limits<int>::max()));
  record.bytes = fields.count("bytes");
  Fields tensors = fields.object("tensors");
  for (const auto& name : tensors.keys()) record.tensors.emplace(name, read_tensor(tensors, name, ""));
  return record;
}

CheckpointIndex read_checkpoint_index(const std::string& path) {
  json value = parse_file(path);
  Fields fields(path, value);
  Fields files = fields.object("weight_map"), own = fields.object("bigmac"), facts = own.object("facts"),
         tensors = own.object("tensors");
  CheckpointIndex index;
  index.bytes = fields.object("metadata").count("total_size");
  index.step = int64_t(own.count("step"));
  index.ranks = int(own.count("ranks", std::numeric_limits<int>::max()));
  for (const auto& key : facts.keys()) index.facts.emplace(key, facts.text(key));
  for (const auto& name : tensors.keys())
    index.tensors.emplace(name, read_tensor(tensors, name, files.text(name)));

  uint64_t checksum = own.count("checksum", std::numeric_limits<uint32_t>::max());
  value["bigmac"].erase("checksum");
  auto unsigned_text = value.dump();
  if (uint32_t actual = crc32_of(unsigned_text.data(), unsigned_text.size()); actual != checksum)
    throw fields.wrong("its checksum is ", actual, ", it says ", checksum);
  return index;
}

std::string dtype_and_shape(const std::string& dtype, const std::vector<int64_t>& shape) {
  std::string text = dtype + " [";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace bigmac::train
