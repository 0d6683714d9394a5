#pragma once

#include <string>
#include <vector>

#include "bigmac/timeline/recording.h"
#include "bigmac/view/waits.h"

namespace bigmac {

// What there is to see, in a few sentences, the dearest first: which rank waits most, for what, and what
// would help against the waits that cost most. `waits` by rank, as far as they are known.
std::vector<std::string> findings(const Recording& recording, const std::vector<PathStep>& path,
                                  const std::vector<std::vector<NamedWait>>& waits);

}  // namespace bigmac
