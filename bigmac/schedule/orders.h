#pragma once

#include <vector>

#include "bigmac/schedule/step.h"

namespace bigmac {

// One rank's backbone operators in order, for a count of microbatches for which the base is defined.
using Row = std::vector<Operator>;

// GPipe (Huang et al. 2019): all forwards, chunk by chunk, then all backwards, chunks reversed.
Row gpipe_order(const Step& step, int rank, int64_t microbatches);

// 1F1B (Narayanan et al. 2019) with P-r-1 warm-up forwards, and interleaved 1F1B (Narayanan et al. 2021) with
// 2(P-r-1) + (V-1)G, in Megatron Core's order: forward k runs group by group of G microbatches, chunk by
// chunk, microbatch by microbatch; backward k the same with chunks reversed; after the warm-up one forward
// and one backward in turn.
Row one_f_one_b_order(const Step& step, int rank, int64_t microbatches);
int64_t warmup_forwards(const Step& step, int rank);  // never more than M*V

// ZB-H1 (Qi et al. 2023): 1F1B whose backward is split; on rank r the weight gradients lag r microbatches, so
// that no rank holds more than P microbatches, as rank 0 of 1F1B does.
Row zb_h1_order(const Step& step, int rank, int64_t microbatches);

// ZB-V (Qi et al. 2024): rank r holds stages r and 2P-1-r. For M >= 2P-1.
Row zb_v_order(const Step& step, int rank, int64_t microbatches);

// DualPipeV (the V-shaped half of DeepSeek-V3's DualPipe): as ZB-V, with forwards and backwards of the two
// chunks in pairs, and backwards split only in warm-up and cool-down. For M >= 2P. `overlapped` gets the
// positions of forwards that are meant to run together with the backward behind them.
Row dualpipe_v_order(const Step& step, int rank, int64_t microbatches, std::vector<int64_t>& overlapped);

// The rows of all ranks of a V-shaped base whose last stage takes the backwards of a unit of k microbatches
// only when it has run all their forwards: at every tick each rank runs, of what is ready, an input gradient,
// else a forward (the later stage first) as long as it holds less than 2P + 2k chunk-forwards, else a weight
// gradient. With F = I = W = 1 and M >= 2P this takes as long as the base without a generator, 6M + P - 1,
// and for some counts up to a few ticks more (docs/schedule.md).
std::vector<Row> turn_behind_generator_order(const Step& step);

}  // namespace bigmac
