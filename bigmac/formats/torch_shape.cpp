#include "bigmac/formats/torch_shape.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/formats/table_header.h"

namespace bigmac {
namespace {

struct Cell {
  int32_t rank = -1;
  int64_t column = 0;
};

class Shape {
 public:
  Shape(const TorchTable& table, const std::string& file, bool communication)
      : table_(table), name_("[torch csv] " + file), communication_(communication) {
    step_.microbatches = 0;
  }

  Step step() {
    for (size_t rank = 0; rank < table_.rows.size(); ++rank)
      for (size_t column = 0; column < table_.rows[rank].size(); ++column)
        for (const auto& action : {table_.rows[rank][column].first, table_.rows[rank][column].second})
          if (action.kind != TorchKind::none) add(action, {int32_t(rank), int64_t(column)});
    if (step_.microbatches == 0)
      throw InvalidInput(concat(name_, ": holds no computation; right would be cells such as 0F0"));
    place_stages();
    try {
      check_step_fits(step_, actions_);
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat(name_, ": ", error.what()));
    }
    return std::move(step_);
  }

 private:
  void add(const TorchAction& action, Cell cell) {
    if (action.stage >= first_cells_.size()) first_cells_.resize(size_t(action.stage) + 1);
    Cell& first = first_cells_[action.stage];
    if (first.rank < 0) first = cell;
    if (first.rank != cell.rank)
      throw InvalidInput(concat(name_, ":", cell.rank + 1, ":", cell.column + 1, ": stage ", action.stage,
                                " is on rank ", cell.rank, ", and at ", first.rank + 1, ":", first.column + 1,
                                " on rank ", first.rank));
    ++actions_;
    if (is_computation(action.kind) || communication_)
      step_.microbatches = std::max(step_.microbatches, int64_t(action.microbatch) + 1);
  }

  void place_stages() {
    step_.ranks = int64_t(table_.rows.size());
    step_.base = Base::custom;
    std::vector<int64_t> held(table_.rows.size(), 0);
    for (size_t stage = 0; stage < first_cells_.size(); ++stage) {
      int32_t rank = first_cells_[stage].rank;
      if (rank < 0)
        throw InvalidInput(concat(name_, ": stage ", stage, " is on no rank; the stages go up to ",
                                  first_cells_.size() - 1));
      step_.stage_ranks.push_back(rank);
      step_.chunks = std::max(step_.chunks, ++held[size_t(rank)]);
    }
  }

  const TorchTable& table_;
  std::string name_;
  bool communication_;
  std::vector<Cell> first_cells_;  // by stage
  int64_t actions_ = 0;
  Step step_;
};

}  // namespace

Step step_of(const TorchTable& table, const std::string& file, bool communication) {
  return Shape(table, file, communication).step();
}

}  // namespace bigmac
