#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bigmac/measured/measured_step.h"

namespace bigmac {

// What files may not say. 0: not known.
struct ReadOptions {
  int64_t chunks = 0;        // V, for events that do not say their chunk; 1 where it is not known
  int64_t group = 0;         // G of the interleaved order that such events ran in; P where it is not known
  int64_t microbatches = 0;  // M, for events that do not say their microbatch
  // Read what there is of files that are cut off or damaged and of steps that are not whole: notes say what
  // is missing, and MeasuredStep::missing which steps it is missing of. Else these are refused.
  bool incomplete = false;
  // Called now and then with the bytes of the files that have been read, and all that there are.
  std::function<void(int64_t, int64_t)> progress{};
};

// Reads measured steps. `paths` are files of one run, or one folder with them:
//
//   bigmac's own traces      write_trace (bigmac/timeline/trace.h): one file for all ranks, or several
//   files of events          what ranks write while they train (bigmac/profile), one a rank and step
//   Primus pipeline dumps    pp_rank_N.json, one a rank, and config.json where it is there: iteration ->
//                            {total, memory (GiB), fwd_start, fwd_end, bwd_start, bwd_end (ms)}, and where
//                            they are there wgrad_start, wgrad_end, and fwd_, bwd_, wgrad_ minibatch and
//                            chunk
//   Chrome traces of others  torch.profiler (Kineto) and alike, plain or gzip: complete (X) events, and pairs
//   of
//                            begin and end (B, E). A file is a rank: distributedInfo.rank, or the number
//                            in its name; a file alone may hold several, by pid. Which events are operators
//                            their names say (operator_name.h). Where a rank has the same ranges on its GPU
//                            (gpu_user_annotation), these are taken.
//
// Files are recognised by how they begin, not by their name; gzip is as well. Memory grows with the operators
// of the steps, not with the files. A file may have 8 GiB, inflated.
//
// The clocks of a trace's ranks are compared (clocks.h), and put right where that is possible; notes say so.
//
// Throws InvalidInput, naming the file and the place in it, for files that are missing, unreadable,
// truncated, no gzip or JSON; missing ranks, the same rank twice; and as assemble() does (raw_step.h). With
// `incomplete` only where not one operator is left.
Measurement read_measured(const std::vector<std::string>& paths, const ReadOptions& options = {});

}  // namespace bigmac
