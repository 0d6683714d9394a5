#include "bigmac/runtime/executor.h"

#include <chrono>
#include <mutex>
#include <thread>

#include "bigmac/runtime/gather.h"
#include "bigmac/runtime/threads_transport.h"
#include "tests/runtime/processes.h"
#include "tests/runtime/toy_model.h"

namespace bigmac {
namespace {

using namespace std::chrono_literals;

constexpr double kTolerance = 1e-10;

std::string describe(const ToyOptions& options) {
  const Step& step = options.step;
  return concat(shape(step), " ", name(step.base), " G=", step.group, " ", name(step.arrangement),
                options.order.empty() ? "" : ", reordered");
}

ToyResult run_in_threads(const ToyOptions& options) {
  ToyResult result;
  run_threads(int(options.step.ranks), [&](Transport& transport) {
    auto own = run_rank(options, transport);
    if (transport.rank() == 0) result = std::move(own);
  });
  return result;
}

void expect_plain_gradients(const ToyOptions& options) {
  SCOPED_TRACE(describe(options));
  auto plain = run_plainly(options);
  EXPECT_LT(distance(run_in_threads(options), plain), kTolerance);
  for (const auto& [name, gradient] : plain.gradients) {
    if (!name.starts_with("stage")) continue;
    EXPECT_GT(gradient.abs().max().item<double>(), 1e-4) << name;
  }
}

struct Shape {
  int64_t ranks, chunks, microbatches;
};

struct Shapes {
  Base base;
  std::vector<Shape> list;
};
void PrintTo(const Shapes& shapes, std::ostream* out) {
  *out << name(shapes.base);
}

// For every base one rank, fewer microbatches than ranks, and counts that do not divide each other.
const Shapes kShapes[] = {
    {Base::gpipe, {{1, 1, 1}, {2, 1, 3}, {2, 2, 5}, {3, 2, 4}, {4, 1, 2}}},
    {Base::one_f_one_b, {{1, 1, 3}, {2, 1, 1}, {3, 1, 7}, {4, 1, 2}, {4, 1, 12}}},
    {Base::interleaved, {{1, 2, 3}, {2, 2, 5}, {2, 3, 1}, {3, 2, 3}, {3, 3, 10}, {4, 2, 13}}},
    {Base::zb_h1, {{1, 1, 2}, {2, 1, 5}, {3, 1, 2}, {4, 1, 9}}},
    {Base::zb_v, {{1, 2, 3}, {2, 2, 2}, {2, 2, 5}, {3, 2, 11}, {4, 2, 9}}},
    {Base::dualpipe_v, {{1, 2, 3}, {2, 2, 3}, {3, 2, 11}, {4, 2, 2}, {4, 2, 9}}},
};

class Bases : public testing::TestWithParam<Shapes> {};

TEST_P(Bases, GiveTheGradientsOfPlainAutograd) {
  for (const auto& [ranks, chunks, microbatches] : GetParam().list)
    for (auto arrangement : {Arrangement::llm_only, Arrangement::nested, Arrangement::three_phase})
      for (bool in_order : {true, false}) {
        ToyOptions options{toy_step(ranks, chunks, microbatches, arrangement), {}};
        options.step.base = GetParam().base;
        if (!in_order) options.order = toy_order(microbatches);
        expect_plain_gradients(options);
      }
}

INSTANTIATE_TEST_SUITE_P(Executor, Bases, testing::ValuesIn(kShapes), [](const auto& shapes) {
  std::string text(name(shapes.param.base));
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
});

TEST(Executor, GivesTheGradientsOfPlainAutogradForEveryGroupSize) {
  for (int ranks : {2, 3})
    for (auto arrangement : {Arrangement::llm_only, Arrangement::nested}) {
      auto step = toy_step(ranks, 2, 7, arrangement);
      for (step.group = ranks; step.group <= step.microbatches; ++step.group)
        expect_plain_gradients({step, {}});
    }
}

TEST(Executor, GivesTheGradientsOfPlainAutogradForItemsThatAreNotSpread) {
  for (int chunks : {1, 2}) {
    auto step = toy_step(3, chunks, 7, Arrangement::nested);
    step.spread = false;
    step.generator_unit = 2;
    expect_plain_gradients({step, toy_order(7)});
  }
}

TEST(Executor, RunsTablesInWhichARankHasManySharesOfAUnit) {
  for (auto arrangement : {Arrangement::nested_fill, Arrangement::optimus, Arrangement::megatron})
    for (auto base : {Base::one_f_one_b, Base::interleaved, Base::zb_h1, Base::zb_v})
      for (bool in_order : {true, false}) {
        bool one_chunk = base == Base::one_f_one_b || base == Base::zb_h1;
        ToyOptions options{toy_step(3, one_chunk ? 1 : 2, 8, arrangement), {}};
        options.step.base = base;
        if (!in_order) options.order = toy_order(8);
        expect_plain_gradients(options);
      }
}

TEST(Executor, RunsTablesWhoseStagesAreOnSomeRanksOnly) {
  expect_plain_gradients({toy_step(4, 1, 7, Arrangement::disttrain), {}});
  expect_plain_gradients({toy_step(4, 1, 7, Arrangement::disttrain), toy_order(7)});
}

TEST(Executor, RunsEncodersWithoutTrainableParameters) {
  for (int ranks : {1, 3})
    for (auto arrangement : {Arrangement::nested, Arrangement::three_phase})
      for (auto base : {Base::interleaved, Base::zb_v}) {
        ToyOptions options{toy_step(ranks, 2, 2 * ranks, arrangement), {}};
        options.step.base = base;
        options.trained_encoders = false;
        expect_plain_gradients(options);
        EXPECT_FALSE(run_in_threads(options).gradients.contains("image"));
      }
}

TEST(Executor, RunsStepsInWhichNoOrEveryMicrobatchHasItems) {
  for (bool encodes : {false, true})
    for (bool generates : {false, true}) {
      auto step = toy_step(2, 2, 6, Arrangement::nested);
      for (auto& module : step.modules) {
        bool full = module.kind == Module::encoder ? encodes : generates;
        module.items = full ? one_item_each("", module.kind, 6).items : std::vector<Item>{};
      }
      expect_plain_gradients({step, {}});
    }
}

TEST(Executor, GivesTheGradientsOfPlainAutogradInProcesses) {
  BIGMAC_NEEDS_PROCESSES();
  roles::run("executor.gradients", 3);
}

const bool gradients_role = roles::add("executor.gradients", [](Transport& transport, const std::string&) {
  for (auto base : {Base::one_f_one_b, Base::interleaved, Base::zb_h1, Base::zb_v, Base::dualpipe_v})
    for (auto arrangement : {Arrangement::nested, Arrangement::three_phase}) {
      bool one_chunk = base == Base::one_f_one_b || base == Base::zb_h1;
      ToyOptions options{toy_step(3, one_chunk ? 1 : 2, 8, arrangement), toy_order(8)};
      options.step.base = base;
      auto got = run_rank(options, transport);
      if (transport.rank() != 0) continue;
      double off = distance(got, run_plainly(options));
      if (!(off < kTolerance)) throw Failure(concat(describe(options), ": gradients are off by ", off));
    }
});

TEST(Executor, AccumulatesTheGradientsOfSeveralSteps) {
  for (auto base : {Base::interleaved, Base::zb_v}) {
    ToyOptions options{toy_step(2, 2, 4, Arrangement::nested), {}};
    options.step.base = base;
    auto plain = run_plainly(options);
    run_threads(2, [&](Transport& transport) {
      auto schedule = toy_schedule(options);
      ToyModel model(options, schedule.step, transport.rank());
      Executor executor(schedule, transport);
      for (int step = 0; step < 3; ++step) executor.run(model);
      for (const auto& [name, parameter] : model.parameters()) {
        if (!name.starts_with("stage") && name != "first") continue;
        EXPECT_TRUE(torch::allclose(parameter.grad(), plain.gradients.at(name) * 3, 1e-9, 1e-9)) << name;
      }
    });
  }
}

// What the model is called for, or gets a gradient of, when this operator runs.
ToyCall call_of(const Schedule& schedule, const Operator& op) {
  const Step& step = schedule.step;
  bool splits = op.phase == Phase::input || op.phase == Phase::weight;
  ToyCall call{op.module, splits ? Phase::backward : op.phase, op.chunk, {}};
  if (op.module == Module::backbone) {
    call.items.push_back({int(step.declared(op.index)), 0});
    return call;
  }
  const Share& share = schedule.shares.list[op.index];
  call.number = share.module;
  const auto& items = schedule.module_of(share).items;
  for (uint32_t i : schedule.shares.items_of(share)) {
    int number = 0;
    while (i > uint32_t(number) && items[i - uint32_t(number) - 1].microbatch == items[i].microbatch)
      ++number;
    call.items.push_back({int(step.declared(items[i].microbatch)), number});
  }
  return call;
}

TEST(Executor, RunsExactlyItsRowInOrder) {
  for (auto base : {Base::one_f_one_b, Base::interleaved, Base::zb_h1, Base::dualpipe_v})
    for (auto arrangement : {Arrangement::nested, Arrangement::three_phase})
      for (int ranks : {1, 2, 4}) {
        bool one_chunk = base == Base::one_f_one_b || base == Base::zb_h1;
        ToyOptions options{toy_step(ranks, one_chunk ? 1 : 2, 3 * ranks, arrangement), toy_order(3 * ranks)};
        options.step.base = base;
        options.every_loss = true;
        SCOPED_TRACE(describe(options));
        auto schedule = toy_schedule(options);
        run_threads(ranks, [&](Transport& transport) {
          ToyModel model(options, schedule.step, transport.rank());
          std::vector<ToyCall> calls, expected;
          model.on_call = [&](const ToyCall& call) { calls.push_back(call); };
          auto result = Executor(schedule, transport).run(model);
          auto row = schedule.row(transport.rank());
          Dependencies dependencies(schedule);
          for (const auto& op : row) {
            bool backbone = op.module == Module::backbone;
            bool takes_nothing = backbone && dependencies.stage(transport.rank(), op.chunk) == 0 &&
                                 dependencies.encoder_shares(op.index).empty();
            if (backbone && op.phase == (takes_nothing ? Phase::input : Phase::weight)) continue;
            expected.push_back(call_of(schedule, op));
          }
          EXPECT_TRUE(calls == expected) << "rank " << transport.rank();
          std::vector<Operator> recorded;
          for (const auto& slice : result.record.row.operators) recorded.push_back(slice.op);
          EXPECT_TRUE(recorded == std::vector<Operator>(row.begin(), row.end()))
              << "rank " << transport.rank();
        });
      }
}

// A model that forgets an item.
class Forgetful : public ToyModel {
 public:
  using ToyModel::ToyModel;
  Module forgets = Module::encoder;

  std::vector<Bundle> encode(int module, std::span<const ModelItem> items) override {
    auto values = ToyModel::encode(module, items);
    if (forgets == Module::encoder) values.pop_back();
    return values;
  }
  Output forward(int chunk, int microbatch, const Inputs& inputs) override {
    auto output = ToyModel::forward(chunk, microbatch, inputs);
    if (forgets == Module::generator) output.items.clear();
    return output;
  }
};

TEST(Executor, NamesTheOperatorWhoseModelForgotAnItem) {
  for (auto [forgets, text] :
       {std::pair(Module::encoder,
                  "[executor] image F unit 0 items 0,1,2 of microbatch 0: the model gave "
                  "values of 2 items, not 3"),
        std::pair(Module::generator,
                  "[executor] backbone F chunk 0 microbatch 0: the model gave values for 0 "
                  "items of 'drawing', not 1")}) {
    ToyOptions options{toy_step(1, 1, 1, Arrangement::nested), {}};
    auto schedule = toy_schedule(options);
    Forgetful model(options, schedule.step, 0);
    model.forgets = forgets;
    auto transports = make_threads_group(1);
    try {
      Executor(schedule, *transports[0]).run(model);
      ADD_FAILURE() << "ran";
    } catch (const Failure& failure) {
      EXPECT_STREQ(failure.what(), text);
    }
  }
}

// Counts what goes over a transport.
class Counting : public Transport {
 public:
  explicit Counting(Transport& inner) : inner_(inner) {
    for (auto* counts : {&sent, &posted, &received}) counts->assign(size_t(inner.size()), 0);
  }
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void send(int peer, Message message) override {
    ++sent.at(size_t(peer));
    inner_.send(peer, std::move(message));
  }
  void post_receives(int peer, int64_t count) override {
    posted.at(size_t(peer)) += count;
    inner_.post_receives(peer, count);
  }
  Message receive(int peer) override {
    EXPECT_LT(received.at(size_t(peer)), posted.at(size_t(peer))) << "received before posted";
    ++received.at(size_t(peer));
    return inner_.receive(peer);
  }
  bool has_message(int peer) override { return inner_.has_message(peer); }
  void all_reduce(torch::Tensor& values) override { inner_.all_reduce(values); }
  std::unique_ptr<Group> make_group(std::vector<int> ranks) override {
    return inner_.make_group(std::move(ranks));
  }
  void fail(const std::string& reason) override { inner_.fail(reason); }
  void check() override { inner_.check(); }

  std::vector<int64_t> sent, posted, received;

 private:
  Transport& inner_;
};

TEST(Executor, SendsAndReceivesWhatTheInboxPlans) {
  for (auto arrangement : {Arrangement::nested, Arrangement::three_phase, Arrangement::llm_only})
    for (int ranks : {1, 2, 3, 4}) {
      ToyOptions options{toy_step(ranks, 2, 2 * ranks + 1, arrangement), {}};
      if (ranks % 2 == 0) options.step.base = Base::zb_v;
      SCOPED_TRACE(describe(options));
      auto schedule = toy_schedule(options);
      run_threads(ranks, [&](Transport& transport) {
        Counting counting(transport);
        ToyModel model(options, schedule.step, transport.rank());
        Executor(schedule, counting).run(model);
        auto inbox = plan_inbox(schedule, transport.rank());
        for (int peer = 0; peer < ranks; ++peer) {
          int64_t planned = int64_t(inbox.from[size_t(peer)].size());
          EXPECT_EQ(counting.posted[size_t(peer)], planned);
          EXPECT_EQ(counting.received[size_t(peer)], planned);
          EXPECT_EQ(counting.sent[size_t(peer)],
                    int64_t(plan_inbox(schedule, peer).from[size_t(transport.rank())].size()));
        }
      });
    }
}

TEST(Executor, RefusesAScheduleForAnotherNumberOfRanks) {
  auto schedule = toy_schedule({toy_step(2, 1, 6, Arrangement::nested), {}});
  for (int ranks : {1, 3}) try {
      run_threads(ranks, [&](Transport& transport) { Executor executor(schedule, transport); });
      ADD_FAILURE() << "accepted " << ranks << " ranks";
    } catch (const RankFailure& failure) {
      auto text = concat("[executor] the schedule is for 2 ranks, the transport has ", ranks);
      EXPECT_NE(std::string(failure.what()).find(text), std::string::npos) << failure.what();
    }
}

// A step of the toy model, timed as a trainer times it.
Timeline timed_step(
    const ToyOptions& options, Transport& transport,
    const std::function<void(const ToyCall&)>& on_call = [](const ToyCall&) {}) {
  auto schedule = toy_schedule(options);
  ToyModel model(options, schedule.step, transport.rank());
  model.on_call = on_call;
  Executor executor(schedule, transport);
  executor.run(model);  // libtorch's first calls are slow
  transport.barrier();
  double start = now();
  auto result = executor.run(model);
  return gather_step(transport, {std::move(result.record), start, now(), {}}).timeline;
}

struct Span {
  double start, end;
};

TEST(Recorder, SplitsEachRanksTimeIntoPartsThatDoNotOverlapAndAddUpToTheStep) {
  for (int chunks : {1, 2}) {
    ToyOptions options{toy_step(4, chunks, 16, Arrangement::nested), {}};
    run_threads(4, [&](Transport& transport) {
      auto timeline = timed_step(options, transport);
      ASSERT_EQ(timeline.rows.size(), 4u);
      auto times = rank_times(timeline);
      for (int rank = 0; rank < 4; ++rank) {
        SCOPED_TRACE(concat("rank ", rank));
        const auto& row = timeline.rows[size_t(rank)];
        std::vector<Span> spans;
        for (const auto& slice : row.operators) spans.push_back({slice.start, slice.end});
        for (size_t i = 1; i < row.operators.size(); ++i)
          EXPECT_LE(row.operators[i - 1].end, row.operators[i].start);
        for (const auto& interval : row.intervals) spans.push_back({interval.start, interval.end});
        for (size_t i = 1; i < row.intervals.size(); ++i)
          EXPECT_LE(row.intervals[i - 1].end, row.intervals[i].start);
        std::sort(spans.begin(), spans.end(), [](auto& a, auto& b) { return a.start < b.start; });
        // Idle time by its gaps.
        double idle = 0, at = timeline.start;
        for (const auto& span : spans) {
          EXPECT_LE(at, span.start);
          EXPECT_LE(span.start, span.end);
          idle += span.start - at;
          at = span.end;
        }
        EXPECT_LE(at, timeline.end);
        idle += timeline.end - at;
        const auto& time = times[size_t(rank)];
        EXPECT_GT(time.busy, 0);
        EXPECT_GT(time.transfer, 0);
        EXPECT_NEAR(time.busy + time.transfer + time.wait + idle, timeline.length(),
                    0.005 * timeline.length());
        EXPECT_NEAR(time.idle, idle, 0.005 * timeline.length());
      }
    });
  }
}

TEST(Recorder, NamesThePeerAndTheOperatorThatAPlantedDelayIsWaitedFor) {
  constexpr double kDelay = 0.2;
  ToyOptions options{toy_step(3, 1, 6, Arrangement::llm_only), {}};
  run_threads(3, [&](Transport& transport) {
    auto timeline = timed_step(options, transport, [&](const ToyCall& call) {
      if (transport.rank() == 1 && call == ToyCall{Module::backbone, Phase::forward, 0, {{4, 0}}})
        std::this_thread::sleep_for(std::chrono::duration<double>(kDelay));
    });
    double waited = 0, most_elsewhere = 0;
    for (const auto& interval : timeline.rows[2].intervals) {
      if (interval.spent != Spent::wait) continue;
      double length = interval.end - interval.start;
      if (interval.peer == 1 && interval.op == backbone_forward(0, 4))
        waited += length;
      else
        most_elsewhere = std::max(most_elsewhere, length);
    }
    EXPECT_GT(waited, kDelay / 2);
    EXPECT_LT(most_elsewhere, waited);
    for (const auto& slice : timeline.rows[1].operators) {
      if (slice.op != backbone_forward(0, 4)) continue;
      EXPECT_GE(slice.end - slice.start, kDelay);
    }
  });
}

TEST(Recorder, GivesEveryRankTheSameTimeline) {
  ToyOptions options{toy_step(4, 2, 8, Arrangement::nested), {}};
  std::vector<Timeline> timelines(4);
  run_threads(
      4, [&](Transport& transport) { timelines[size_t(transport.rank())] = timed_step(options, transport); });
  auto flat = [](const Timeline& timeline) {
    std::vector<double> all{timeline.start, timeline.end};
    for (const auto& row : timeline.rows) {
      for (const auto& slice : row.operators)
        all.insert(all.end(), {slice.start, slice.end, double(slice.op.index), double(slice.op.phase)});
      for (const auto& interval : row.intervals)
        all.insert(all.end(), {interval.start, interval.end, double(interval.peer), double(interval.spent)});
    }
    return all;
  };
  auto schedule = toy_schedule(options);
  for (const auto& timeline : timelines) {
    EXPECT_EQ(flat(timeline), flat(timelines[0]));
    ASSERT_EQ(timeline.rows.size(), 4u);
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(timeline.rows[size_t(rank)].operators.size(), schedule.row(rank).size());
  }
}

}  // namespace
}  // namespace bigmac
