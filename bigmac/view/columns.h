#pragma once

#include <string>

#include "bigmac/timeline/recording.h"

namespace bigmac {

// A recording as the page takes it (column_file.h). Operators are numbered row by row in order of time; times
// are ticks from the timeline's start (ticks.h), and those that rise are written as differences (d).
//
//   facts      name, measured, notes, ranks, chunks, microbatches, base, schedule, start, length, per_unit,
//              modules [{name, kind, trained}], stages (by rank and chunk, -1: none), order, memory_limit,
//              shares {busy, transfer, order, bubble}, idle_over_total, idle_over_busy,
//              rank_times [{busy, transfer, order, wait, idle}], findings, rows (P + 1 offsets), waits and
//              intervals and memory (likewise), labels of shares, one a line
//   start d, duration                                by operator; rows one behind the other
//   code       module << 4 | phase                   by operator
//   chunk, index                                     by operator
//   needs_begin d, needs                             predecessors: own number - theirs
//   share_module, share_unit, share_items d          by share
//   item_microbatch, item_number, item_size          by share's item; number within its microbatch
//   path, path_gap, path_cause                       the critical path: operators' numbers
//   wait_start, wait_length, wait_kind, wait_next, wait_input, wait_culprit, wait_culprit_time
//              the longest waits in order of time; numbers of operators + 1, 0: none
//   interval_start, interval_length, interval_kind, interval_peer
//   memory_time d, memory_bytes
std::string to_columns(const Recording& recording);

}  // namespace bigmac
