#include "bigmac/runtime/memory.h"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <optional>

#include "bigmac/runtime/torch_versions.h"

namespace bigmac {
namespace {

// Whose operator runs on this thread, and where its bytes are counted, once that is known.
struct Current {
  int rank;
  Module module;
  const MemoryLedger* ledger = nullptr;
  void* count = nullptr;
};
thread_local std::optional<Current> current;

class Reporter : public c10::MemoryReportingInfoBase {
 public:
  explicit Reporter(std::shared_ptr<MemoryLedger> ledger) : ledger_(std::move(ledger)) {}

  void reportMemoryUsage(void* pointer, int64_t bytes, MemoryTotal, MemoryTotal,
                         c10::Device device) override {
    if (device.type() == ledger_->device()) ledger_->report(pointer, bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }

 private:
  std::shared_ptr<MemoryLedger> ledger_;
};

}  // namespace

struct MemoryLedger::Watch::Guard {
  c10::DebugInfoGuard guard;
};

MemoryLedger::Watch::Watch(const std::shared_ptr<MemoryLedger>& ledger)
    : guard_(new Guard{{c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Reporter>(ledger)}}) {}
MemoryLedger::Watch::~Watch() = default;

MemoryLedger::Scope::Scope(int rank, Module module) {
  current = Current{rank, module, nullptr, nullptr};
}
MemoryLedger::Scope::~Scope() {
  current.reset();
}

MemoryLedger::Bytes MemoryLedger::bytes(int rank, Module module) const {
  std::lock_guard lock(mutex_);
  auto found = counts_.find({rank, module});
  if (found == counts_.end()) return {};
  return {found->second.live.load(), found->second.peak.load()};
}

int64_t MemoryLedger::live(int rank) const {
  if (counts_what_ == Counts::total) return total_;
  std::lock_guard lock(mutex_);
  int64_t live = 0;
  for (auto at = counts_.lower_bound({rank, Module{}}); at != counts_.end() && at->first.first == rank; ++at)
    live += at->second.live.load();
  return live;
}

void MemoryLedger::reset_peaks() {
  std::lock_guard lock(mutex_);
  for (auto& [key, count] : counts_) count.peak = count.live.load();
}

MemoryLedger::Count& MemoryLedger::count_of(int rank, Module module) {
  std::lock_guard lock(mutex_);
  return counts_[{rank, module}];
}

MemoryLedger::Part& MemoryLedger::part_of(void* pointer) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  return parts_[(address >> 6 ^ address >> 12) % kParts];
}

void MemoryLedger::report(void* pointer, int64_t bytes) {
  if (counts_what_ == Counts::total) {
    total_.fetch_add(bytes, std::memory_order_relaxed);
    return;
  }
  bool counts = bytes > 0 && current;
  if (counts && current->ledger != this) {
    current->count = &count_of(current->rank, current->module);
    current->ledger = this;
  }
  auto* count = counts ? static_cast<Count*>(current->count) : nullptr;
  auto& part = part_of(pointer);
  {
    std::lock_guard lock(part.mutex);
    // Also before an allocation: what lay here may have been freed where nobody watched.
    auto found = part.blocks.find(pointer);
    if (found != part.blocks.end()) {
      found->second.count->live -= found->second.bytes;
      if (count)
        found->second = {count, bytes};
      else
        part.blocks.erase(found);
    } else if (count) {
      part.blocks.emplace(pointer, Block{count, bytes});
    }
  }
  if (!count) return;
  int64_t live = count->live += bytes;
  for (int64_t peak = count->peak; live > peak && !count->peak.compare_exchange_weak(peak, live);) {
  }
}

}  // namespace bigmac
