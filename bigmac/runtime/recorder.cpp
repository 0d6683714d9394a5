#include "bigmac/runtime/recorder.h"

namespace bigmac {
Recorder::Recorder(const Schedule& schedule, int rank, RecorderOptions options)
    : schedule_(schedule), options_(std::move(options)) {
  for (int64_t stage = 0; stage < schedule.step.stages(); ++stage)
    if (rank_of_stage(schedule.step, stage) == rank) stage_of_chunk_.push_back(stage);
}

void Recorder::begin_operator(const Operator& op) {
  op_ = op;
  ended_ = now();
  if (!options_.log) return;
  event_ = {.op = op};
  if (op.module == Module::backbone) {
    event_.microbatch = schedule_.step.declared(op.index);
    event_.number = uint32_t(stage_of_chunk_.at(op.chunk));
    return;
  }
  const auto& share = schedule_.shares.list[op.index];
  event_.number = uint32_t(share.unit);
  event_.module = int16_t(share.module);
  if (op.phase == Phase::forward || op.phase == Phase::generate) log_items(share);
}

void Recorder::log_items(const Share& share) {
  const auto& module = schedule_.module_of(share);
  for (uint32_t item : schedule_.shares.items_of(share)) {
    auto event = event_;
    event.activity = Activity::item;
    event.start = module.items[item].size;
    event.microbatch = schedule_.step.declared(module.items[item].microbatch);
    event.number = item;
    options_.log->add(event);
  }
}

void Recorder::note_held(double time) {
  if (!options_.held) return;
  record_.memory.times.push_back(time);
  record_.memory.bytes.push_back(double(options_.held()));
}

double Recorder::begin(Activity activity, int peer) {
  double start = ended_;
  if (activity == Activity::compute) note_held(start);
  if (options_.log)
    options_.log->doing(
        {start, event_.op, event_.microbatch, event_.number, event_.module, int16_t(peer), activity});
  return start;
}

void Recorder::computed(double start) {
  double end = ended_ = now();
  record_.row.operators.push_back({op_, start, end});
  note_held(end);
  if (!options_.log) return;
  auto event = event_;
  event.activity = Activity::compute;
  event.start = start;
  event.end = end;
  if (const auto& bytes = record_.memory.bytes; options_.held) {
    event.held_before = int64_t(bytes[bytes.size() - 2]);
    event.held_after = int64_t(bytes.back());
  }
  options_.log->add(event);
  options_.log->doing({});
}

void Recorder::spent(Activity activity, int peer, double start, int64_t bytes) {
  double end = ended_ = now();
  record_.row.intervals.push_back(
      {spent_of(activity), peer, op_, start, end, bytes, activity == Activity::send});
  if (!options_.log) return;
  auto event = event_;
  event.activity = activity;
  event.start = start;
  event.end = end;
  event.bytes = bytes;
  event.peer = int16_t(peer);
  options_.log->add(event);
  options_.log->doing({});
}

}  // namespace bigmac
