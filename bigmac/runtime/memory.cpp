#include "bigmac/runtime/memory.h"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <optional>

#include "bigmac/runtime/torch_versions.h"

namespace bigmac {
namespace {

struct Current {
  int rank;
  Module module;
};
thread_local std::optional<Current> current;

class Reporter : public c10::MemoryReportingInfoBase {
 public:
  explicit Reporter(std::shared_ptr<MemoryLedger> ledger) : ledger_(std::move(ledger)) {}

  void reportMemoryUsage(void* pointer, int64_t bytes, MemoryTotal, MemoryTotal, c10::Device) override {
    ledger_->report(pointer, bytes);
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
  current = Current{rank, module};
}
MemoryLedger::Scope::~Scope() {
  current.reset();
}

MemoryLedger::Bytes MemoryLedger::bytes(int rank, Module module) const {
  std::lock_guard lock(mutex_);
  auto found = bytes_.find({rank, module});
  return found == bytes_.end() ? Bytes{} : found->second;
}

void MemoryLedger::reset_peaks() {
  std::lock_guard lock(mutex_);
  for (auto& [key, bytes] : bytes_) bytes.peak = bytes.live;
}

void MemoryLedger::report(void* pointer, int64_t bytes) {
  std::lock_guard lock(mutex_);
  // Also before an allocation: what lay here may have been freed where nobody watched.
  if (auto block = blocks_.find(pointer); block != blocks_.end()) {
    bytes_[block->second.key].live -= block->second.bytes;
    blocks_.erase(block);
  }
  if (bytes <= 0 || !current) return;
  Key key{current->rank, current->module};
  auto& count = bytes_[key];
  count.live += bytes;
  count.peak = std::max(count.peak, count.live);
  blocks_[pointer] = {key, bytes};
}

}  // namespace bigmac
