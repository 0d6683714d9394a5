#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bigmac/plan/compare.h"

namespace bigmac {

// Seconds and bytes.
nlohmann::ordered_json json_of(const Configuration& configuration, const Workload& workload);
nlohmann::ordered_json json_of(const Outcome& outcome, const Workload& workload);
nlohmann::ordered_json json_of(const Plan& plan, const Workload& workload);
nlohmann::ordered_json json_of(const Comparison& comparison, const Workload& workload);

}  // namespace bigmac
