#include "bigmac/runtime/message.h"

#include <cstring>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr int64_t kAlign = 16;

int64_t aligned(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

Message message_of(const Tensors& values) {
  Message message;
  for (const auto& value : values) {
    message.tensors.push_back(value.detach());
    message.needs_gradient.push_back(value.requires_grad());
  }
  return message;
}

Tensors leaves_of(const Message& message, torch::Device device) {
  Tensors leaves;
  for (size_t i = 0; i < message.tensors.size(); ++i)
    leaves.push_back(message.tensors[i].to(device).detach().requires_grad_(message.needs_gradient[i]));
  return leaves;
}

Message join(std::vector<Message> parts) {
  auto counts = torch::empty({int64_t(parts.size())}, torch::kInt64);
  Message whole{{counts}, {false}};
  for (size_t i = 0; i < parts.size(); ++i) {
    counts.data_ptr<int64_t>()[i] = int64_t(parts[i].tensors.size());
    for (size_t t = 0; t < parts[i].tensors.size(); ++t) {
      whole.tensors.push_back(std::move(parts[i].tensors[t]));
      whole.needs_gradient.push_back(parts[i].needs_gradient[t]);
    }
  }
  return whole;
}

std::vector<Message> split(Message message) {
  const auto counts = message.tensors.at(0);
  std::vector<Message> parts(size_t(counts.numel()));
  size_t next = 1;
  for (size_t i = 0; i < parts.size(); ++i)
    for (int64_t left = counts.data_ptr<int64_t>()[i]; left > 0; --left, ++next) {
      parts[i].tensors.push_back(std::move(message.tensors.at(next)));
      parts[i].needs_gradient.push_back(message.needs_gradient[next]);
    }
  return parts;
}

Message message_of(const std::string& text) {
  auto bytes = torch::empty({int64_t(text.size())}, torch::kUInt8);
  std::copy(text.begin(), text.end(), bytes.data_ptr<uint8_t>());
  return {{bytes}, {false}};
}

std::string text_of(const Message& message) {
  const auto& bytes = message.tensors.at(0);
  return {reinterpret_cast<const char*>(bytes.data_ptr<uint8_t>()), size_t(bytes.numel())};
}

// Layout: int64 words [tensors, then for each: dtype, flag, dimensions, sizes...], then each tensor's bytes,
// all parts aligned.
torch::Tensor pack(const Message& message) {
  std::vector<int64_t> header{int64_t(message.tensors.size())};
  int64_t bytes = 0;
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    const auto& tensor = message.tensors[i];
    header.push_back(int64_t(tensor.scalar_type()));
    header.push_back(message.needs_gradient[i]);
    header.push_back(tensor.dim());
    for (int64_t size : tensor.sizes()) header.push_back(size);
    bytes += aligned(int64_t(tensor.nbytes()));
  }
  int64_t header_bytes = aligned(int64_t(header.size() * sizeof(int64_t)));
  auto packed = torch::empty({header_bytes + bytes}, torch::kUInt8);
  auto* out = packed.data_ptr<uint8_t>();
  std::memcpy(out, header.data(), header.size() * sizeof(int64_t));
  out += header_bytes;
  for (const auto& tensor : message.tensors) {
    auto contiguous = tensor.to(torch::kCPU).contiguous();
    if (contiguous.numel() > 0) std::memcpy(out, contiguous.data_ptr(), contiguous.nbytes());
    out += aligned(int64_t(contiguous.nbytes()));
  }
  return packed;
}

Message unpack(const torch::Tensor& bytes) {
  int64_t words = bytes.numel() / int64_t(sizeof(int64_t)), at = 0;
  const auto* header = reinterpret_cast<const int64_t*>(bytes.data_ptr<uint8_t>());
  auto cut_off = [&] { return Failure(concat("[message] cut off or damaged: ", bytes.numel(), " bytes")); };
  auto next = [&] {
    if (at >= words) throw cut_off();
    return header[at++];
  };
  // Of words that follow.
  auto count_of = [&] {
    int64_t count = next();
    if (count < 0 || count > words - at) throw cut_off();
    return size_t(count);
  };
  struct Description {
    torch::ScalarType dtype;
    std::vector<int64_t> sizes;
  };
  Message message;
  std::vector<Description> descriptions(count_of());
  for (auto& description : descriptions) {
    description.dtype = torch::ScalarType(next());
    message.needs_gradient.push_back(next() != 0);
    description.sizes.resize(count_of());
    for (auto& size : description.sizes) size = next();
  }
  int64_t offset = aligned(at * int64_t(sizeof(int64_t)));
  for (const auto& [dtype, sizes] : descriptions) {
    int64_t length = int64_t(torch::elementSize(dtype));
    for (int64_t size : sizes)
      if (size < 0 || __builtin_mul_overflow(length, size, &length)) throw cut_off();
    if (length > bytes.numel() - offset) throw cut_off();
    auto* data = bytes.data_ptr<uint8_t>() + offset;
    message.tensors.push_back(torch::from_blob(
        data, sizes, [bytes](void*) {}, torch::dtype(dtype)));
    offset += aligned(length);
  }
  if (offset != bytes.numel()) throw cut_off();
  return message;
}

}  // namespace bigmac
