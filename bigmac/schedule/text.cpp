#include "bigmac/schedule/text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "bigmac/schedule/timing.h"

namespace bigmac {
namespace {

const char* colour_of(const Operator& op) {
  if (op.module == Module::encoder) return op.phase == Phase::forward ? "\033[30;46m" : "\033[30;106m";
  if (op.module == Module::generator) return "\033[30;43m";
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
  run_table(schedule, one_slot, 0, ends, [&](int rank, const Operator& op, double start, double end) {
    rows[rank].push_back({size_t(std::lround(start)), op});
    width = std::max(width, short_name(op).size());
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
      std::string name = short_name(cell.op);
      name.resize(width, ' ');
      text += colour ? colour_of(cell.op) + name + "\033[0m " : name + " ";
      column = cell.column + 1;
    }
    while (text.back() == ' ') text.pop_back();
    text += '\n';
  }
  return text;
}

std::string to_csv(const Schedule& schedule) {
  std::string text = "rank,position,module,operator,chunk,microbatch\n";
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto row = schedule.row(rank);
    for (size_t p = 0; p < row.size(); ++p) {
      const auto& op = row[p];
      text += concat(rank, ",", p, ",", name(op.module), ",", letter(op.phase), ",");
      if (op.module == Module::backbone) text += std::to_string(op.chunk);
      text += concat(",", op.microbatch, "\n");
    }
  }
  return text;
}

std::string to_json(const Schedule& schedule) {
  const Step& step = schedule.step;
  nlohmann::ordered_json json{{"ranks", step.ranks},
                              {"chunks", step.chunks},
                              {"microbatches", step.microbatches},
                              {"base", name(step.base)},
                              {"group", step.base == Base::interleaved ? step.group_size() : 0},
                              {"schedule", name(step.arrangement)},
                              {"warmup_units", step.has_encoder() ? units_ahead(step) : 0},
                              {"rows", nlohmann::ordered_json::array()},
                              {"units", nlohmann::ordered_json::array()}};
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto row = nlohmann::ordered_json::array();
    for (const auto& op : schedule.row(rank)) {
      nlohmann::ordered_json cell{{"module", name(op.module)}, {"operator", letter(op.phase)}};
      if (op.module == Module::backbone) cell["chunk"] = op.chunk;
      cell["microbatch"] = op.microbatch;
      row.push_back(std::move(cell));
    }
    json["rows"].push_back(std::move(row));
  }
  for (const auto& unit : schedule.units)
    json["units"].push_back({{"module", name(unit.module)},
                             {"operator", letter(unit.phase)},
                             {"unit", unit.index},
                             {"places", unit.place}});
  return json.dump() + "\n";
}

}  // namespace bigmac
