#pragma once

#include "bigmac/formats/yaml_section.h"
#include "bigmac/workload/workload.h"

namespace bigmac {

// The mapping `cluster` into the workload.
void read_cluster(YamlSection section, Workload& workload);

}  // namespace bigmac
