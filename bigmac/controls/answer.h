#pragma once

#include <string>
#include <string_view>

namespace bigmac {

// What the page asks for when a control has moved: controls as JSON (controls_json.h) ->
//
//   4 bytes  length of the JSON, little-endian
//   JSON     {"report": (simulate.h), "command": (command_of)}
//   columns  of the recording (columns.h)
//
// Throws InvalidInput as controls_from_json and controlled do.
std::string answer(std::string_view request);

}  // namespace bigmac
