#include "bigmac/runtime/safetensors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

namespace fs = std::filesystem;

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() {
    std::string pattern = (fs::temp_directory_path() / "bigmac-safetensors-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw Failure("mkdtemp failed");
    folder_ = pattern;
    path_ = (folder_ / "model.safetensors").string();
  }
  ~SafetensorsTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  std::string contents() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& bytes) const {
    fs::remove(path_);  // writing a new file is much faster than truncating one
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  void write(const std::string& header, const std::string& data) const {
    uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    write(bytes + header + data);
  }

  // Expects an InvalidInput that names the file and contains `part`.
  void expect_refused(const std::string& part) const {
    try {
      load_safetensors(path_);
      ADD_FAILURE() << "loaded, instead of refusing: " << part;
    } catch (const InvalidInput& error) {
      std::string message = error.what();
      EXPECT_NE(message.find(path_), std::string::npos) << message;
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }

  fs::path folder_;
  std::string path_;
};

std::map<std::string, torch::Tensor> one_of_each() {
  torch::manual_seed(1);
  std::map<std::string, torch::Tensor> tensors;
  for (auto type : {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16})
    tensors[concat("float ", c10::toString(type))] = torch::randn({3, 5}).to(type);
  for (auto type : {torch::kInt64, torch::kInt32, torch::kUInt8})
    tensors[concat("integer ", c10::toString(type))] = torch::randint(0, 200, {7}, type);
  tensors["bool"] = torch::rand({2, 3, 3}) > 0.5;
  tensors["scalar"] = torch::tensor(3.25);
  tensors["scalar byte"] = torch::full({}, 200, torch::kUInt8);
  tensors["empty"] = torch::empty({0, 4}, torch::kFloat16);
  tensors["also empty"] = torch::empty({0}, torch::kFloat64);
  tensors["special"] = torch::tensor({std::numeric_limits<float>::quiet_NaN(), -0.0f, INFINITY, 1e-42f});
  return tensors;
}

void expect_same_bits(const torch::Tensor& a, const torch::Tensor& b, const std::string& name) {
  ASSERT_EQ(a.scalar_type(), b.scalar_type()) << name;
  ASSERT_EQ(a.sizes(), b.sizes()) << name;
  auto left = a.contiguous(), right = b.contiguous();
  if (left.numel() > 0) {
    EXPECT_EQ(std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()), 0) << name;
  }
}

TEST_F(SafetensorsTest, EveryDtypeAndShapeSurvivesBitByBit) {
  auto tensors = one_of_each();
  std::map<std::string, std::string> metadata{{"step", "12"}, {"name", "piñata \"x\"\n"}, {"", ""}};
  save_safetensors(path_, tensors, metadata);
  auto loaded = load_safetensors(path_);
  EXPECT_EQ(loaded.metadata, metadata);
  ASSERT_EQ(loaded.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) expect_same_bits(loaded.tensors.at(name), tensor, name);
}

TEST_F(SafetensorsTest, NoTensorsAndNoMetadataMakeAFileToo) {
  save_safetensors(path_, {});
  auto loaded = load_safetensors(path_);
  EXPECT_TRUE(loaded.tensors.empty());
  EXPECT_TRUE(loaded.metadata.empty());
}

TEST_F(SafetensorsTest, NonContiguousTensorsAreStoredInTheirLogicalOrder) {
  auto base = torch::arange(24, torch::kFloat32).view({4, 6}).requires_grad_();
  std::map<std::string, torch::Tensor> views{{"transposed", base.t()},
                                             {"strided", base.slice(1, 0, 6, 2)},
                                             {"expanded", base.slice(0, 0, 1).expand({3, 6})}};
  save_safetensors(path_, views);
  auto loaded = load_safetensors(path_);
  for (const auto& [name, view] : views) {
    EXPECT_TRUE(torch::equal(loaded.tensors.at(name), view)) << name;
    EXPECT_TRUE(loaded.tensors.at(name).is_contiguous());
    EXPECT_FALSE(loaded.tensors.at(name).requires_grad());
  }
}

TEST_F(SafetensorsTest, TheBytesFollowTheFormat) {
  save_safetensors(path_, {{"b", torch::tensor({1, 2}, torch::kUInt8)}, {"a", torch::tensor({1.0f})}},
                   {{"k", "v"}});
  auto bytes = contents();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  ASSERT_EQ(bytes.size(), 8 + length + 6);
  auto header = bytes.substr(8, length);
  EXPECT_EQ(header[0], '{');
  for (const char* part : {R"("__metadata__":{"k":"v"})", R"("dtype":"F32")", R"("data_offsets":[0,4])",
                           R"("shape":[1])", R"("dtype":"U8")", R"("data_offsets":[4,6])", R"("shape":[2])"})
    EXPECT_NE(header.find(part), std::string::npos) << header;
  EXPECT_EQ(bytes.substr(8 + length), std::string("\x00\x00\x80\x3f\x01\x02", 6));
}

TEST_F(SafetensorsTest, AHandWrittenFileLoadsWithItsTensorsInAnyOrder) {
  write(
      R"({"b":{"dtype":"I32","shape":[1,2],"data_offsets":[2,10]},"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})",
      std::string("\x01\x00\x07\x00\x00\x00\xff\xff\xff\xff", 10));
  auto loaded = load_safetensors(path_);
  EXPECT_TRUE(torch::equal(loaded.tensors.at("a"), torch::tensor({true, false})));
  EXPECT_TRUE(torch::equal(loaded.tensors.at("b"), torch::tensor({{7, -1}}, torch::kInt32)));
}

TEST_F(SafetensorsTest, AFileCutAnywhereIsRefused) {
  save_safetensors(path_, one_of_each(), {{"step", "1"}});
  auto whole = contents();
  for (size_t part = 0; part < 20; ++part) {
    write(whole.substr(0, whole.size() * part / 20));
    EXPECT_THROW(load_safetensors(path_), InvalidInput) << part;
  }
  for (size_t cut = 1; cut < 10; ++cut) {
    write(whole.substr(0, whole.size() - cut));
    expect_refused(concat("truncated: its header asks for ", whole.size(), " bytes, but the file has ",
                          whole.size() - cut));
  }
  write(whole + "x");
  expect_refused("1 bytes after its last tensor");
}

TEST_F(SafetensorsTest, ACorruptedHeaderLoadsOrIsRefusedButNeverCrashes) {
  save_safetensors(path_, one_of_each(), {{"step", "1"}});
  auto whole = contents();
  uint64_t length = 0;
  std::memcpy(&length, whole.data(), 8);
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    auto bytes = whole;
    for (unsigned i = 0; i <= random() % 4; ++i) {
      // Half of the time a digit, so that sizes change and the header stays JSON.
      auto byte = static_cast<char>(round % 2 == 0 ? random() % 256 : '0' + random() % 10);
      bytes[random() % (8 + length)] = byte;
    }
    write(bytes);
    try {
      load_safetensors(path_);
    } catch (const InvalidInput&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 750);
}

TEST_F(SafetensorsTest, EachKindOfMalformedFileIsNamed) {
  write("1234567");
  expect_refused("it has 7 bytes, fewer than the 8");
  write(std::string("\xff\x00\x00\x00\x00\x00\x00\x00{}", 10));
  expect_refused("header is said to have 255 bytes but the file has only 10");
  write(std::string(8, '\xff'));
  expect_refused("header is said to have 18446744073709551615 bytes");
  write("{\"a\":", "");
  expect_refused("header is not JSON");
  write("[1]", "");
  expect_refused("header is not a JSON object");
  write(std::string(100000, '['), "");
  expect_refused("header is nested deeper than 8");
  write(R"({"a":{"dtype":)" + std::string(100000, '[') + std::string(100000, ']') + "}}", "");
  expect_refused("header is nested deeper than 8");

  struct Case {
    const char* header;
    const char* part;
  };
  const Case cases[] = {
      {R"({"a":1})", "entry of tensor 'a' is not a JSON object"},
      {R"({"a":{"shape":[8],"data_offsets":[0,8]}})", "tensor 'a' has no dtype"},
      {R"({"a":{"dtype":"U8","data_offsets":[0,8]}})", "tensor 'a' has no shape"},
      {R"({"a":{"dtype":"U8","shape":[8]}})", "tensor 'a' has no data_offsets"},
      {R"({"a":{"dtype":"F8","shape":[8],"data_offsets":[0,8]}})",
       "unknown dtype \"F8\" (known: F64 F32 F16"},
      {R"({"a":{"dtype":7,"shape":[8],"data_offsets":[0,8]}})", "unknown dtype 7"},
      {R"({"a":{"dtype":"U8","shape":8,"data_offsets":[0,8]}})", "shape of tensor 'a' is not a list"},
      {R"({"a":{"dtype":"U8","shape":[-8],"data_offsets":[0,8]}})", "holds -8, which is no size"},
      {R"({"a":{"dtype":"U8","shape":[8.0],"data_offsets":[0,8]}})", "holds 8.0, which is no size"},
      {R"({"a":{"dtype":"U8","shape":["8"],"data_offsets":[0,8]}})", "which is no size"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0]}})", "not a list of two"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[8,0]}})", "ends at 0, before it begins at 8"},
      {R"({"a":{"dtype":"F32","shape":[8],"data_offsets":[0,8]}})",
       "has 8 bytes of data, but its shape and dtype need 32"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", "too many elements"},
      {R"({"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", "too many elements"},
      {R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", "truncated"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]}})",
       "truncated"},
      {R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[0,7]}})", "1 bytes after its last tensor"},
      {R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[1,8]}})", "a hole of 1 bytes before tensor 'a'"},
      {R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       "tensor 'b' begins at 4 and overlaps"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
       "names 'a' twice"},
      {R"({"__metadata__":{"step":1},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
       "'step', which is not a string"},
      {R"({"__metadata__":[],"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
       "__metadata__ is not a JSON object"},
      {R"({"a":{"dtype":"BOOL","shape":[8],"data_offsets":[0,8]}})", "holds a byte other than 0 and 1"},
  };
  for (const auto& [header, part] : cases) {
    SCOPED_TRACE(header);
    write(header, "\1\1\1\1\1\1\1\2");
    expect_refused(part);
  }
}

TEST_F(SafetensorsTest, AMissingFileAndAFolderAreRefusedByName) {
  expect_refused("No such file");
  fs::create_directory(path_);
  expect_refused("not a regular file");
}

TEST_F(SafetensorsTest, AFailedSaveLeavesTheOldFileAndNothingElse) {
  save_safetensors(path_, {{"a", torch::ones({2})}});
  auto before = contents();
  auto message = [&](const std::map<std::string, torch::Tensor>& tensors) {
    try {
      save_safetensors(path_, tensors);
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
    return std::string("saved");
  };
  EXPECT_NE(message({{"u", torch::Tensor()}}).find("tensor 'u'"), std::string::npos);
  EXPECT_NE(message({{"c", torch::ones({2}, torch::kComplexFloat)}}).find("ComplexFloat is not one of"),
            std::string::npos);
  EXPECT_NE(message({{"__metadata__", torch::ones({2})}}).find("keeps that name"), std::string::npos);
  EXPECT_NE(message({{"\xff", torch::ones({2})}}).find("not UTF-8"), std::string::npos);
  EXPECT_NE(message({{"s", torch::eye(2).to_sparse()}}).find("not dense"), std::string::npos);
  EXPECT_EQ(contents(), before);

  save_safetensors(path_, {{"b", torch::zeros({3})}});
  EXPECT_TRUE(load_safetensors(path_).tensors.contains("b"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "a temporary file was left behind";
  auto nowhere = (folder_ / "none" / "model.safetensors").string();
  try {
    save_safetensors(nowhere, {});
    ADD_FAILURE() << "saved into a folder that does not exist";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find(nowhere + ": No such file or directory"), std::string::npos);
  }
}

TEST_F(SafetensorsTest, TensorsAreReadOneAtATimeWithoutTheRest) {
  auto tensors = one_of_each();
  save_safetensors(path_, tensors, {{"step", "1"}});
  SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata().at("step"), "1");
  EXPECT_EQ(file.entries().size(), tensors.size());
  auto whole = contents();
  for (const auto& [name, tensor] : tensors) {
    const auto& entry = file.entries().at(name);
    EXPECT_EQ(entry.shape, tensor.sizes().vec());
    EXPECT_EQ(entry.type, tensor.scalar_type());
    EXPECT_EQ(whole.substr(entry.begin, entry.end - entry.begin),
              std::string(static_cast<const char*>(tensor.contiguous().data_ptr()), tensor.nbytes()));
    expect_same_bits(file.read(name), tensor, name);
  }
  fs::remove(path_);  // an open file stays readable
  auto moved = std::move(file);
  expect_same_bits(moved.read("special"), tensors.at("special"), "special");
  try {
    moved.read("specail");
    ADD_FAILURE() << "read a tensor that is not there";
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("'specail' (did you mean 'special'?)"), std::string::npos)
        << error.what();
  }
}

TEST_F(SafetensorsTest, WritingCanBeGivenUpBetweenPieces) {
  save_safetensors(path_, {{"a", torch::ones({2})}});
  auto before = contents();
  auto large = torch::ones({40 << 20}, torch::kUInt8);  // three pieces
  int pieces = 0;
  auto give_up = [&] {
    if (++pieces == 2) throw Failure("enough");
  };
  EXPECT_THROW(save_safetensors(path_, {{"large", large}}, {}, give_up), Failure);
  EXPECT_EQ(contents(), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "a temporary file was left behind";
  pieces = 10;
  save_safetensors(path_, {{"large", large}}, {}, give_up);
  EXPECT_EQ(pieces, 13);
  EXPECT_TRUE(torch::equal(load_safetensors(path_).tensors.at("large"), large));
}

TEST_F(SafetensorsTest, WhatCannotBeStoredIsFoundWithoutWriting) {
  check_storable(path_, one_of_each(), {{"a", "b"}});
  EXPECT_THROW(check_storable(path_, {{"c", torch::ones({2}, torch::kComplexFloat)}}), InvalidInput);
  EXPECT_THROW(check_storable(path_, {{"\xff", torch::ones({2})}}), InvalidInput);
  EXPECT_THROW(check_storable(path_, {}, {{"a", "\xff"}}), InvalidInput);
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace bigmac
