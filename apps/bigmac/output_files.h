#pragma once

#include <string>

namespace bigmac {

// Before a long search, that a file can be written where it is to be. Throws Failure as write_file does.
void check_writable(const std::string& path);

// Throws InvalidInput unless the path ends with .svg or .png, Failure as check_writable does.
void check_picture(const std::string& option, const std::string& path);

// As what the path ends with.
void write_picture(const std::string& path, const std::string& svg);

}  // namespace bigmac
