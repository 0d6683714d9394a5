#pragma once

#include "bigmac/runtime/bundle.h"

namespace bigmac {

// What one operator hands to another: tensors of any shapes and dtypes, each with whether its receiver owes a
// gradient for it. A backward message holds one gradient for each tensor of the forward that is owed one.
struct Message {
  Tensors tensors;
  std::vector<bool> needs_gradient;  // one a tensor
  std::string layout{};              // of the bundle that it was
};

// Detached values; those that require a gradient are owed one.
Message message_of(const Bundle& values);

// The tensors as leaves of a graph of their own: those owed a gradient require one.
Bundle leaves_of(const Message& message, torch::Device device);

// Several messages as one, whose first tensor holds how many tensors, and bytes of layout, each has; and
// back.
Message join(std::vector<Message> parts);
std::vector<Message> split(Message message);

// A message as one contiguous byte tensor on the CPU, and back. The bytes carry shapes, dtypes, flags
// and the layout.
torch::Tensor pack(const Message& message);
Message unpack(const torch::Tensor& bytes);  // tensors share memory with `bytes`

// A text as a message, and back.
Message message_of(const std::string& text);
std::string text_of(const Message& message);

}  // namespace bigmac
