#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/flat_hash_map.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "bigmac/schedule/operator.h"

namespace bigmac {

// Counts the bytes that libtorch's allocators hand out, by the rank and module whose operator asked for them,
// until they are freed, on whichever rank's thread that is. Bytes a thread allocates outside an operator are
// not counted. Finding out whose the bytes are that are freed takes time; where all ranks that are watched
// are one, `total` only counts what they allocate, in operators or not, and free.
class MemoryLedger : public std::enable_shared_from_this<MemoryLedger> {
 public:
  enum class Counts { by_module, total };
  // Of one kind of device.
  explicit MemoryLedger(Counts counts = Counts::by_module, c10::DeviceType device = c10::kCPU)
      : counts_what_(counts), device_(device) {}

  struct Bytes {
    int64_t live = 0;
    int64_t peak = 0;
  };
  Bytes bytes(int rank, Module module) const;
  int64_t live(int rank) const;  // of all modules; of all ranks where the total is counted
  void reset_peaks();

  // While it lives, this thread's allocations and frees are reported to the ledger. What was counted should
  // also be freed under a watch: else it counts until its address is used again.
  class Watch {
   public:
    explicit Watch(const std::shared_ptr<MemoryLedger>& ledger);
    ~Watch();
    Watch(const Watch&) = delete;

   private:
    struct Guard;
    std::unique_ptr<Guard> guard_;
  };

  // While it lives, this thread allocates for this module of this rank.
  class Scope {
   public:
    Scope(int rank, Module module);
    ~Scope();
    Scope(const Scope&) = delete;
  };

  c10::DeviceType device() const { return device_; }
  void report(void* pointer, int64_t bytes);

 private:
  struct Count {
    std::atomic<int64_t> live{0}, peak{0};
  };
  struct Block {
    Count* count = nullptr;
    int64_t bytes = 0;
  };
  // Blocks by their address, in parts with a lock each: ranks that are threads allocate at the same time.
  struct Part {
    std::mutex mutex;
    ska::flat_hash_map<void*, Block> blocks;
  };
  static constexpr size_t kParts = 64;

  Count& count_of(int rank, Module module);
  Part& part_of(void* pointer);

  const Counts counts_what_;
  const c10::DeviceType device_;
  std::atomic<int64_t> total_{0};
  mutable std::mutex mutex_;
  std::map<std::pair<int, Module>, Count> counts_;
  std::array<Part, kParts> parts_;
};

}  // namespace bigmac
