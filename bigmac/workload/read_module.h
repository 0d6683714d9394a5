#pragma once

#include "bigmac/formats/yaml_section.h"
#include "bigmac/workload/workload.h"

namespace bigmac {

// The backbone's mapping, or one of an encoder or generator. `folder`: where relative paths of models begin.
WorkloadModule read_module(YamlSection section, Module kind, const std::string& folder);

}  // namespace bigmac
