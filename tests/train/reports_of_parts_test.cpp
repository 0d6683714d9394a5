#include <algorithm>

#include "tests/train/small_system.h"

// What people in the field have reported of training parts of a model, and of what crosses ranks for it.
namespace bigmac::train {
namespace {

TEST(Reports, AWholeStepOfTextHasNoEncoderOperatorAndItsGradientIsZeroNotMissing) {
  auto options = layout(2, 1, 2, 2);
  options.steps = 10;
  auto text = small_samples(std::vector<SampleShape>(5, {6, 4, {}}));
  auto mixed = small_samples({{6, 4, {}}, {5, 2, {2}}, {4, 3, {1, 1}}, {6, 4, {}}, {7, 2, {}}});
  auto system = small_system();
  auto gradients = run_ranks(system, text, options, [](Trainer& trainer) {
    for (auto phase : {Phase::forward, Phase::backward})
      EXPECT_EQ(count_operators(trainer.schedule(), Module::encoder, phase), 0);
  });
  auto plain = run_plainly(system, text, options).gradients;
  EXPECT_LT(distance(gradients, plain).most, kTolerance);
  for (const char* name : {"vision.tower.weight", "vision.tower.bias", "vision.projector.weight"}) {
    ASSERT_TRUE(gradients.contains(name));
    EXPECT_EQ(gradients.at(name).abs().max().item<double>(), 0) << name;
  }
  // A step of text, then one with pictures in one replica's microbatches alone: replicas stay the same.
  Collector start, after_text, after_both;
  run_threads(4, [&](Transport& world) {
    Trainer trainer(
        system, [&](int64_t step) { return step == 0 ? text : mixed; }, options, world);
    start.add(trainer);
    trainer.train_step(0);
    after_text.add(trainer);
    trainer.train_step(1);
    after_both.add(trainer);
  });
  for (const auto& [name, holders] : after_both.copies()) {
    EXPECT_EQ(holders.size(), name.starts_with("vision.") ? 4u : 2u) << name;
    for (const auto& holder : holders) EXPECT_TRUE(same_bits(holder, holders[0])) << name;
  }
  for (const char* name : {"vision.tower.weight", "vision.projector.bias"}) {
    EXPECT_TRUE(same_bits(after_text.copies().at(name)[0], start.copies().at(name)[0])) << name;
    EXPECT_FALSE(same_bits(after_both.copies().at(name)[0], start.copies().at(name)[0])) << name;
  }
}

// What an encoder keeps is looked at as the first stage's backwards run, on all ranks.
TEST(Reports, AFrozenEncoderKeepsNothingAndHasNoBackward) {
  for (bool frozen : {true, false}) {
    SCOPED_TRACE(frozen ? "frozen" : "trained");
    auto ledger = std::make_shared<MemoryLedger>();
    std::vector<int64_t> live;
    SmallOptions small;
    small.on_first = [&](torch::Tensor& hidden) {
      if (!hidden.requires_grad()) return;
      hidden = hidden.view_as(hidden);
      hidden.register_hook([&](const torch::Tensor& gradient) {
        int64_t bytes = 0;
        for (int rank : {0, 1}) bytes += ledger->bytes(rank, Module::encoder).live;
        live.push_back(bytes);
        return gradient;
      });
    };
    auto system = small_system(small);
    auto options = layout(2, 1, 1, 6);
    if (frozen) options.trained.freeze = {"vision.*"};
    auto samples = small_samples(std::vector<SampleShape>(6, {5, 3, {40}}));
    Schedule schedule;
    NamedTensors gradients;
    run_threads(2, [&](Transport& world) {
      Trainer trainer(system, always(samples), options, world, ledger);
      trainer.compute_gradients(0);
      auto all = trainer.gather_gradients();
      if (world.rank() != 0) return;
      schedule = trainer.schedule();
      gradients = std::move(all);
    });
    EXPECT_EQ(schedule.step.modules[0].trained, !frozen);
    EXPECT_GT(count_operators(schedule, Module::encoder, Phase::forward), 0);
    EXPECT_EQ(count_operators(schedule, Module::encoder, Phase::backward) == 0, frozen);
    EXPECT_EQ(gradients.contains("vision.tower.weight"), !frozen);
    auto far = distance(gradients, run_plainly(system, samples, options).gradients);
    EXPECT_LT(far.most, kTolerance) << far.name;
    ASSERT_GE(live.size(), 6u);
    // By the last backward all forwards have been used; a trained encoder's backward is still to come.
    int64_t at_last = live[5];
    if (frozen) {
      EXPECT_EQ(at_last, 0);
    } else {
      EXPECT_GT(at_last, 40 * 8 * 8);
    }
  }
}

TEST(Reports, ProjectorOnlyTrainingLeavesAllElseAsItIs) {
  auto options = layout(4, 1, 1, 5);
  options.trained = {{"*"}, {"*.projector.*"}};
  auto system = small_system();
  auto samples = small_samples(std::vector<SampleShape>(5, {5, 3, {2}}));
  auto got = expect_plain(system, samples, options);
  EXPECT_EQ(got.gradients.size(), 2u);
  EXPECT_GT(got.gradients.at("vision.projector.weight").abs().max().item<double>(), 1e-6);
  NamedTensors before, after;
  run_threads(4, [&](Transport& world) {
    Trainer trainer(system, always(samples), options, world);
    for (const auto& parameter : trainer.model().parameters_of_chunk(0)) EXPECT_FALSE(parameter.trained());
    auto first = trainer.gather_parameters();
    trainer.train_step(0);
    auto second = trainer.gather_parameters();
    if (world.rank() == 0) before = std::move(first), after = std::move(second);
  });
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(before.size(), 4u + 2 + 12);
  for (const auto& [name, value] : before)
    EXPECT_EQ(same_bits(value, after.at(name)), name.find(".projector.") == std::string::npos) << name;
}

// A rank's transport that notes what leaves it, once it is asked to.
class Watched : public Transport {
 public:
  struct Sent {
    int from, to;
    size_t tensors, owed;
  };
  Watched(Transport& inner, std::vector<Sent>& sent, std::mutex& mutex)
      : inner_(inner), sent_(sent), mutex_(mutex) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void begin() { notes_ = true; }
  void send(int peer, Message message) override {
    if (notes_) {
      std::lock_guard lock(mutex_);
      const auto& owed = message.needs_gradient;
      sent_.push_back(
          {rank(), peer, message.tensors.size(), size_t(std::count(owed.begin(), owed.end(), true))});
    }
    inner_.send(peer, std::move(message));
  }
  void post_receives(int peer, int64_t count) override { inner_.post_receives(peer, count); }
  Message receive(int peer) override { return inner_.receive(peer); }
  bool has_message(int peer) override { return inner_.has_message(peer); }
  void all_reduce(torch::Tensor& values) override { inner_.all_reduce(values); }
  std::unique_ptr<Group> make_group(std::vector<int> ranks) override {
    return inner_.make_group(std::move(ranks));
  }
  void fail(const std::string& reason) override { inner_.fail(reason); }
  void check() override { inner_.check(); }

 private:
  Transport& inner_;
  std::vector<Sent>& sent_;
  std::mutex& mutex_;
  bool notes_ = false;
};

TEST(Reports, ABoundaryWithTensorsWithoutGradientGetsOneGradientMessageBack) {
  constexpr int kRanks = 3, kMicrobatches = 4;
  for (bool first_stage_frozen : {false, true}) {
    SCOPED_TRACE(first_stage_frozen ? "first stage frozen" : "all trained");
    auto system = small_system({.vision = false});
    auto samples = small_samples(std::vector<SampleShape>(kMicrobatches), false);
    auto options = layout(kRanks, 1, 1, kMicrobatches);
    if (first_stage_frozen) options.trained.freeze = {"llm.embedding.*", "llm.layers.0.*", "llm.layers.1.*"};
    std::vector<Watched::Sent> sent;
    std::mutex mutex;
    run_threads(kRanks, [&](Transport& world) {
      Watched watched(world, sent, mutex);
      Trainer trainer(system, always(samples), options, watched);
      watched.begin();
      trainer.compute_gradients(0);
    });
    std::map<std::pair<int, int>, int> messages;
    for (const auto& [from, to, tensors, owed] : sent) {
      ++messages[{from, to}];
      size_t trained = first_stage_frozen && std::min(from, to) == 0 ? 0 : 1;
      EXPECT_EQ(tensors, from < to ? 4 : trained) << from << " to " << to;
      EXPECT_EQ(owed, from < to ? trained : 0) << from << " to " << to;
    }
    std::map<std::pair<int, int>, int> expected;
    for (int rank = 0; rank + 1 < kRanks; ++rank)
      expected[{rank, rank + 1}] = expected[{rank + 1, rank}] = kMicrobatches;
    EXPECT_EQ(messages, expected);
  }
}

TEST(Reports, TiedWeightsOnDifferentRanksStayTheSameBitForBit) {
  for (auto [pp, dp] : {std::pair<int64_t, int64_t>{4, 1}, {2, 2}}) {
    SCOPED_TRACE(concat("P=", pp, " DP=", dp));
    auto system = small_system({.tied = true});
    auto samples = small_samples(std::vector<SampleShape>(8, {6, 4, {2}}));
    auto options = layout(pp, 1, dp, 4 / dp);
    options.steps = 10;
    expect_plain(system, samples, options);
    Collector start, end;
    run_threads(4, [&](Transport& world) {
      Trainer trainer(system, always(samples), options, world);
      start.add(trainer);
      for (int64_t step = 0; step < 3; ++step) trainer.train_step(step);
      end.add(trainer);
    });
    const auto& holders = end.copies().at("llm.embedding.weight");
    EXPECT_EQ(holders.size(), size_t(2 * dp));
    for (const auto& holder : holders) EXPECT_TRUE(same_bits(holder, holders[0]));
    EXPECT_FALSE(same_bits(holders[0], start.copies().at("llm.embedding.weight")[0]));
    EXPECT_FALSE(end.copies().contains("llm.head.weight"));
  }
}

}  // namespace
}  // namespace bigmac::train
