#include "bigmac/profile/read_events.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "bigmac/common/error.h"
#include "bigmac/profile/declaration.h"

namespace bigmac {
namespace {

constexpr uint64_t kMostDeclaration = 64 << 20;

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) throw InvalidInput(concat("cannot read '", path, "': ", std::strerror(errno)));
    gzbuffer(file_, 1 << 18);
  }
  ~Reader() { gzclose(file_); }
  Reader(const Reader&) = delete;

  // As much as there is. A gzip file that is damaged ends where it is.
  size_t read(void* to, size_t bytes) {
    size_t got = 0;
    while (got < bytes) {
      int part =
          gzread(file_, static_cast<char*>(to) + got, unsigned(std::min<size_t>(bytes - got, 1 << 26)));
      if (part <= 0) break;
      got += size_t(part);
    }
    return got;
  }
  void skip(uint64_t bytes) {
    char part[4096];
    while (bytes > 0) {
      auto got = read(part, std::min<uint64_t>(bytes, sizeof(part)));
      if (got == 0) return;
      bytes -= got;
    }
  }
  [[noreturn]] void refuse(const std::string& text) const {
    throw InvalidInput(concat("[events] '", path_, "' ", text));
  }

 private:
  const std::string& path_;
  gzFile file_;
};

EventHeader header_of(Reader& reader) {
  EventHeader header;
  const EventHeader right;
  if (reader.read(&header, sizeof(header)) < sizeof(header)) reader.refuse("is cut off in its first bytes");
  if (std::memcmp(header.magic, right.magic, sizeof(right.magic)) != 0)
    reader.refuse("is no file of events: it does not begin with 'bigmacEV'");
  if (header.version != right.version || header.event_bytes != right.event_bytes)
    reader.refuse(concat("is of version ", header.version, " with ", header.event_bytes,
                         " bytes an event; this program reads version ", right.version, " with ",
                         right.event_bytes));
  if (header.declaration > kMostDeclaration || header.first < sizeof(header) + header.declaration)
    reader.refuse("is damaged: its events begin within its declaration");
  return header;
}

// Which it holds by now; read like the first time, since a file may be cut off.
int64_t step_of(const std::string& path) {
  Reader reader(path);
  return header_of(reader).step;
}

bool is_sound(const Event& event, const Profiled& of) {
  bool times = std::isfinite(event.start) && std::isfinite(event.end);
  bool known = event.activity != Activity::none && event.activity <= Activity::update;
  bool op = event.op.module <= Module::generator && event.op.phase <= Phase::generate;
  bool module = event.module < 0 ? event.op.module == Module::backbone
                                 : event.module < int64_t(of.modules.size()) &&
                                       of.modules[size_t(event.module)].kind == event.op.module;
  return times && known && module && op;
}

}  // namespace

bool begins_as_events(std::string_view beginning) {
  return beginning.starts_with(std::string_view(EventHeader{}.magic, sizeof(EventHeader::magic)));
}

EventStep read_events(const std::string& path) {
  Reader reader(path);
  auto header = header_of(reader);
  EventStep step;
  step.file = path;
  std::string text(header.declaration, '\0');
  if (reader.read(text.data(), text.size()) < text.size()) reader.refuse("is cut off in its declaration");
  try {
    step.of = from_declaration(text);
  } catch (const InvalidInput& error) {
    reader.refuse(concat("is damaged: ", error.what()));
  }
  step.step = header.step;
  if (step.step < 0) return step;
  step.microbatches = header.microbatches;
  step.began = header.began;
  step.ended = header.ended;
  step.utc = header.utc;
  step.clock = header.clock;
  step.doing = header.doing;
  reader.skip(header.first - sizeof(header) - text.size());
  constexpr size_t kPart = 4096;
  std::vector<Event> part(kPart);
  uint64_t read = 0, damaged = 0;
  while (read < header.count) {
    auto wanted = std::min<uint64_t>(kPart, header.count - read);
    auto got = reader.read(part.data(), wanted * sizeof(Event)) / sizeof(Event);
    for (size_t i = 0; i < got; ++i)
      if (is_sound(part[i], step.of))
        step.events.push_back(part[i]);
      else
        ++damaged;
    read += got;
    if (got < wanted) break;
  }
  if (step_of(path) != header.step) {
    EventStep none;
    none.file = path;
    none.of = step.of;
    none.step = -1;
    none.notes = {concat(path, ": another step was begun while it was read")};
    return none;
  }
  if (read < header.count)
    step.notes.push_back(concat(path, ": is cut off behind ", read, " of ", header.count, " events"));
  if (damaged > 0) step.notes.push_back(concat(path, ": ", damaged, " events are damaged and left out"));
  if (header.left_out > 0)
    step.notes.push_back(concat(path, ": ", header.left_out, " events found no room and were not written"));
  return step;
}

}  // namespace bigmac
