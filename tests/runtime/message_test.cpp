#include "bigmac/runtime/message.h"

#include <gtest/gtest.h>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr torch::ScalarType kDtypes[] = {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kFloat16,
                                         torch::kInt64,   torch::kBool,    torch::kUInt8};

// Every bit pattern is as good as another here, NaNs too.
torch::Tensor random_bits(std::vector<int64_t> sizes, torch::ScalarType dtype) {
  if (dtype == torch::kBool) return torch::randint(0, 2, sizes).to(torch::kBool);
  auto with_bytes = sizes;
  with_bytes.push_back(int64_t(torch::elementSize(dtype)));
  auto bytes = torch::randint(0, 256, with_bytes).to(torch::kUInt8);
  auto out = torch::empty(sizes, torch::dtype(dtype));
  if (out.numel() > 0) std::memcpy(out.data_ptr(), bytes.data_ptr(), out.nbytes());
  return out;
}

void expect_same_bits(const torch::Tensor& got, const torch::Tensor& expected) {
  ASSERT_EQ(got.scalar_type(), expected.scalar_type());
  ASSERT_EQ(got.sizes(), expected.sizes());
  auto a = got.contiguous(), b = expected.contiguous();
  if (a.numel() == 0) return;
  EXPECT_EQ(std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()), 0);
}

void expect_round_trip(const Message& message) {
  auto back = unpack(pack(message));
  EXPECT_EQ(back.needs_gradient, message.needs_gradient);
  ASSERT_EQ(back.tensors.size(), message.tensors.size());
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_bits(back.tensors[i], message.tensors[i]);
  }
}

TEST(Message, KeepsEveryBitOfEveryDtypeAndShape) {
  for (auto dtype : kDtypes)
    for (const auto& sizes :
         std::vector<std::vector<int64_t>>{{}, {0}, {1}, {3, 0, 2}, {7}, {2, 3}, {2, 1, 3, 1, 5}, {1000}}) {
      SCOPED_TRACE(concat(dtype, " ", c10::IntArrayRef(sizes)));
      expect_round_trip({{random_bits(sizes, dtype)}, {false}});
    }
}

TEST(Message, KeepsManyTensorsOfMixedDtypesAndTheirFlags) {
  Message message;
  for (int i = 0; i < 200; ++i) {
    message.tensors.push_back(random_bits({i % 7, 1 + i % 3}, kDtypes[i % std::size(kDtypes)]));
    message.needs_gradient.push_back(i % 3 == 0);
  }
  expect_round_trip(message);
}

TEST(Message, KeepsTheValuesOfTensorsThatAreNotContiguous) {
  auto whole = torch::randn({6, 8, 4});
  expect_round_trip(
      {{whole.transpose(0, 2), whole.slice(1, 1, 8, 3), whole.select(2, 1), whole[0][0].expand({5, 4})},
       {false, true, false, true}});
}

TEST(Message, MayBeEmpty) {
  expect_round_trip({});
}

TEST(Message, CutOffAnywhereIsAFailure) {
  for (const Message& message :
       {Message{}, Message{{torch::ones({})}, {true}},
        Message{{torch::randn({3, 5}), torch::arange(3)}, {true, false}},
        Message{{torch::empty({0}), torch::ones({2}).to(torch::kBool)}, {false, false}}}) {
    auto bytes = pack(message);
    for (int64_t length = 0; length < bytes.numel(); ++length)
      EXPECT_THROW(unpack(bytes.slice(0, 0, length).clone()), Failure)
          << length << " of " << bytes.numel() << " bytes";
  }
}

TEST(Message, OfRandomBytesThrowsRatherThanCrashes) {
  for (int i = 0; i < 2000; ++i) {
    auto bytes = pack({{torch::randn({3, 5}), torch::arange(3)}, {true, false}});
    auto word = torch::randint(0, 14, {1}).item<int64_t>();
    bytes.slice(0, word * 8, word * 8 + 8).copy_(torch::randint(0, 256, {8}).to(torch::kUInt8));
    try {
      unpack(bytes);
    } catch (const std::exception&) {
    }
  }
}

TEST(Message, OwesGradientsForTheValuesThatRequireThem) {
  auto trained = torch::ones({2}).requires_grad_();
  auto message = message_of(Tensors{trained * 2, torch::ones({2}), torch::arange(2), trained});
  EXPECT_EQ(message.needs_gradient, (std::vector<bool>{true, false, false, true}));
  for (const auto& tensor : message.tensors) EXPECT_FALSE(tensor.requires_grad());
}

TEST(Message, MakesLeavesOfItsOwnThatRequireWhatIsOwed) {
  Message message{{torch::ones({2}), torch::ones({3}), torch::arange(2)}, {true, false, false}};
  auto leaves = leaves_of(message, torch::kCPU);
  ASSERT_EQ(leaves.size(), 3u);
  for (size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_EQ(leaves[i].requires_grad(), message.needs_gradient[i]);
    EXPECT_TRUE(leaves[i].is_leaf());
    EXPECT_FALSE(message.tensors[i].requires_grad()) << "the sender's tensor is left as it was";
  }
}

TEST(Message, HoldsATextOfAnyBytes) {
  for (const auto& text : {std::string(), std::string("one\ntwo\t\xff"), std::string("a\0b", 3)})
    EXPECT_EQ(text_of(unpack(pack(message_of(text)))), text);
}

TEST(Message, OfSeveralJoinedIsSplitIntoThemAgainAlsoAsBytes) {
  std::vector<Message> parts{{{torch::ones({2, 3}), torch::zeros({1}, torch::kInt64)}, {true, false}},
                             {},
                             {{torch::full({4}, 7.0)}, {true}}};
  for (bool packed : {false, true}) {
    auto whole = join(parts);
    auto again = split(packed ? unpack(pack(whole)) : whole);
    ASSERT_EQ(again.size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(again[i].needs_gradient, parts[i].needs_gradient);
      ASSERT_EQ(again[i].tensors.size(), parts[i].tensors.size());
      for (size_t t = 0; t < parts[i].tensors.size(); ++t)
        EXPECT_TRUE(torch::equal(again[i].tensors[t], parts[i].tensors[t]));
    }
  }
}

}  // namespace
}  // namespace bigmac
