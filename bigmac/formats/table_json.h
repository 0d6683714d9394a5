#pragma once

#include <string>
#include <string_view>

#include "bigmac/schedule/table.h"

namespace bigmac {

// A whole Schedule as JSON (docs/formats.md): step, units, shares and rows. Text that is read back gives the
// same Schedule, sizes to the last bit.
//
// Writing takes a table whose shares and units are of modules that it has; it throws InvalidInput for a name
// that is no UTF-8. Reading is strict: unknown, missing and repeated keys, wrong types, numbers out of range
// and a step that is not legal are InvalidInput as "[json] file: /rows/3/17/chunk: ..."; what is no JSON as
// "[json] file:3:17: ...". What has been read may have any fault that check() tells, and no other.
std::string to_json(const Schedule& schedule);
Schedule parse_json(std::string_view text, const std::string& file);

}  // namespace bigmac
