#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bigmac {

// The schedule tables that torch.distributed.pipelining dumps and loads as CSV (its `compute_only` and
// `compute_comms` forms). One row a rank, one cell a slot of the rank. A cell is empty (idle) or
//   <stage><action><microbatch>    0F0  3I12  2SEND_F4       F I W B  SEND_F RECV_F SEND_B RECV_B
//   <stage><action>                0UNSHARD  1REDUCE_GRAD    UNSHARD RESHARD REDUCE_GRAD
//   (<action>;<action>)OVERLAP_F_B (0F7;7B3)OVERLAP_F_B      one forward and one backward, run together
// SEND and RECV name the stage that sends or receives: 0SEND_F4 is received as 1RECV_F4.

// The letters of the two backwards. A file is old where it holds a BW, or a W without any I, which the
// current dialect cannot mean: there a weight gradient follows its input gradient. All others are current.
enum class TorchDialect : uint8_t {
  current,  // input gradient I, full backward B
  old,      // input gradient B, full backward BW (torch up to 2.5)
};

enum class TorchKind : uint8_t {
  none,
  forward,
  input_gradient,
  weight_gradient,
  full_backward,
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
  unshard,
  reshard,
  reduce_gradient,
};

struct TorchAction {
  uint32_t microbatch = 0;  // 0 for unshard, reshard and reduce_gradient, which have none
  uint16_t stage = 0;       // global, not per rank
  TorchKind kind = TorchKind::none;

  bool operator==(const TorchAction&) const = default;
};

struct TorchCell {
  TorchAction first;   // none: an idle slot
  TorchAction second;  // none, or the other part of an OVERLAP_F_B, in the order in which it is written

  bool idle() const { return first.kind == TorchKind::none; }
  bool overlaps() const { return second.kind != TorchKind::none; }
  bool operator==(const TorchCell&) const = default;
};

enum class LineEnd : uint8_t { lf, crlf };

struct TorchTable {
  TorchDialect dialect = TorchDialect::current;
  LineEnd line_end = LineEnd::crlf;  // of the first row; torch writes crlf
  bool final_line_end = true;
  std::vector<std::vector<TorchCell>> rows;

  bool operator==(const TorchTable&) const = default;
};

inline constexpr int64_t kMostTorchRows = int64_t(1) << 16;
inline constexpr int64_t kMostTorchCells = int64_t(1) << 26;  // 1 GiB of TorchCell

// Reads strictly: numbers without leading zeros, stages up to 65535, microbatches up to 2^32 - 1, no spaces,
// no quotes. As in Python's csv, an empty line is a row without cells and a line of "" a row of one idle
// cell. Throws InvalidInput as "[torch csv] file:row:column: '0F' lacks ...", row and cell counted from 1;
// `file` is only named.
TorchTable parse_torch_csv(std::string_view text, const std::string& file);

// In the dialect it was read in, the bytes that were read (with one kind of line end). Throws InvalidInput
// for an overlap of other than a forward and a backward (full or input gradient), and where the text would be
// read as the other dialect: in the old one, input gradients with neither full backwards nor weight
// gradients; in the current one, full backwards and weight gradients without input gradients.
std::string to_text(const TorchTable& table, TorchDialect dialect);

// "2SEND_F4"
std::string to_text(const TorchAction& action, TorchDialect dialect);

}  // namespace bigmac
