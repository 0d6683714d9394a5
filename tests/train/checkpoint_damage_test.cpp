#include <unistd.h>

#include "bigmac/train/checkpoint_files.h"
#include "tests/train/checkpoint_support.h"

namespace bigmac::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

using CheckpointDamage = CheckpointTest;

TEST_F(CheckpointDamage, AnyFlippedByteIsNamedOrHarmless) {
  write_one(5, 2);
  auto right = contents(5);
  std::mt19937 random(11);
  int in_data = 0;
  for (const auto& file : names_in(path(5))) {
    auto whole = read_bytes(path(5, file));
    bool is_shard = file.ends_with(".safetensors");
    uint64_t data = whole.size();
    if (is_shard) std::memcpy(&data, whole.data(), sizeof data), data += 8;
    for (size_t at = 0; at < whole.size(); at += at < data ? 1 : 1 + random() % 7) {
      auto bytes = whole;
      bytes[at] = char(bytes[at] ^ (1 << random() % 8));
      write_bytes(path(5, file), bytes);
      NamedTensors loaded;
      auto message = thrown<InvalidInput>([&] {
        auto checkpoint = Checkpoint::open(folder());
        loaded = checkpoint.load(checkpoint.names());
      });
      if (message.empty()) {
        EXPECT_LT(at, data) << file;
        EXPECT_EQ(difference(loaded, right), "") << file << " at " << at;
      } else {
        EXPECT_NE(message.find(path(5, file)), std::string::npos) << message;
      }
      if (at >= data) {
        ++in_data;
        bool is_bool = message.find("is BOOL but holds") != std::string::npos;
        EXPECT_TRUE(is_bool || message.find("wrong checksum") != std::string::npos) << message;
        EXPECT_NE(message.find("tensor '"), std::string::npos) << message;
      }
    }
    write_bytes(path(5, file), whole);
  }
  EXPECT_GT(in_data, 300);
  EXPECT_EQ(wrong_with(Checkpoint::open(folder())), "");
}

TEST_F(CheckpointDamage, AFileCutAnywhereIsNamed) {
  write_one(5, 2);
  for (const auto& file : names_in(path(5))) {
    auto whole = read_bytes(path(5, file));
    for (size_t length = 0; length < whole.size(); length += 1 + whole.size() / 100) {
      write_bytes(path(5, file), whole.substr(0, length));
      auto message = thrown<InvalidInput>([&] {
        auto checkpoint = Checkpoint::open(folder());
        checkpoint.load(checkpoint.names());
      });
      EXPECT_NE(message.find(path(5, file)), std::string::npos) << file << " " << length << ": " << message;
    }
    write_bytes(path(5, file), whole);
  }
}

TEST_F(CheckpointDamage, WhatIsMissingIsNamed) {
  auto open = [&](const std::string& what) { return thrown<InvalidInput>([&] { Checkpoint::open(what); }); };
  EXPECT_FALSE(Checkpoint::newest(folder()));
  expect_parts(open(folder()), {folder(), "no folder"});
  fs::create_directories(folder() + "/step-00000001.0000000000000001-0.part");
  fs::create_directories(folder() + "/step-1");  // another program's
  EXPECT_FALSE(Checkpoint::newest(folder()));
  expect_parts(open(folder()), {folder(), "there is no checkpoint", "step-00000120"});

  write_one(3, 2);
  write_one(4, 2);
  fs::remove(path(4, "rank-001.safetensors"));
  expect_parts(open(folder()), {path(4, "rank-001.safetensors"), "missing", "before it is " + path(3)});
  expect_parts(open(path(4) + "/"), {path(4), "rank-001.safetensors", "missing"});
  write_bytes(path(4, "model.safetensors.index.json"), "{\"weight_map\":");
  expect_parts(open(folder()), {path(4, "model.safetensors.index.json"), "not JSON"});
  write_bytes(path(4, "model.safetensors.index.json"), "{\"weight_map\":{}}");
  expect_parts(open(folder()), {path(4, "model.safetensors.index.json"), "no bigmac"});
  write_bytes(path(4, "model.safetensors.index.json"), std::string(1 << 20, '['));
  expect_parts(open(folder()), {path(4, "model.safetensors.index.json"), "nested deeper"});
  fs::remove(path(4, "model.safetensors.index.json"));
  expect_parts(open(folder()), {path(4), "no model.safetensors.index.json"});
  EXPECT_EQ(wrong_with(Checkpoint::open(path(3))), "");
}

TEST_F(CheckpointDamage, WhatDoesNotFitIsNamedBeforeAnythingChanges) {
  CheckpointWriter writer(options(), 0, 1);
  writer.save(1, {{"norm.weight", torch::ones({4}, torch::kFloat32)}, {"count", torch::tensor({7})}}, {});
  writer.wait();
  auto checkpoint = Checkpoint::open(folder());
  EXPECT_TRUE(checkpoint.has("count"));
  EXPECT_FALSE(checkpoint.has("norm.wait"));
  expect_parts(thrown<InvalidInput>([&] {
                 checkpoint.load({"count", "norm.wait"});
               }),
               {path(1), "'norm.wait'", "did you mean 'norm.weight'"});
  auto untouched = torch::zeros({1}, torch::kInt64);
  auto refusal = [&](const std::string& name, const torch::Tensor& tensor) {
    auto message = thrown<InvalidInput>([&] {
      checkpoint.load_into({{"count", untouched}, {name, tensor}});
    });
    EXPECT_EQ(untouched.item<int64_t>(), 0);
    return message;
  };
  expect_parts(refusal("norm.weight", torch::ones({2, 2})),
               {path(1), "norm.weight", "F32 [4]", "F32 [2, 2]"});
  expect_parts(refusal("norm.weight", torch::ones({4}, torch::kInt64)), {"F32 [4]", "I64 [4]"});
  expect_parts(refusal("norm.weigth", torch::ones({4})), {"did you mean 'norm.weight'"});

  auto parameter = torch::zeros({4, 2}, torch::kBFloat16).requires_grad_();
  auto column = torch::zeros({4, 2}, torch::kFloat64);
  checkpoint.load_into({{"norm.weight", column.select(1, 1)}, {"count", untouched}});
  EXPECT_TRUE(torch::equal(column, torch::tensor({{0., 1.}, {0., 1.}, {0., 1.}, {0., 1.}}, torch::kFloat64)));
  EXPECT_EQ(untouched.item<int64_t>(), 7);
  auto leaf = torch::zeros({4}, torch::kBFloat16).requires_grad_();
  checkpoint.load_into({{"norm.weight", leaf}});
  EXPECT_EQ(leaf.sum().item<double>(), 4);
  EXPECT_TRUE(leaf.is_leaf() && leaf.requires_grad());
}

TEST_F(CheckpointDamage, WrongOptionsAndFoldersAreRefusedAtTheStart) {
  auto refused = [&](CheckpointOptions wrong, int rank, int ranks) {
    return thrown<InvalidInput>([&] { CheckpointWriter(wrong, rank, ranks); });
  };
  expect_parts(refused(options(0), 0, 2), {"attempt is 0", "2 ranks"});
  expect_parts(refused(options(1, -1), 0, 1), {"keep is -1"});
  expect_parts(refused(options(), 2, 2), {"no rank 2 of 2"});
  expect_parts(refused({}, 0, 1), {"no name"});
  CheckpointWriter writer(options(0), 0, 1);
  EXPECT_NE(thrown<InvalidInput>([&] { writer.save(-1, {}, {}); }), "");

  auto fails = [&](const std::string& where) {
    return thrown<Failure>([&] { CheckpointWriter({where, 2, 1, 1s}, 0, 1); });
  };
  write_bytes(folder() + "/file", "");
  expect_parts(fails(folder() + "/file"), {folder() + "/file"});
  expect_parts(fails(folder() + "/file/below"), {folder() + "/file/below", "Not a directory"});
  fs::create_directory(folder() + "/closed");
  fs::permissions(folder() + "/closed", fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(folder(), fs::perms::all);
  fs::permissions(fs::path(folder()).parent_path(), fs::perms::all);
  bool is_root = geteuid() == 0;
  ASSERT_EQ(is_root ? seteuid(65534) : 0, 0);
  auto message = fails(folder() + "/closed");
  ASSERT_EQ(is_root ? seteuid(0) : 0, 0);
  expect_parts(message, {folder() + "/closed", "Permission denied"});
}

}  // namespace
}  // namespace bigmac::train
