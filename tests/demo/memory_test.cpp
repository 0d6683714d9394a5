#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "bigmac/runtime/threads_transport.h"
#include "tests/demo/support.h"

namespace bigmac::demo {
namespace {

// Names of one length, so that all microbatches are of one size.
data::Dataset even_dataset() {
  auto noise = noise_dataset(60, 16);
  std::vector<data::Pair> pairs;
  for (int64_t i = 0; i < noise.size(); ++i)
    pairs.push_back({"picture" + std::to_string(100 + i), std::to_string(i), false});
  return data::Dataset(std::move(pairs), noise.pictures());
}

constexpr int kRanks = 2;

struct Peaks {
  int64_t encoder[kRanks], generator[kRanks];
};

// Peak bytes of a step, behind one that has allocated the gradients. Every microbatch has a picture and a
// target.
Peaks measure(Arrangement arrangement, int64_t microbatches) {
  auto config = small_config(kRanks, 2, microbatches, "float32");
  config.options.schedule = arrangement;
  // Larger than what is under way between the ranks at any moment, which depends on their threads' timing.
  config.encoder.layers = config.generator.layers = 3;
  config.encoder.hidden = config.generator.hidden = 32;
  config.batch.caption_share = 0;
  config.batch.draw_share = 0;
  config.complete();
  auto dataset = even_dataset();
  auto system = make_system(config);
  auto batches = make_batches(config, dataset);
  auto ledger = std::make_shared<MemoryLedger>();
  Peaks peaks;
  run_threads(kRanks, [&](Transport& transport) {
    at::set_num_threads(1);
    MemoryLedger::Watch watch(ledger);  // also while gradients are freed between the steps
    train::Trainer trainer(system, batches, config.options, transport, ledger);
    trainer.compute_gradients(0);
    transport.barrier();
    if (transport.rank() == 0) ledger->reset_peaks();
    transport.barrier();
    trainer.compute_gradients(1);
    peaks.encoder[transport.rank()] = ledger->bytes(transport.rank(), Module::encoder).peak;
    peaks.generator[transport.rank()] = ledger->bytes(transport.rank(), Module::generator).peak;
  });
  return peaks;
}

TEST(Memory, OfEncoderAndGeneratorIsFlatInMicrobatchesWithNesting) {
  auto least = measure(Arrangement::nested, 8);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_GT(least.encoder[rank], 0);
    EXPECT_GT(least.generator[rank], 0);
  }
  for (int64_t microbatches : {16, 32, 64}) {
    auto peaks = measure(Arrangement::nested, microbatches);
    for (int rank = 0; rank < kRanks; ++rank) {
      SCOPED_TRACE(concat("M=", microbatches, " rank ", rank));
      EXPECT_NEAR(double(peaks.encoder[rank]) / double(least.encoder[rank]), 1, 0.02);
      EXPECT_NEAR(double(peaks.generator[rank]) / double(least.generator[rank]), 1, 0.02);
    }
  }
}

TEST(Memory, OfTheEncoderGrowsWithMicrobatchesWhenAllItsForwardsComeFirst) {
  Peaks of_8 = measure(Arrangement::three_phase, 8), of_32 = measure(Arrangement::three_phase, 32),
        of_64 = measure(Arrangement::three_phase, 64);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_GE(of_64.encoder[rank], 5 * of_8.encoder[rank]) << "rank " << rank;
    // A straight line through the three.
    double slope = double(of_64.encoder[rank] - of_8.encoder[rank]) / 56;
    EXPECT_NEAR(double(of_32.encoder[rank]), double(of_8.encoder[rank]) + 24 * slope,
                0.05 * double(of_32.encoder[rank]))
        << "rank " << rank;
  }
}

}  // namespace
}  // namespace bigmac::demo
