#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bigmac {

// What column_file.h writes, read again as its own words say.
struct Unpacked {
  nlohmann::json facts;
  std::map<std::string, std::vector<uint32_t>> columns;  // of f4 the bits
};
Unpacked unpacked(const std::string& bytes);

// The recordings' bytes in a page.
std::vector<std::string> recordings_in(const std::string& page);

}  // namespace bigmac
