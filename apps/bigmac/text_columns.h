#pragma once

#include <string>
#include <vector>

namespace bigmac {

// A column of a table of text, aligned to the right unless it is of words.
struct Column {
  std::string title;
  std::vector<std::string> cells;
  bool words = false;
};

// Times as a column's cells, all with the digits behind the point that show every one fully, as far as the
// largest keeps within 7 digits.
std::vector<std::string> time_cells(const std::vector<double>& times);

// The columns beside one another, each below its title.
std::string side_by_side(const std::vector<Column>& columns);

}  // namespace bigmac
