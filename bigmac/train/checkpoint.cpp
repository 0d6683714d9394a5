#include "bigmac/train/checkpoint.h"

#include <filesystem>
#include <iterator>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/runtime/safetensors.h"
#include "bigmac/train/checkpoint_files.h"

namespace bigmac::train {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// The shards read so far; one is open at a time.
class Shards {
 public:
  explicit Shards(const std::string& folder) : folder_(folder) {}

  torch::Tensor read(const std::string& name, const StoredTensor& stored) {
    auto path = (fs::path(folder_) / stored.file).string();
    if (path != path_) {
      file_.emplace(path);
      path_ = path;
    }
    auto found = file_->entries().find(name);
    if (found == file_->entries().end())
      throw InvalidInput(concat(path, " has no tensor '", name, "', though ", kIndexFile, " says so"));
    const auto& entry = found->second;
    auto has = dtype_and_shape(safetensors_dtype(entry.type), entry.shape),
         right = dtype_and_shape(stored.dtype, stored.shape);
    if (has != right)
      throw InvalidInput(
          concat(path, ": tensor '", name, "' is ", has, ", but ", kIndexFile, " says ", right));
    auto tensor = file_->read(name);
    if (crc32_of(tensor.data_ptr(), tensor.nbytes()) != stored.checksum)
      throw InvalidInput(concat(path, ": tensor '", name, "' has a wrong checksum: its data is damaged"));
    return tensor;
  }

 private:
  const std::string& folder_;
  std::string path_;
  std::optional<SafetensorsFile> file_;
};

// By file, so that each is opened once.
std::map<std::string, std::vector<std::string>> by_file(
    const std::map<std::string, const StoredTensor*>& all) {
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [name, stored] : all) files[stored->file].push_back(name);
  return files;
}

}  // namespace

Checkpoint Checkpoint::open_one(const std::string& path) {
  auto index_path = (fs::path(path) / kIndexFile).string();
  if (!is_there(index_path))
    throw InvalidInput(concat(path, " is no whole checkpoint: it has no ", kIndexFile));
  auto index = read_checkpoint_index(index_path);
  for (const auto& [name, tensor] : index.tensors) {
    auto shard = fs::path(path) / tensor.file;
    if (!is_there(shard))
      throw InvalidInput(concat(shard.string(), " is missing; it holds '", name, "' of the checkpoint"));
  }
  Checkpoint opened;
  opened.step_ = index.step;
  opened.path_ = path;
  opened.facts_ = std::move(index.facts);
  opened.tensors_ = std::move(index.tensors);
  return opened;
}

std::optional<Checkpoint> Checkpoint::newest(const std::string& folder) {
  for (int64_t gone = -1;;) {
    auto whole = whole_checkpoints(folder);
    if (whole.empty()) return std::nullopt;
    auto last = std::prev(whole.end());
    try {
      return open_one(last->second);
    } catch (const InvalidInput& error) {
      // A run may write newer ones and remove this one meanwhile.
      if (!is_there(last->second) && gone != last->first) {
        gone = last->first;
        continue;
      }
      if (last == whole.begin()) throw;
      throw InvalidInput(concat(error.what(), "; the checkpoint before it is ", std::prev(last)->second));
    }
  }
}

Checkpoint Checkpoint::open(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    throw InvalidInput(concat("there is no checkpoint in ", path, ": it is no folder"));
  auto name = fs::path(path).filename().string();
  if (name.empty()) name = fs::path(path).parent_path().filename().string();  // a slash at the end
  if (is_there(fs::path(path) / kIndexFile) || name.starts_with("step-")) return open_one(path);
  if (auto found = newest(path)) return *std::move(found);
  throw InvalidInput(concat("there is no checkpoint in ", path, ": it has no folder such as ",
                            whole_folder("", 120), ", and no ", kIndexFile));
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& item : tensors_) names.push_back(item.first);
  return names;
}

bool Checkpoint::has(const std::string& name) const {
  return tensors_.contains(name);
}

const StoredTensor& Checkpoint::find(const std::string& name) const {
  auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  auto nearest = nearest_name(name, names());
  throw InvalidInput(concat(path_, " has no tensor '", name, "'",
                            nearest.empty() ? "" : concat(" (did you mean '", nearest, "'?)")));
}

NamedTensors Checkpoint::load(const std::vector<std::string>& names) const {
  std::map<std::string, const StoredTensor*> wanted;
  for (const auto& name : names) wanted[name] = &find(name);
  Shards shards(path_);
  NamedTensors loaded;
  for (const auto& [file, in_file] : by_file(wanted))
    for (const auto& name : in_file) loaded[name] = shards.read(name, *wanted.at(name));
  return loaded;
}

void Checkpoint::load_into(const NamedTensors& tensors) const {
  std::map<std::string, const StoredTensor*> wanted;
  for (const auto& [name, tensor] : tensors) {
    const auto& stored = *(wanted[name] = &find(name));
    auto dtype = safetensors_dtype(tensor.scalar_type());
    bool converts = tensor.is_floating_point() && stored.dtype.find('F') != std::string::npos;
    if (tensor.sizes() != c10::IntArrayRef(stored.shape) || (dtype != stored.dtype && !converts))
      throw InvalidInput(concat(path_, ": tensor '", name, "' is ",
                                dtype_and_shape(stored.dtype, stored.shape), ", the one to load into is ",
                                dtype_and_shape(dtype, tensor.sizes().vec())));
  }
  Shards shards(path_);
  torch::NoGradGuard no_grad;
  for (const auto& [file, in_file] : by_file(wanted))
    for (const auto& name : in_file) {
      tensors.at(name).copy_(shards.read(name, *wanted.at(name)));
    }
}

}  // namespace bigmac::train
