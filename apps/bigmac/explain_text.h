#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bigmac/timeline/explain.h"

namespace bigmac {

// Why a step takes as long as it does: its critical path, and each rank's `waits` longest waits.

// For people: the path as stretches on one rank, what it consists of, and the waits; where there are many
// stretches or ranks, some of them.
std::string explain_text(const Schedule& schedule, const Timeline& timeline, size_t waits);

// All of it: {"critical_path": [{"rank", "start", "end", "operator", "cause": start|row|input, "gap"}],
//             "shares": {"LLM forward", ..., "messages"} of the path,
//             "waits": [[{"start", "end", "needed_by", "for": {"operator", "rank"}, "culprit": likewise,
//                         "culprit_time"}]] by rank}
// needed_by, for and culprit are null where there is none, as at the end of a row.
nlohmann::ordered_json explain_json(const Schedule& schedule, const Timeline& timeline, size_t waits);

}  // namespace bigmac
