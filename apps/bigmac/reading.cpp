#include "apps/bigmac/reading.h"

#include <memory>

#include "bigmac/command/progress.h"

namespace bigmac {

void add_reading_options(CLI::App& command, ReadOptions& options) {
  auto take = [](int64_t& field) { return [&field](int64_t value) { field = value; }; };
  add_whole(command, "--measured-vpp", 1, take(options.chunks),
            "V of the measured run, where its files do not say it")
      ->default_str("1");
  add_whole(command, "--measured-group", 1, take(options.group), "G of its interleaved order, likewise")
      ->default_str("P");
  add_whole(command, "--measured-microbatches", 1, take(options.microbatches),
            "M of one step, where a trace holds several and its events do not say their microbatch");
}

ReadOptions with_progress(ReadOptions options) {
  constexpr int64_t kMebibyte = 1 << 20, kLarge = 64, kStep = 4;
  options.progress = [bar = std::shared_ptr<Progress>(), told = int64_t{0}](int64_t read,
                                                                            int64_t all) mutable {
    int64_t count = read / kMebibyte, total = all / kMebibyte;
    if (total < kLarge || count < told + kStep) return;
    if (!bar) bar = std::make_shared<Progress>("read", total);
    told = count;
    bar->done(count, "MiB");
    if (count + kStep > total) bar.reset();
  };
  return options;
}

}  // namespace bigmac
