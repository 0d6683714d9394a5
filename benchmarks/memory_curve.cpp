// The peak bytes that libtorch's allocator holds for encoder, generator and backbone on each rank, over the
// number of microbatches, nested and three-phase.
//
//   memory_curve CONFIG.yaml [PICTURE.svg]

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>

#include "bigmac/common/atomic_file.h"
#include "bigmac/demo/batches.h"
#include "bigmac/demo/model.h"
#include "bigmac/picture/chart.h"
#include "bigmac/runtime/threads_transport.h"

namespace bigmac {
namespace {

using Bytes = std::array<int64_t, 3>;  // by Module

// Of the second step: the first one allocates the gradients.
std::vector<Bytes> peaks_by_rank(const demo::Config& config, const data::Dataset& dataset) {
  auto ledger = std::make_shared<MemoryLedger>();
  std::vector<Bytes> peaks(static_cast<size_t>(config.options.ranks()));
  auto system = demo::make_system(config);
  auto batches = demo::make_batches(config, dataset);
  run_threads(int(config.options.ranks()), [&](Transport& transport) {
    at::set_num_threads(1);
    MemoryLedger::Watch watch(ledger);  // also while gradients are freed between the steps
    train::Trainer trainer(system, batches, config.options, transport, ledger);
    trainer.compute_gradients(0);
    transport.barrier();
    if (transport.rank() == 0) ledger->reset_peaks();
    transport.barrier();
    trainer.compute_gradients(1);
    for (auto module : {Module::backbone, Module::encoder, Module::generator})
      peaks[size_t(transport.rank())][size_t(module)] = ledger->bytes(transport.rank(), module).peak;
  });
  return peaks;
}

void run(const std::string& file, const char* picture) {
  auto config = demo::read_config(file);
  // Half of each microbatch's samples are captioned and half are drawn, so that all microbatches are alike.
  config.batch.caption_share = 0;
  config.batch.draw_share = 0;
  config.batch.hear_share = 0;
  config.options.dp = 1;
  auto dataset = data::load_dataset(config.data);
  ChartPanel panel{"encoder's peak MiB on a rank"};
  std::printf("Peak MiB of one step, P=%ld V=%ld, %ld samples a microbatch\n", long(config.options.pp),
              long(config.options.vpp), long(config.batch.samples));
  std::printf("%-12s %4s %5s %9s %10s %9s\n", "schedule", "M", "rank", "encoder", "generator", "backbone");
  for (auto arrangement : {Arrangement::nested, Arrangement::three_phase}) {
    panel.series.push_back({std::string(name(arrangement))});
    for (int64_t microbatches : {8, 16, 32, 64}) {
      config.options.schedule = arrangement;
      config.options.microbatches = microbatches;
      auto peaks = peaks_by_rank(config, dataset);
      double most = 0;
      for (size_t rank = 0; rank < peaks.size(); ++rank) {
        auto mib = [&](Module module) { return double(peaks[rank][size_t(module)]) / (1 << 20); };
        most = std::max(most, mib(Module::encoder));
        std::printf("%-12s %4ld %5zu %9.2f %10.2f %9.2f\n", std::string(name(arrangement)).c_str(),
                    long(microbatches), rank, mib(Module::encoder), mib(Module::generator),
                    mib(Module::backbone));
      }
      panel.series.back().points.push_back({double(microbatches), most});
      std::fflush(stdout);
    }
  }
  if (!picture) return;
  auto svg = to_svg({"Encoder activations", "microbatches M", true, {panel}, false, 620, 300});
  AtomicFile out(picture);
  out.write(svg.data(), svg.size());
  out.publish();
}

}  // namespace
}  // namespace bigmac

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: memory_curve CONFIG.yaml [PICTURE.svg]\n";
    return 2;
  }
  try {
    bigmac::run(argv[1], argc == 3 ? argv[2] : nullptr);
    return 0;
  } catch (const bigmac::InvalidInput& error) {
    std::cerr << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
