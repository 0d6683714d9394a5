#include "bigmac/train/sharded_values.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac::train {
namespace {

const std::vector<std::string> kGathers{"collective", "one-sided"};

// `memory`: of as many bytes, or empty.
void give_memory(const torch::Tensor& tensor, at::DataPtr memory, size_t bytes) {
  tensor.storage().set_nbytes(bytes);
  tensor.storage().set_data_ptr(std::move(memory));
}

void allocate(const torch::Tensor& tensor) {
  auto fresh = torch::empty({tensor.numel()}, tensor.options());
  size_t bytes = fresh.storage().nbytes();
  give_memory(tensor, fresh.storage().set_data_ptr(at::DataPtr(nullptr, tensor.device())), bytes);
}

void release(const torch::Tensor& tensor) {
  give_memory(tensor, at::DataPtr(nullptr, tensor.device()), 0);
}

}  // namespace

Gather gather_from_name(const std::string& text) {
  auto found = std::find(kGathers.begin(), kGathers.end(), text);
  if (found == kGathers.end()) throw InvalidInput(unknown_name("gather", text, kGathers));
  return Gather(found - kGathers.begin());
}
std::string name(Gather gather) {
  return kGathers[size_t(gather)];
}

ShardedValues::ShardedValues(torch::Tensor whole, Group& group, Gather gather)
    : whole_(std::move(whole)), group_(group) {
  int64_t shard = whole_.numel() / group.size();
  own_ = whole_.narrow(0, group.index() * shard, shard).clone();
  if (gather == Gather::one_sided) window_ = group.make_window(own_);
  free();
}

void ShardedValues::start_gather() {
  if (has_memory_) return;
  allocate(whole_);
  has_memory_ = true;
  pending_ = window_ ? window_->start_gather(whole_) : group_.start_all_gather(own_, whole_);
}

void ShardedValues::finish_gather() {
  start_gather();
  if (auto pending = std::move(pending_)) pending->wait();
}

void ShardedValues::free() {
  if (pending_) finish_gather();
  if (has_memory_) release(whole_);
  has_memory_ = false;
}

void ShardedValues::update(const std::function<void()>& write) {
  if (!window_) return write();
  wait_for_all(group_);
  write();
  window_->set_shard(own_);
  wait_for_all(group_);
}

void wait_for_all(Group& group) {
  group.start_all_reduce(torch::zeros({1}))->wait();
}

}  // namespace bigmac::train
