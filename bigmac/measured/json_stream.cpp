#include "bigmac/measured/json_stream.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <istream>
#include <nlohmann/json.hpp>
#include <streambuf>

#include "bigmac/common/error.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac::json {
namespace {

// What walk_what_is_there() takes for the end.
struct Broken : InvalidInput {
  Broken(const std::string& why, int64_t at) : InvalidInput(why), bytes(at) {}
  int64_t bytes;
};

// zlib's reader takes plain files as they are.
class File : public std::streambuf {
 public:
  File(const std::string& path, const Limits& limits, const Progress& progress = {})
      : path_(path), limits_(limits), progress_(progress), block_(kBlock) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) fail(std::strerror(errno));
    if (S_ISDIR(status.st_mode)) fail("it is a folder; right would be a file");
    file_ = gzopen(path.c_str(), "rb");
    if (file_ == nullptr) fail(errno != 0 ? std::strerror(errno) : "not enough memory");
    gzbuffer(file_, kBlock);
  }
  ~File() override { gzclose(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Called for every token.
  void token_ends() { token_begin_ = position(); }

  bool is_empty() { return underflow() == traits_type::eof(); }

  // "file:3:17", and the text that stands before it.
  std::string place() const {
    auto read = block_read();
    auto lines = lines_ + std::count(read.begin(), read.end(), '\n');
    auto last = read.rfind('\n');
    int64_t line_begin = last == std::string_view::npos ? line_begin_ : block_begin_ + int64_t(last) + 1;
    return concat(path_, ":", lines, ":", std::max<int64_t>(position() - line_begin, 1));
  }
  std::string before() const {
    auto text = last_of(block_read());
    auto end = text.find_last_not_of(" \t\r\n");
    text.resize(end == std::string::npos ? 0 : end + 1);
    text.erase(0, text.rfind('\n') + 1);
    return text.erase(0, std::min(text.find_first_not_of(" \t"), text.size()));
  }
  // Whether the reader has come to the end.
  bool hit_end() const { return hit_end_; }
  int64_t position() const { return block_begin_ + int64_t(block_read().size()); }

 protected:
  int_type underflow() override {
    if (gptr() < egptr()) return traits_type::to_int_type(*gptr());
    auto read = block_read();
    lines_ += std::count(read.begin(), read.end(), '\n');
    if (auto last = read.rfind('\n'); last != std::string_view::npos)
      line_begin_ = block_begin_ + int64_t(last) + 1;
    block_begin_ += int64_t(read.size());
    tail_ = last_of(read);
    if (block_begin_ > limits_.bytes)
      throw InvalidInput(concat("[json] ", path_, " holds more than ", limits_.bytes,
                                " bytes, inflated; record fewer steps or leave out the events of kernels"));
    if (block_begin_ - token_begin_ > limits_.token)
      throw InvalidInput(concat("[json] ", place(), ": one value has more than ", limits_.token, " bytes"));
    if (!broken_.empty()) throw Broken(broken_, block_begin_);
    int count = gzread(file_, block_.data(), unsigned(block_.size()));
    check(count);
    setg(block_.data(), block_.data(), block_.data() + std::max(count, 0));
    if (count <= 0 && !broken_.empty()) throw Broken(broken_, block_begin_);
    hit_end_ = count == 0;
    return count > 0 ? traits_type::to_int_type(*gptr()) : traits_type::eof();
  }

 private:
  static constexpr unsigned kBlock = 1 << 18;

  [[noreturn]] void fail(const std::string& reason) const {
    throw InvalidInput(concat("cannot read '", path_, "': ", reason));
  }
  // What stands before a break is given out before it is thrown.
  void check(int count) {
    if (progress_) {
      int64_t offset = gzoffset(file_);
      progress_(offset - told_);
      told_ = offset;
    }
    int code = Z_OK;
    const char* what = gzerror(file_, &code);
    if (code == Z_ERRNO) fail(std::strerror(errno));
    if (code == Z_BUF_ERROR) {
      broken_ = concat("[gzip] ", path_, " ends too early, behind ", block_begin_ + std::max(count, 0),
                       " inflated bytes; it was cut off while it was written or copied");
    } else if (count < 0 || code < 0) {
      std::string reason = what;
      if (reason.starts_with(path_ + ": ")) reason.erase(0, path_.size() + 2);
      broken_ = concat("[gzip] ", path_, " is damaged behind ", block_begin_, " inflated bytes: ", reason);
    }
  }
  std::string_view block_read() const {
    return eback() == nullptr ? std::string_view{} : std::string_view(eback(), size_t(gptr() - eback()));
  }
  // The last bytes of what was read, also of the block before.
  std::string last_of(std::string_view read) const {
    constexpr size_t kShown = 24;
    auto text = tail_ + std::string(read.substr(read.size() - std::min(kShown, read.size())));
    return text.substr(text.size() - std::min(kShown, text.size()));
  }

  std::string path_;
  Limits limits_;
  Progress progress_;
  std::vector<char> block_;
  gzFile file_ = nullptr;
  std::string tail_;
  bool hit_end_ = false;
  int64_t block_begin_ = 0, token_begin_ = 0, lines_ = 1, line_begin_ = 0, told_ = 0;
  std::string broken_{};  // what stands behind the block
};

// nlohmann's parser calls this for every token.
class Walk : public nlohmann::json_sax<nlohmann::json> {
 public:
  Walk(File& file, Visitor& visitor, const Limits& limits)
      : file_(file), visitor_(visitor), limits_(limits) {}

  bool null() override { return value({}); }
  bool boolean(bool found) override { return value({.kind = Token::Kind::boolean, .truth = found}); }
  bool number_integer(int64_t found) override { return number(double(found)); }
  bool number_unsigned(uint64_t found) override { return number(double(found)); }
  bool number_float(double found, const std::string&) override { return number(found); }
  bool string(std::string& found) override { return value({.kind = Token::Kind::text, .text = found}); }
  bool binary(nlohmann::json::binary_t&) override { return false; }

  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(std::string& found) override {
    file_.token_ends();
    levels_.back().key.assign(found);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(size_t, const std::string& token, const nlohmann::json::exception& error) override {
    constexpr int kNumberOverflow = 406;
    auto before = file_.before();
    std::string what = "is no JSON at the end of " + in_quotes(before);
    if (before.ends_with('N') || before.ends_with('I')) what += "; JSON has no NaN and no Infinity";
    if (error.id == kNumberOverflow) what = "has too large a number: " + in_quotes(token);
    if (file_.hit_end()) what = "the JSON ends too early, at the end of " + in_quotes(before);
    throw Broken(concat("[json] ", file_.place(), ": ", what), file_.position());
  }

 private:
  bool number(double found) { return value({.kind = Token::Kind::number, .number = found}); }
  bool value(const Token& token) {
    next();
    visitor_.value(levels_, token);
    return true;
  }
  bool open(bool is_object) {
    next();
    if (levels_.size() >= limits_.depth)
      throw InvalidInput(concat("[json] ", file_.place(), ": more than ", limits_.depth,
                                " objects and arrays within one another"));
    visitor_.opened(levels_, is_object);
    levels_.push_back({is_object});
    return true;
  }
  bool close() {
    file_.token_ends();
    levels_.pop_back();
    visitor_.closed(levels_);
    return true;
  }
  void next() {
    file_.token_ends();
    if (!levels_.empty() && !levels_.back().is_object) ++levels_.back().index;
  }

  File& file_;
  Visitor& visitor_;
  const Limits& limits_;
  std::vector<Level> levels_;
};

}  // namespace

std::string Token::shown() const {
  switch (kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return truth ? "true" : "false";
    case Kind::number:
      return concat(number);
    default:
      return in_quotes(text);
  }
}

void walk_file(const std::string& path, Visitor& visitor, const Limits& limits, const Progress& progress) {
  File file(path, limits, progress);
  if (file.is_empty()) throw InvalidInput(concat("cannot read '", path, "': it is empty"));
  std::istream in(&file);
  Walk walk(file, visitor, limits);
  nlohmann::json::sax_parse(in, &walk);
}

std::optional<Break> walk_what_is_there(const std::string& path, Visitor& visitor, const Limits& limits,
                                        const Progress& progress) {
  try {
    walk_file(path, visitor, limits, progress);
  } catch (const Broken& broken) {
    return Break{broken.bytes, broken.what()};
  }
  return {};
}

std::string beginning_of(const std::string& path, size_t count) {
  File file(path, {});
  std::string text;
  try {
    while (text.size() < count && !file.is_empty()) text += char(file.sbumpc());
  } catch (const Broken&) {
    return text;
  }
  return text;
}

std::string pointer(const std::vector<Level>& levels) {
  std::string text;
  for (const auto& level : levels)
    text += level.is_object ? concat("/", escaped(level.key)) : concat("/", level.index);
  return text;
}

}  // namespace bigmac::json
