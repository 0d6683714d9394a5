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

void to_reference(const ClockFit& clock, Timeline::Row& row, MemoryCurve& memory) {
  auto shift = [&clock](auto& spans) {
    for (auto& span : spans) {
      span.start = clock.to_reference(span.start);
      span.end = clock.to_reference(span.end);
    }
  };
  shift(row.operators);
  shift(row.intervals);
  for (double& time : memory.times) time = clock.to_reference(time);
}

}  // namespace

MeasuredRanks gather_step(Transport& transport, const RankStep& step) {
  const auto& [row, memory] = step.record;
  Message own{
      {bytes_of(row.operators), bytes_of(row.intervals), bytes_of(memory.times), bytes_of(memory.bytes),
       bytes_of(std::vector<double>{step.began, step.ended}), bytes_of(std::vector{step.clock})},
      std::vector<bool>(6, false)};
  MeasuredRanks ranks;
  bool first = true, any_memory = false;
  for (const auto& message : all_gather(transport, own)) {
    const auto& tensors = message.tensors;
    auto clock = items_of<ClockFit>(tensors[5]).at(0);
    Timeline::Row of_rank{items_of<Slice>(tensors[0]), items_of<Interval>(tensors[1])};
    MemoryCurve curve{items_of<double>(tensors[2]), items_of<double>(tensors[3])};
    auto ends = items_of<double>(tensors[4]);
    to_reference(clock, of_rank, curve);
    for (double& time : ends) time = clock.to_reference(time);
    auto& [start, end, rows] = ranks.timeline;
    start = first ? ends[0] : std::min(start, ends[0]);
    end = first ? ends[1] : std::max(end, ends[1]);
    first = false;
    rows.push_back(std::move(of_rank));
    any_memory = any_memory || !curve.times.empty();
    ranks.memory.push_back(std::move(curve));
    ranks.clock_error = std::max(ranks.clock_error, clock.error);
  }
  if (!any_memory) ranks.memory.clear();
  return ranks;
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
