#include "bigmac/runtime/executor.h"

#include <chrono>
#include <mutex>
#include <thread>

#include "bigmac/runtime/gather.h"
#include "bigmac/runtime/threads_transport.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/nest.h"
#include "tests/runtime/processes.h"
#include "tests/runtime/toy_model.h"

namespace bigmac {
namespace {

using namespace std::chrono_literals;

constexpr double kTolerance = 1e-6;  // part of what passes between stages is in single precision

std::string describe(const Step& step) {
  return concat("P=", step.ranks, " V=", step.chunks, " M=", step.microbatches, " G=", step.group, " ",
                name(step.arrangement));
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
  SCOPED_TRACE(describe(options.step));
  auto plain = run_plainly(options);
  EXPECT_LT(distance(run_in_threads(options), plain), kTolerance);
  for (const auto& [name, gradient] : plain.gradients) {
    if (name == "encoder" || name == "generator") continue;
    EXPECT_GT(gradient.abs().max().item<double>(), 1e-4) << name;
  }
}

TEST(Executor, GivesTheGradientsOfPlainAutogradNestedAndThreePhase) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (int chunks = 1; chunks <= 3; ++chunks)
      for (auto arrangement : {Arrangement::nested, Arrangement::three_phase})
        for (int64_t units : {1, 3})
          expect_plain_gradients({toy_step(ranks, chunks, units * ranks, arrangement)});
}

TEST(Executor, GivesTheGradientsOfPlainAutogradForEveryGroupSize) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (int chunks = 1; chunks <= 3; ++chunks) {
      auto step = toy_step(ranks, chunks, 7, Arrangement::llm_only);
      if (chunks == 1) {
        expect_plain_gradients({step});
        continue;
      }
      for (step.group = ranks; step.group <= step.microbatches; ++step.group)
        if (int64_t rest = step.microbatches % step.group; rest == 0 || rest >= ranks)
          expect_plain_gradients({step});
    }
}

TEST(Executor, GivesTheGradientsOfPlainAutogradForNestedGroupsLargerThanP) {
  auto step = toy_step(2, 2, 12, Arrangement::nested);
  step.warmup_units = 6;
  for (step.group = 2; step.group <= 6; step.group += 2) expect_plain_gradients({step});
}

TEST(Executor, RunsAnEncoderWithoutTrainableParameters) {
  for (int ranks : {1, 3})
    for (auto arrangement : {Arrangement::nested, Arrangement::three_phase}) {
      ToyOptions options{toy_step(ranks, 2, 2 * ranks, arrangement)};
      options.trained_encoder = false;
      expect_plain_gradients(options);
      EXPECT_FALSE(run_in_threads(options).gradients.contains("encoder"));
    }
}

TEST(Executor, RunsStepsInWhichNoOrEveryMicrobatchHasEncoderInputOrTarget) {
  for (uint8_t encoder : {0, 1})
    for (uint8_t generator : {0, 1}) {
      auto step = toy_step(2, 2, 6, Arrangement::nested);
      step.encoder.assign(6, encoder);
      step.generator.assign(6, generator);
      expect_plain_gradients({step});
    }
}

TEST(Executor, GivesTheGradientsOfPlainAutogradInProcesses) {
  BIGMAC_NEEDS_PROCESSES();
  roles::run("executor.gradients", 3);
}

const bool gradients_role = roles::add("executor.gradients", [](Transport& transport, const std::string&) {
  for (int chunks : {1, 2})
    for (auto arrangement : {Arrangement::nested, Arrangement::three_phase}) {
      ToyOptions options{toy_step(3, chunks, 9, arrangement)};
      auto got = run_rank(options, transport);
      if (transport.rank() != 0) continue;
      double off = distance(got, run_plainly(options));
      if (!(off < kTolerance)) throw Failure(concat(describe(options.step), ": gradients are off by ", off));
    }
});

TEST(Executor, AccumulatesTheGradientsOfSeveralSteps) {
  ToyOptions options{toy_step(2, 2, 4, Arrangement::nested)};
  auto plain = run_plainly(options);
  run_threads(2, [&](Transport& transport) {
    ToyModel model(options, transport.rank());
    auto schedule = make_schedule(options.step);
    Executor executor(schedule, transport);
    for (int step = 0; step < 3; ++step) executor.run(model);
    for (const auto& [name, parameter] : model.parameters()) {
      if (name == "encoder" || name == "generator") continue;
      EXPECT_TRUE(torch::allclose(parameter.grad(), plain.gradients.at(name) * 3, 1e-6, 1e-6)) << name;
    }
  });
}

TEST(Executor, RunsExactlyItsRowInOrder) {
  for (auto arrangement : {Arrangement::nested, Arrangement::three_phase})
    for (int ranks : {1, 2, 4})
      for (int chunks : {1, 2}) {
        ToyOptions options{toy_step(ranks, chunks, 3 * ranks, arrangement)};
        SCOPED_TRACE(describe(options.step));
        auto schedule = make_schedule(options.step);
        run_threads(ranks, [&](Transport& transport) {
          ToyModel model(options, transport.rank());
          model.every_loss = true;
          std::vector<Operator> ran;
          model.on_operator = [&](const Operator& op) { ran.push_back(op); };
          auto result = Executor(schedule, transport).run(model);
          auto row = schedule.row(transport.rank());
          std::vector<Operator> expected(row.begin(), row.end());
          EXPECT_TRUE(ran == expected) << "rank " << transport.rank();
          std::vector<Operator> recorded;
          for (const auto& slice : result.record.operators) recorded.push_back(slice.op);
          EXPECT_TRUE(recorded == expected) << "rank " << transport.rank();
        });
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
  void fail(const std::string& reason) override { inner_.fail(reason); }

  std::vector<int64_t> sent, posted, received;

 private:
  Transport& inner_;
};

TEST(Executor, SendsAndReceivesWhatTheInboxPlans) {
  for (auto arrangement : {Arrangement::nested, Arrangement::three_phase, Arrangement::llm_only})
    for (int ranks : {1, 2, 3, 4}) {
      ToyOptions options{toy_step(ranks, 2, 2 * ranks, arrangement)};
      SCOPED_TRACE(describe(options.step));
      auto schedule = make_schedule(options.step);
      run_threads(ranks, [&](Transport& transport) {
        Counting counting(transport);
        ToyModel model(options, transport.rank());
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
  auto schedule = make_schedule(toy_step(2, 1, 6, Arrangement::nested));
  for (int ranks : {1, 3}) try {
      run_threads(ranks, [&](Transport& transport) { Executor executor(schedule, transport); });
      ADD_FAILURE() << "accepted " << ranks << " ranks";
    } catch (const RankFailure& failure) {
      auto text = concat("[executor] the schedule is for 2 ranks, the transport has ", ranks);
      EXPECT_NE(std::string(failure.what()).find(text), std::string::npos) << failure.what();
    }
}

// A step of the toy model, timed as a trainer times it.
Timeline timed_step(const ToyOptions& options, Transport& transport,
                    const std::function<void(const Operator&)>& on_operator) {
  ToyModel model(options, transport.rank());
  model.on_operator = on_operator;
  auto schedule = make_schedule(options.step);
  Executor executor(schedule, transport);
  executor.run(model);  // libtorch's first calls are slow
  transport.barrier();
  double start = now();
  auto result = executor.run(model);
  return gather_timeline(transport, result.record, start, now());
}

struct Span {
  double start, end;
};

TEST(Recorder, SplitsEachRanksTimeIntoPartsThatDoNotOverlapAndAddUpToTheStep) {
  for (int chunks : {1, 2}) {
    ToyOptions options{toy_step(4, chunks, 16, Arrangement::nested)};
    run_threads(4, [&](Transport& transport) {
      auto timeline = timed_step(options, transport, [](const Operator&) {});
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
  ToyOptions options{toy_step(3, 1, 6, Arrangement::llm_only)};
  run_threads(3, [&](Transport& transport) {
    auto timeline = timed_step(options, transport, [&](const Operator& op) {
      if (transport.rank() == 1 && op == backbone_forward(0, 4))
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
  ToyOptions options{toy_step(4, 2, 8, Arrangement::nested)};
  std::vector<Timeline> timelines(4);
  run_threads(4, [&](Transport& transport) {
    timelines[size_t(transport.rank())] = timed_step(options, transport, [](const Operator&) {});
  });
  auto flat = [](const Timeline& timeline) {
    std::vector<double> all{timeline.start, timeline.end};
    for (const auto& row : timeline.rows) {
      for (const auto& slice : row.operators)
        all.insert(all.end(), {slice.start, slice.end, double(slice.op.microbatch), double(slice.op.phase)});
      for (const auto& interval : row.intervals)
        all.insert(all.end(), {interval.start, interval.end, double(interval.peer), double(interval.spent)});
    }
    return all;
  };
  auto schedule = make_schedule(options.step);
  for (const auto& timeline : timelines) {
    EXPECT_EQ(flat(timeline), flat(timelines[0]));
    ASSERT_EQ(timeline.rows.size(), 4u);
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(timeline.rows[size_t(rank)].operators.size(), schedule.row(rank).size());
  }
}

}  // namespace
}  // namespace bigmac
