#include "apps/bigmac/output_files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "bigmac/command/console.h"
#include "bigmac/common/error.h"
#include "bigmac/picture/raster.h"

namespace bigmac {

void check_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  bool exists = fs::exists(path, ignored);
  auto folder = fs::path(path).parent_path();
  auto what = exists ? fs::path(path) : folder.empty() ? fs::path(".") : folder;
  int error = access(what.c_str(), W_OK) == 0 ? 0 : errno;
  if (error == 0 && exists && fs::is_directory(path, ignored)) error = EISDIR;
  if (error == 0 && !exists && !fs::is_directory(what, ignored)) error = ENOTDIR;
  if (error != 0) throw Failure(concat("cannot write '", path, "': ", std::strerror(error)));
}

void check_picture(const std::string& option, const std::string& path) {
  if (!path.ends_with(".svg") && !path.ends_with(".png"))
    throw InvalidInput(concat(option, " must end with .svg or .png, got '", path, "'"));
  check_writable(path);
}

void write_picture(const std::string& path, const std::string& svg) {
  write_file(path, path.ends_with(".png") ? png_of(svg) : svg);
}

}  // namespace bigmac
