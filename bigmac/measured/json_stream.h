#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// JSON of any size, token by token, from files that are plain or gzip. Nothing but the token that comes next
// is held.
namespace bigmac::json {

struct Limits {
  int64_t bytes = int64_t{8} << 30;   // of a file, as inflated
  int64_t token = int64_t{64} << 20;  // of one string or number, or blanks between two
  size_t depth = 512;                 // objects and arrays within one another
};

struct Token {
  enum class Kind : uint8_t { null, boolean, number, text } kind = Kind::null;
  bool truth = false;
  double number = 0;
  std::string_view text{};  // valid until the next token

  std::string shown() const;  // for errors: "null", "true", "17", "'abc'"
};

// Where in the text the walk is: the objects and arrays that are open, outermost first.
struct Level {
  bool is_object = false;
  std::string key{};   // of an object: the key that was read last
  int64_t index = -1;  // of an array: the element that was read last
};

class Visitor {
 public:
  virtual ~Visitor() = default;
  // levels.size() is the depth: 0 for the value that is the whole text.
  virtual void value(const std::vector<Level>& levels, const Token& token) = 0;
  virtual void opened(const std::vector<Level>& levels, bool is_object) = 0;  // not yet among `levels`
  virtual void closed(const std::vector<Level>& levels) = 0;                  // no more among them
};

// Called now and then with how many bytes of the file, as it is stored, have been read since the last call.
using Progress = std::function<void(int64_t)>;

// Throws InvalidInput for a file that is missing, a folder, unreadable, empty, larger than the limit,
// truncated or damaged gzip, and what is no JSON: "[json] rank0.json.gz:3:17: ...". Gzip is recognised by how
// the file begins. What a visitor throws passes.
void walk_file(const std::string& path, Visitor& visitor, const Limits& limits = {},
               const Progress& progress = {});

// Where a file stops being readable: it was cut off, or is damaged.
struct Break {
  int64_t bytes = 0;  // inflated, before it
  std::string why;    // what walk_file throws there
};

// Likewise up to such a place, which is no error here; none for a whole file.
std::optional<Break> walk_what_is_there(const std::string& path, Visitor& visitor, const Limits& limits = {},
                                        const Progress& progress = {});

// How the text of a file begins, inflated: at most `count` bytes, fewer where it is cut off or damaged.
// Throws as above for what cannot be opened.
std::string beginning_of(const std::string& path, size_t count);

// "/traceEvents/12/ts"
std::string pointer(const std::vector<Level>& levels);

}  // namespace bigmac::json
