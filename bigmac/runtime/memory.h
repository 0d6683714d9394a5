#pragma once

#include <c10/core/Allocator.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "bigmac/schedule/operator.h"

namespace bigmac {

// Counts the bytes that libtorch's allocators hand out, by the rank and module whose operator asked for them,
// until they are freed, on whichever rank's thread that is. Bytes a thread allocates outside an operator are
// not counted.
class MemoryLedger : public std::enable_shared_from_this<MemoryLedger> {
 public:
  struct Bytes {
    int64_t live = 0;
    int64_t peak = 0;
  };
  Bytes bytes(int rank, Module module) const;
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

  void report(void* pointer, int64_t bytes);

 private:
  using Key = std::pair<int, Module>;
  struct Block {
    Key key;
    int64_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<Key, Bytes> bytes_;
  std::unordered_map<void*, Block> blocks_;
};

}  // namespace bigmac
