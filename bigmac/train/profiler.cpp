#include "bigmac/train/profiler.h"

#include <chrono>
#include <filesystem>

namespace bigmac::train {
namespace {

constexpr int kFirstRounds = 16;
constexpr int kLaterRounds = 8;        // the first waits for ranks that come late
constexpr int64_t kStepsBetween = 16;  // of those covered, between two looks at the clocks

// Seconds since 1970.
double utc_of_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Profiled profiled(const Step& step, int rank) {
  Profiled of{rank, int32_t(step.ranks), int32_t(step.chunks), {}};
  for (const auto& module : step.modules) of.modules.push_back({module.name, module.kind, module.trained});
  return of;
}

}  // namespace

Profiler::Profiler(const ProfileOptions& options, const Step& declared, Transport& pipeline, int64_t replica,
                   int64_t replicas)
    : options_(options), pipeline_(pipeline), microbatches_(declared.microbatches) {
  clocks_.exchange(pipeline_, kFirstRounds);
  if (options_.folder.empty()) return;
  auto folder = std::filesystem::path(options_.folder);
  if (replicas > 1) folder /= concat("replica", replica);
  log_ = std::make_unique<EventLog>(folder.string(), profiled(declared, pipeline_.rank()), options_.keep);
}

void Profiler::begin(int64_t step) {
  covered_ = options_.covers(step);
  activity_began_ = now();
  if (!covered_) return;
  if (covered_steps_++ % kStepsBetween == kStepsBetween - 1) clocks_.exchange(pipeline_, kLaterRounds);
  log_->begin({step, microbatches_, activity_began_, utc_of_now() - activity_began_, clocks_.fit()});
  log_->doing({.since = activity_began_, .activity = Activity::data});
}

void Profiler::end_activity(Activity activity, double start) {
  if (!covered_) return;
  Event event;
  event.start = start;
  event.end = now();
  event.activity = activity;
  log_->add(event);
  log_->doing({});
}

void Profiler::start() {
  end_activity(Activity::data, activity_began_);
  step_.began = now();
  if (covered_) log_->began(step_.began);
}

void Profiler::end(RowRecord record, const Schedule& schedule, double ran) {
  const auto& last = schedule.row(pipeline_.rank()).back();
  step_.record = std::move(record);
  step_.ended = now();
  step_.record.row.intervals.push_back({Spent::transfer, -1, last, ran, step_.ended});
  if (!covered_) return;
  Event event;
  event.start = ran;
  event.end = step_.ended;
  event.op = last;
  if (last.module != Module::backbone) {
    const auto& share = schedule.shares.list[last.index];
    event.module = int16_t(share.module);
    event.number = uint32_t(share.unit);
  }
  event.activity = Activity::exchange;
  log_->add(event);
  log_->end(step_.ended);
}

void Profiler::begin_update() {
  activity_began_ = now();
  if (covered_) log_->doing({.since = activity_began_, .activity = Activity::update});
}

void Profiler::end_update() {
  end_activity(Activity::update, activity_began_);
}

MeasuredRanks Profiler::gather() {
  clocks_.exchange(pipeline_, kFirstRounds);
  auto step = step_;
  step.clock = clocks_.fit();
  return gather_step(pipeline_, step);
}

}  // namespace bigmac::train
