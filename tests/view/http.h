#pragma once

#include <string>

namespace bigmac {

// One request to a server on this machine, and the body of its answer. Throws Failure where there is none.
std::string http(int port, const std::string& method, const std::string& path, const std::string& body);

}  // namespace bigmac
