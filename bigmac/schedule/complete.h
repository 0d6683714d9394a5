#pragma once

#include <string>
#include <vector>

#include "bigmac/schedule/dependencies.h"

namespace bigmac {

inline constexpr size_t kMostProblems = 10;
inline constexpr int32_t kNowhere = -1;

// "rank 3 position 17 (backbone F chunk 0 microbatch 3)"
std::string where(const Schedule& schedule, int rank, int64_t position);

// Whether an encoder's or generator's operator is one of this unit.
bool is_of(const Schedule& schedule, const Operator& op, const Unit& unit);

// What keeps a table from being read at all: rows that do not add up, a step that is not legal, an item on no
// rank or on two, a share that mixes units. At most kMostProblems. Nothing else may be asked of a table that
// has any.
std::vector<std::string> find_malformed(const Schedule& schedule);

// Positions in their rows by id, kNowhere for what is not there; tells what is missing, twice or strange.
std::vector<int32_t> find_operators(const Schedule& schedule, const Dependencies& dependencies,
                                    std::vector<std::string>& problems);

}  // namespace bigmac
