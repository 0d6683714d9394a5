#pragma once

#include "bigmac/formats/yaml_section.h"
#include "bigmac/workload/workload.h"

namespace bigmac {

// The mapping `search`, for the backbone and the GPUs that the workload has.
Search read_search(YamlSection section, const Workload& workload);

}  // namespace bigmac
