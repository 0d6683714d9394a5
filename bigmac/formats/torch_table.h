#pragma once

#include <string>
#include <vector>

#include "bigmac/formats/torch_csv.h"
#include "bigmac/schedule/sends.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

// The computation of a torch table: one rank a row, base custom, each stage on the rank in whose row it is, a
// rank's chunks its stages in ascending order, M the largest microbatch + 1. An overlap cell becomes its
// forward and its backward in turn, marked in Schedule::overlapped. Idle slots, communication and sharding
// are left out. check() says whether the operators are complete and run.
//
// Throws InvalidInput, naming cells as torch_csv.h does, for a stage on two ranks, a stage on no rank before
// one that is there, a table without computation, and counts that are not legal or take far more memory than
// such a table can hold (table_header.h).
Schedule to_schedule(const TorchTable& table, const std::string& file);

// A table of the backbone as torch writes it: a cell an operator, those that Schedule::overlapped marks in
// one cell with the backward behind them, no idle slots, LF at the end of lines. Throws InvalidInput for
// encoder and generator operators, which torch's tables have no form for, more than 65536 stages, and
// operators that the step does not have.
TorchTable to_torch(const Schedule& schedule, TorchDialect dialect);

// Whether the table holds any SEND, RECV, UNSHARD, RESHARD or REDUCE_GRAD.
bool has_communication(const TorchTable& table);

// What is wrong with a torch table's communication and sharding; empty if nothing is. Ranks count from 0,
// cells from 1. In order:
//   - a SEND or RECV that is there twice, that is to or from a stage that does not exist or is on the same
//     rank, or that has no other end; a SEND before what it sends; a computation before the RECV that it
//     needs, or without one
//   - of a stage that has any UNSHARD: a computation that is not between an UNSHARD and its RESHARD; of any
//     stage: a REDUCE_GRAD before the stage's last backward
//   - a deadlock, told as the circle of cells that wait for one another. A RECV waits until its SEND has been
//     passed (buffered) or reached (blocking) by its rank; a blocking SEND until its RECV has been reached.
// A part of a table can be checked as well: what is not there counts as done. So an end of a SEND and RECV is
// missed only where the computation at that end is in the table, and the RECV of a computation only where the
// computation that it comes from is.
// Throws as to_schedule does.
std::vector<std::string> check_communication(const TorchTable& table, Sends sends = Sends::buffered);

}  // namespace bigmac
