#include "bigmac/runtime/message.h"

#include <algorithm>
#include <cstring>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr int64_t kAlign = 16;

int64_t aligned(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

Message message_of(const Bundle& values) {
  Message message;
  message.layout = values.layout;
  for (const auto& value : values) {
    message.tensors.push_back(value.detach());
    message.needs_gradient.push_back(value.requires_grad());
  }
  return message;
}

Bundle leaves_of(const Message& message, torch::Device device) {
  Bundle leaves({}, message.layout);
  for (size_t i = 0; i < message.tensors.size(); ++i)
    leaves.tensors.push_back(
        message.tensors[i].to(device).detach().requires_grad_(message.needs_gradient[i]));
  return leaves;
}

Message join(std::vector<Message> parts) {
  auto counts = torch::empty({int64_t(parts.size()), 2}, torch::kInt64);
  Message whole{{counts}, {false}};
  for (size_t i = 0; i < parts.size(); ++i) {
    counts.data_ptr<int64_t>()[2 * i] = int64_t(parts[i].tensors.size());
    counts.data_ptr<int64_t>()[2 * i + 1] = int64_t(parts[i].layout.size());
    whole.layout += parts[i].layout;
    for (size_t t = 0; t < parts[i].tensors.size(); ++t) {
      whole.tensors.push_back(std::move(parts[i].tensors[t]));
      whole.needs_gradient.push_back(parts[i].needs_gradient[t]);
    }
  }
  return whole;
}

std::vector<Message> split(Message message) {
  const auto counts = message.tensors.at(0);
  std::vector<Message> parts(size_t(counts.size(0)));
  size_t next = 1, written = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (int64_t left = counts.data_ptr<int64_t>()[2 * i]; left > 0; --left, ++next) {
      parts[i].tensors.push_back(std::move(message.tensors.at(next)));
      parts[i].needs_gradient.push_back(message.needs_gradient[next]);
    }
    auto length = size_t(counts.data_ptr<int64_t>()[2 * i + 1]);
    parts[i].layout = message.layout.substr(written, length);
    written += length;
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

// Layout: int64 words [tensors, then for each: dtype, flag, dimensions, sizes..., then the bytes of the
// layout], the layout, then each tensor's bytes, all parts aligned.
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
  header.push_back(int64_t(message.layout.size()));
  int64_t header_bytes = aligned(int64_t(header.size() * sizeof(int64_t)));
  int64_t layout_bytes = aligned(int64_t(message.layout.size()));
  auto packed = torch::empty({header_bytes + layout_bytes + bytes}, torch::kUInt8);
  auto* out = packed.data_ptr<uint8_t>();
  std::memcpy(out, header.data(), header.size() * sizeof(int64_t));
  out += header_bytes;
  std::copy(message.layout.begin(), message.layout.end(), out);
  out += layout_bytes;
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
  int64_t layout_bytes = next(), offset = aligned(at * int64_t(sizeof(int64_t)));
  if (layout_bytes < 0 || layout_bytes > bytes.numel() - offset) throw cut_off();
  message.layout.assign(reinterpret_cast<const char*>(bytes.data_ptr<uint8_t>() + offset),
                        size_t(layout_bytes));
  offset += aligned(layout_bytes);
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
