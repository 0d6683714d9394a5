#include "bigmac/train/parameter_unit.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/train/flat.h"

namespace bigmac::train {
namespace {

const std::vector<std::string> kShardings{"replicated", "states", "full"};

int64_t memory_of(const torch::Tensor& tensor) {
  return tensor.defined() ? int64_t(tensor.storage().nbytes()) : 0;
}

}  // namespace

Sharding sharding_from_name(const std::string& text) {
  auto found = std::find(kShardings.begin(), kShardings.end(), text);
  if (found == kShardings.end()) throw InvalidInput(unknown_name("sharding", text, kShardings));
  return Sharding(found - kShardings.begin());
}
std::string name(Sharding sharding) {
  return kShardings[size_t(sharding)];
}

ParameterUnit::ParameterUnit(std::string name, std::vector<Parameter> parameters,
                             std::unique_ptr<Group> group, UnitOptions options)
    : name_(std::move(name)), group_(std::move(group)), options_(std::move(options)) {
  for (auto& parameter : parameters)
    (parameter.trained() ? parameters_ : frozen_).push_back(std::move(parameter));
  bool full = sharding() == Sharding::full;
  if (full && !frozen_.empty())
    sharded_frozen_ =
        std::make_unique<ShardedValues>(flatten(frozen_, group_->size(), name_), *group_, options_.gather);
  if (parameters_.empty()) return;
  shard_ = shard_elements(parameters_, group_->size());
  values_ = flatten(parameters_, group_->size(), name_);
  if (full)
    sharded_ = std::make_unique<ShardedValues>(values_, *group_, options_.gather);
  else
    gradients_ = torch::zeros({values_.numel()}, values_.options().dtype(main_dtype(values_.scalar_type())));
  make_segments();
  zero_gradients();
}

torch::Tensor ParameterUnit::shard_of(const torch::Tensor& flat) const {
  return flat.narrow(0, group_->index() * shard_, shard_);
}

// In the model's dtype, what this rank updates.
torch::Tensor ParameterUnit::own_values() const {
  if (sharded_) return sharded_->own();
  return is_sharded() ? shard_of(values_) : values_;
}

void ParameterUnit::make_segments() {
  auto own = own_values();
  bool wide = main_dtype(own.scalar_type()) == own.scalar_type();
  main_ = wide ? own.detach() : own.to(main_dtype(own.scalar_type()));
  reduced_ = is_sharded() ? torch::zeros_like(main_) : gradients_;
  int64_t begin = is_sharded() ? group_->index() * shard_ : 0, end = begin + main_.numel(), offset = 0;
  for (const auto& parameter : parameters_) {
    int64_t from = std::max(offset, begin), to = std::min(offset + parameter.leaves[0].numel(), end);
    offset += parameter.leaves[0].numel();
    if (from >= to) continue;
    auto piece = [&](const torch::Tensor& of) { return of.narrow(0, from - begin, to - from).detach(); };
    segments_.push_back({piece(main_), piece(reduced_), parameter.leaves[0].dim() >= 2});
  }
}

void ParameterUnit::zero_gradients() {
  if (empty()) return;
  torch::NoGradGuard no_grad;
  if (sharded_) {
    reduced_.zero_();
    return;
  }
  gradients_.zero_();
  int64_t offset = 0;
  for (auto& parameter : parameters_) {
    for (auto& leaf : parameter.leaves) leaf.mutable_grad() = torch::Tensor();
    auto& first = parameter.leaves[0];
    if (first.scalar_type() == gradients_.scalar_type())
      first.mutable_grad() = gradients_.narrow(0, offset, first.numel()).view(first.sizes());
    offset += first.numel();
  }
}

void ParameterUnit::fold() {
  torch::NoGradGuard no_grad;
  int64_t offset = 0;
  for (auto& parameter : parameters_) {
    int64_t size = parameter.leaves[0].numel();
    auto sum = gradients_.narrow(0, offset, size);
    for (auto& leaf : parameter.leaves) {
      auto& gradient = leaf.mutable_grad();
      if (!gradient.defined() || gradient.data_ptr() == sum.data_ptr()) continue;
      sum.view(leaf.sizes()).add_(gradient);
      gradient = torch::Tensor();
    }
    offset += size;
  }
}

void ParameterUnit::start_reduction() {
  if (empty()) return;
  if (sharded_) {
    if (options_.replicas) reduction_ = options_.replicas->start_all_reduce(reduced_);
    return;
  }
  fold();
  reduction_ = is_sharded() ? group_->start_reduce_scatter(gradients_, reduced_)
                            : group_->start_all_reduce(gradients_);
}

void ParameterUnit::finish_reduction() {
  if (auto reduction = std::move(reduction_)) reduction->wait();
}

void ParameterUnit::start_gather() {
  if (sharded_) sharded_->start_gather();
  if (sharded_frozen_) sharded_frozen_->start_gather();
}

void ParameterUnit::finish_gather() {
  if (sharded_) sharded_->finish_gather();
  if (sharded_frozen_) sharded_frozen_->finish_gather();
}

void ParameterUnit::free_values() {
  if (sharded_) sharded_->free();
  if (sharded_frozen_) sharded_frozen_->free();
}

void ParameterUnit::begin_gradients() {
  if (empty()) return;
  torch::NoGradGuard no_grad;
  wait_for_pushed();
  gradients_ = torch::zeros({values_.numel()}, main_.options());
  if (values_.scalar_type() != gradients_.scalar_type()) return;
  auto views = named_views(gradients_, parameters_);
  for (auto& parameter : parameters_) parameter.leaves[0].mutable_grad() = views.at(parameter.name);
}

void ParameterUnit::push_gradients(int64_t turn) {
  if (empty()) return;
  fold();
  for (auto& parameter : parameters_) parameter.leaves[0].mutable_grad() = torch::Tensor();
  if (options_.gather == Gather::one_sided)
    return sharded_->window().add(turn, std::exchange(gradients_, {}));
  pushed_ = torch::empty_like(reduced_);
  reduction_ = group_->start_reduce_scatter(gradients_, pushed_);
}

void ParameterUnit::wait_for_pushed() {
  if (!pushed_.defined()) return;
  torch::NoGradGuard no_grad;
  finish_reduction();
  gradients_ = torch::Tensor();
  reduced_.add_(std::exchange(pushed_, {}));
}

void ParameterUnit::take_sums(int64_t turns) {
  if (empty() || options_.gather != Gather::one_sided) return;
  torch::NoGradGuard no_grad;
  auto sum = sharded_->window().take_sum(turns);
  if (sum.defined()) reduced_.add_(sum);
}

void ParameterUnit::publish() {
  if (empty()) return;
  torch::NoGradGuard no_grad;
  auto own = own_values();
  auto round = [&] {
    if (main_.scalar_type() != own.scalar_type()) own.copy_(main_);
  };
  if (sharded_) return sharded_->update(round);
  round();
  if (is_sharded()) group_->start_all_gather(own.clone(), values_)->wait();
}

std::map<std::string, torch::Tensor> ParameterUnit::whole(const std::vector<torch::Tensor>& flat) const {
  if (empty()) return {};
  torch::NoGradGuard no_grad;
  auto own = torch::zeros({main_.numel()}, main_.options());
  int64_t at = 0;
  for (const auto& piece : flat) {
    own.narrow(0, at, piece.numel()).copy_(piece.flatten());
    at += piece.numel();
  }
  auto all = own;
  if (is_sharded()) {
    all = torch::empty({values_.numel()}, main_.options());
    group_->start_all_gather(own, all)->wait();
  }
  return named_views(all, parameters_);
}

std::vector<torch::Tensor> ParameterUnit::pieces(const std::map<std::string, torch::Tensor>& whole) const {
  std::vector<torch::Tensor> list;
  if (empty()) return list;
  auto all = torch::zeros({values_.numel()}, main_.options());
  copy_named(whole, parameters_, all);
  auto own = is_sharded() ? shard_of(all) : all;
  int64_t at = 0;
  for (const auto& segment : segments_) {
    list.push_back(own.narrow(0, at, segment.values.numel()).clone());
    at += segment.values.numel();
  }
  return list;
}

std::map<std::string, torch::Tensor> ParameterUnit::values() const {
  std::vector<torch::Tensor> list;
  for (const auto& segment : segments_) list.push_back(segment.values);
  return whole(list);
}

std::map<std::string, torch::Tensor> ParameterUnit::gradients() const {
  std::vector<torch::Tensor> list;
  for (const auto& segment : segments_) list.push_back(segment.gradient);
  return whole(list);
}

void ParameterUnit::set_values(const std::map<std::string, torch::Tensor>& whole) {
  if (empty()) return;
  torch::NoGradGuard no_grad;
  auto list = pieces(whole);
  for (size_t i = 0; i < list.size(); ++i) segments_[i].values.copy_(list[i]);
  publish();
}

std::map<std::string, torch::Tensor> ParameterUnit::frozen_values() const {
  std::map<std::string, torch::Tensor> named;
  for (const auto& parameter : frozen_)
    if (!sharded_frozen_) named[parameter.name] = parameter.leaves[0].detach();
  if (!sharded_frozen_) return named;
  const auto& own = sharded_frozen_->own();
  auto all = torch::empty({own.numel() * group_->size()}, own.options());
  group_->start_all_gather(own, all)->wait();
  return named_views(all, frozen_);
}

void ParameterUnit::set_frozen_values(const std::map<std::string, torch::Tensor>& whole) {
  torch::NoGradGuard no_grad;
  if (!sharded_frozen_) {
    for (auto& parameter : frozen_)
      for (auto& leaf : parameter.leaves) leaf.copy_(whole.at(parameter.name));
    return;
  }
  const auto& own = sharded_frozen_->own();
  auto all = torch::zeros({own.numel() * group_->size()}, own.options());
  copy_named(whole, frozen_, all);
  sharded_frozen_->update([&] { own.copy_(all.narrow(0, group_->index() * own.numel(), own.numel())); });
}

int64_t ParameterUnit::bytes() const {
  int64_t bytes = memory_of(values_) + memory_of(gradients_) + memory_of(pushed_);
  if (main_.defined() && !main_.is_alias_of(values_)) bytes += memory_of(main_);
  if (sharded_ && !main_.is_alias_of(sharded_->own())) bytes += memory_of(sharded_->own());
  if (is_sharded()) bytes += memory_of(reduced_);
  if (sharded_frozen_) bytes += memory_of(sharded_frozen_->own());
  if (!frozen_.empty() && sharded_frozen_)
    bytes += memory_of(frozen_[0].leaves[0]);
  else
    for (const auto& parameter : frozen_) bytes += int64_t(parameter.leaves[0].nbytes());
  return bytes;
}

}  // namespace bigmac::train
