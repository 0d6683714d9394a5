#include "bigmac/system/batch.h"

#include <bit>
#include <cmath>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/system/random.h"

namespace bigmac {
namespace {

void check_declared(const System& system, const Values& sample, size_t number) {
  for (const auto& name : sample.names())
    if (!find_port(system.data(), name))
      throw InvalidInput(concat("[batch] sample ", number, " holds '", name,
                                "', which the system's data do not declare: ",
                                unknown_name("value", name, names_of(system.data()))));
}

// How many items a module has in a sample.
size_t count_items(const System& system, const ModuleDeclaration& module, const Values& sample,
                   size_t number) {
  const std::string* first = nullptr;
  for (const auto& port : module.consumes) {
    if (!find_port(system.data(), port.name)) continue;
    if (!first) first = &port.name;
    if (sample.count(port.name) != sample.count(*first))
      throw InvalidInput(concat("[batch] sample ", number, " has ", sample.count(*first), " tensors of '",
                                *first, "' and ", sample.count(port.name), " of '", port.name, "', of which ",
                                name(module.kind), " '", module.name, "' takes one each an item"));
  }
  return first ? sample.count(*first) : 0;
}

}  // namespace

std::vector<int64_t> microbatch_sizes(int64_t samples, int64_t microbatches) {
  if (microbatches < 1)
    throw InvalidInput(concat("[batch] ", microbatches, " microbatches, expected 1 or more"));
  if (samples == 0) throw InvalidInput("[batch] a step has no samples; its batches gave none");
  if (samples < microbatches)
    throw InvalidInput(concat("[batch] ", samples, " samples for ", microbatches,
                              " microbatches (of all replicas); take at most ", samples,
                              " microbatches or at least ", microbatches, " samples"));
  int64_t each = (samples + microbatches - 1) / microbatches;
  std::vector<int64_t> sizes;
  bool fills = each * (microbatches - 1) < samples;
  for (int64_t m = 0; m < microbatches; ++m)
    sizes.push_back(fills ? std::min(each, samples - each * m)
                          : samples / microbatches + (m < samples % microbatches));
  return sizes;
}

Batch::Batch(const System& system, std::vector<Values> samples, int64_t microbatches, int64_t replicas,
             int64_t replica)
    : samples_(int64_t(samples.size())), first_(replica * microbatches) {
  auto sizes = microbatch_sizes(samples_, microbatches * replicas);
  digest_ = hash_of(uint64_t(samples_), "samples");
  for (size_t i = 0; i < samples.size(); ++i) {
    check_declared(system, samples[i], i);
    for (const auto& name : samples[i].names())
      digest_ = hash_of(digest_, name, {int64_t(samples[i].count(name))});
  }
  for (const auto& loss : system.losses()) {
    double count = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      try {
        count += loss.count(samples[i]);
      } catch (const InvalidInput& error) {
        throw InvalidInput(concat("[batch] loss '", loss.name, "' counts sample ", i, ": ", error.what()));
      }
    }
    if (!(count >= 0) || !std::isfinite(count))
      throw InvalidInput(concat("[batch] loss '", loss.name, "' is counted as ", count,
                                " over the step, expected a finite number from 0"));
    digest_ = hash_of(digest_, loss.name, {std::bit_cast<int64_t>(count)});
    scales_.push_back(count > 0 ? loss.weight / count : 0);
  }
  items_.resize(system.modules().size());
  size_t number = 0;
  for (int64_t m = 0; m < microbatches * replicas; ++m) {
    bool own = m / microbatches == replica;
    if (own) {
      microbatches_.emplace_back();
      for (auto& list : items_) list.emplace_back();
    }
    for (int64_t i = 0; i < sizes[size_t(m)]; ++i, ++number) {
      for (size_t n = 0; n < items_.size(); ++n) {
        auto count = count_items(system, system.modules()[n], samples[number], number);
        if (!own) continue;
        for (size_t index = 0; index < count; ++index) items_[n].back().push_back({int(i), int(index)});
      }
      if (own) microbatches_.back().push_back(std::move(samples[number]));
    }
  }
}

std::vector<bigmac::Item> Batch::step_items(const System& system, int module) const {
  const auto& declaration = system.modules()[size_t(module)];
  std::vector<bigmac::Item> all;
  for (size_t m = 0; m < microbatches_.size(); ++m)
    for (const auto& item : items_[size_t(module)][m]) {
      double size = 1;
      if (declaration.size) {
        size = declaration.size(
            item_data(system, declaration, microbatches_[m][size_t(item.sample)], item.index));
        if (!(size > 0) || !std::isfinite(size))
          throw InvalidInput(concat("[batch] an item of '", declaration.name, "' has size ", size,
                                    ", expected a finite number above 0"));
      }
      all.push_back({uint32_t(m), size});
    }
  return all;
}

Values item_data(const System& system, const ModuleDeclaration& module, const Values& sample, int index) {
  Values item;
  for (const auto& port : module.consumes)
    if (find_port(system.data(), port.name))
      item.set_each_later(port.name, 1, [&sample, name = port.name, index](size_t) {
        return sample.item(name, size_t(index));
      });
  return item;
}

}  // namespace bigmac
