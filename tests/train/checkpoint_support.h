#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/train/checkpoint.h"
#include "bigmac/train/checkpoint_files.h"
#include "tests/support/roles.h"

namespace bigmac::train {

constexpr torch::ScalarType kTypes[] = {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16,
                                        torch::kInt64,   torch::kInt32,   torch::kUInt8,   torch::kBool};

// A function of step and name alone: every dtype, a scalar, an empty tensor and a large one.
inline NamedTensors contents(int64_t step, int64_t large = 1000) {
  NamedTensors tensors;
  std::mt19937_64 random(uint64_t(step) * 7919 + 1);
  auto bytes = [&](std::vector<int64_t> shape, torch::ScalarType type) {
    auto tensor = torch::empty(shape, torch::TensorOptions(type));
    auto* data = static_cast<uint8_t*>(tensor.data_ptr());
    for (size_t i = 0; i < tensor.nbytes(); ++i)
      data[i] = uint8_t(random() % (type == torch::kBool ? 2 : 256));
    return tensor;
  };
  for (auto type : kTypes)
    tensors[concat("backbone.layers.", tensors.size(), ".weight")] = bytes({3, 5}, type);
  tensors["optimizer.step"] = torch::scalar_tensor(step, torch::kInt64);
  tensors["empty"] = torch::empty({0, 4}, torch::kFloat32);
  tensors["embedding.weight"] = bytes({large}, torch::kFloat32);
  return tensors;
}

// Those that the rank of so many gives.
inline NamedTensors part_of(const NamedTensors& all, int rank, int ranks) {
  NamedTensors own;
  int index = 0;
  for (const auto& item : all)
    if (index++ % ranks == rank) own.insert(item);
  return own;
}

inline std::string bytes_of(const torch::Tensor& tensor) {
  auto plain = tensor.contiguous();
  return {static_cast<const char*>(plain.data_ptr()), plain.nbytes()};
}

// "" or what differs.
inline std::string difference(const NamedTensors& got, const NamedTensors& right) {
  if (got.size() != right.size()) return concat(got.size(), " tensors, not ", right.size());
  for (const auto& [name, tensor] : right) {
    auto found = got.find(name);
    if (found == got.end()) return concat("no ", name);
    if (found->second.scalar_type() != tensor.scalar_type() || found->second.sizes() != tensor.sizes() ||
        bytes_of(found->second) != bytes_of(tensor))
      return concat(name, " differs");
  }
  return "";
}

// "" if the checkpoint holds the contents of its step and nothing else.
inline std::string wrong_with(const Checkpoint& checkpoint, int64_t large = 1000) {
  return difference(checkpoint.load(checkpoint.names()), contents(checkpoint.step(), large));
}

inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

// What the call throws; "" where it throws nothing.
template <class Error>
std::string thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "'" << message << "' lacks " << part;
}

// All ranks' writers in one process; they share nothing but the folder.
class Writers {
 public:
  Writers(CheckpointOptions options, int ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      all_.push_back(std::make_unique<CheckpointWriter>(options, rank, ranks));
  }
  int size() const { return int(all_.size()); }
  CheckpointWriter& operator[](int rank) { return *all_[size_t(rank)]; }

  void save(int64_t step, int64_t large = 1000) {
    for (int rank = 0; rank < size(); ++rank) save_on(rank, step, large);
  }
  void save_on(int rank, int64_t step, int64_t large = 1000) {
    (*this)[rank].save(step, part_of(contents(step, large), rank, size()), {{"step", std::to_string(step)}});
  }
  void wait() {
    for (auto& writer : all_) writer->wait();
  }

 private:
  std::vector<std::unique_ptr<CheckpointWriter>> all_;
};

class CheckpointTest : public testing::Test {
 protected:
  std::string folder() const { return temporary_.path() + "/checkpoints"; }
  CheckpointOptions options(uint64_t attempt = 1, int keep = 2) const {
    return {folder(), keep, attempt, std::chrono::seconds(60)};
  }
  void write_one(int64_t step, int ranks = 1, uint64_t attempt = 1) const {
    Writers writers(options(attempt), ranks);
    writers.save(step);
    writers.wait();
  }
  std::string path(int64_t step, const std::string& file = "") const {
    return whole_folder(folder(), step) + (file.empty() ? "" : "/" + file);
  }

 private:
  TemporaryFolder temporary_;
};

}  // namespace bigmac::train
