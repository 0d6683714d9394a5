#include "bigmac/runtime/gather.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace bigmac {
namespace {

template <class Item>
torch::Tensor bytes_of(const std::vector<Item>& items) {
  static_assert(std::is_trivially_copyable_v<Item>);
  auto bytes = torch::empty({int64_t(items.size() * sizeof(Item))}, torch::kUInt8);
  if (!items.empty()) std::memcpy(bytes.data_ptr(), items.data(), bytes.nbytes());
  return bytes;
}

template <class Item>
std::vector<Item> items_of(const torch::Tensor& bytes) {
  std::vector<Item> items(bytes.nbytes() / sizeof(Item));
  if (!items.empty()) std::memcpy(items.data(), bytes.data_ptr(), bytes.nbytes());
  return items;
}

}  // namespace

Timeline gather_timeline(Transport& transport, const Timeline::Row& row, double start, double end) {
  Message own{{bytes_of(row.operators), bytes_of(row.intervals), bytes_of(std::vector<double>{start, end})},
              {false, false, false}};
  Timeline timeline{.start = start, .end = end, .rows = {}};
  for (const auto& message : all_gather(transport, own)) {
    timeline.rows.push_back({items_of<Slice>(message.tensors[0]), items_of<Interval>(message.tensors[1])});
    auto times = items_of<double>(message.tensors[2]);
    timeline.start = std::min(timeline.start, times[0]);
    timeline.end = std::max(timeline.end, times[1]);
  }
  return timeline;
}

std::map<std::string, torch::Tensor> gather_named(
    Transport& transport, const std::vector<std::pair<std::string, torch::Tensor>>& own) {
  std::string names;
  Message message;
  for (const auto& [name, tensor] : own) {
    names += name + "\n";
    message.tensors.push_back(tensor.detach().to(torch::kCPU).clone());
    message.needs_gradient.push_back(false);
  }
  std::map<std::string, torch::Tensor> all;
  auto add = [&](const std::string& listing, const Message& from) {
    std::istringstream lines(listing);
    size_t next = 0;
    for (std::string name; std::getline(lines, name);)
      if (!all.emplace(name, from.tensors.at(next++).clone()).second)
        throw Failure(concat("[gather] two ranks hold '", name, "'"));
  };
  if (transport.rank() == 0) {
    add(names, message);
    for (int rank = 1; rank < transport.size(); ++rank) {
      transport.post_receives(rank, 2);
      auto listing = text_of(transport.receive(rank));
      add(listing, transport.receive(rank));
    }
  } else {
    transport.send(0, message_of(names));
    transport.send(0, std::move(message));
  }
  transport.barrier();
  return all;
}

}  // namespace bigmac
