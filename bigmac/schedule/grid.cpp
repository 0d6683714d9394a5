#include "bigmac/schedule/grid.h"

#include <algorithm>
#include <cmath>

#include "bigmac/common/error.h"
#include "bigmac/schedule/labels.h"
#include "bigmac/schedule/timing.h"

namespace bigmac {
namespace {

const char* colour_of(const Operator& op) {
  if (op.module == Module::encoder) return op.phase == Phase::forward ? "\033[30;46m" : "\033[30;106m";
  if (op.module == Module::generator) return "\033[30;43m";
  if (op.phase == Phase::weight) return "\033[37;46m";
  return op.phase == Phase::forward ? "\033[37;44m" : "\033[30;42m";
}

}  // namespace

std::string to_grid(const Schedule& schedule, bool colour) {
  struct Cell {
    size_t column;
    Operator op;
  };
  std::vector<std::vector<Cell>> rows(schedule.ranks());
  std::vector<double> ends;
  size_t width = 0, columns = 0;
  auto one_slot = [](int, const Operator&) { return 1.0; };
  Dependencies dependencies(schedule);
  Labels labels(schedule);
  run_table(schedule, dependencies, one_slot, 0, ends,
            [&](int rank, const Operator& op, double start, double end) {
              rows[rank].push_back({size_t(std::lround(start)), op});
              width = std::max(width, labels(op).size());
              columns = std::max(columns, size_t(std::lround(end)));
            });
  size_t rank_width = std::to_string(schedule.ranks() - 1).size();
  std::string text;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    std::string label = std::to_string(rank);
    text += "rank " + std::string(rank_width - label.size(), ' ') + label + " |";
    size_t column = 0;
    for (const auto& cell : rows[rank]) {
      text.append((cell.column - column) * (width + 1), ' ');
      std::string name = labels(cell.op);
      name.resize(width, ' ');
      text += colour ? colour_of(cell.op) + name + "\033[0m " : name + " ";
      column = cell.column + 1;
    }
    while (text.back() == ' ') text.pop_back();
    text += '\n';
  }
  return text;
}

}  // namespace bigmac
