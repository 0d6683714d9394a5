#include "bigmac/profile/event_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "bigmac/common/error.h"
#include "bigmac/profile/declaration.h"

namespace bigmac {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kFirstRoom = 4096;  // events

size_t whole_pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// The count is written behind the events that it counts.
void publish(uint64_t& count, uint64_t value) {
  std::atomic_ref(count).store(value, std::memory_order_release);
}

}  // namespace

EventFile::EventFile(std::string path, const Profiled& of)
    : path_(std::move(path)), declaration_(to_declaration(of)) {
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) fail(errno);
  first_ = whole_pages(sizeof(EventHeader) + declaration_.size());
  if (int error = make_room(kFirstRoom)) fail(error);
  EventHeader begin;
  begin.first = first_;
  begin.declaration = uint32_t(declaration_.size());
  header() = begin;
  std::memcpy(memory_ + sizeof(EventHeader), declaration_.data(), declaration_.size());
}

EventFile::~EventFile() {
  if (memory_) munmap(memory_, bytes_);
  if (file_ >= 0) close(file_);
}

void EventFile::fail(int error) const {
  throw Failure(concat("[profile] cannot write '", path_, "': ", std::strerror(error)));
}

// Reserved, since a store into a file that the disk has no room for ends the process.
int EventFile::make_room(size_t events) {
  size_t bytes = whole_pages(first_ + events * sizeof(Event));
  if (int error = posix_fallocate(file_, 0, off_t(bytes))) return error;
  void* memory = memory_ ? mremap(memory_, bytes_, bytes, MREMAP_MAYMOVE)
                         : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) return errno;
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  room_ = (bytes - first_) / sizeof(Event);
  return 0;
}

void EventFile::begin(const StepBegin& step) {
  header().step = -1;
  full_ = false;
  publish(header().count, count_ = 0);
  auto& begin = header();
  begin.left_out = 0;
  begin.doing = {};
  begin.microbatches = step.microbatches;
  begin.began = step.began;
  begin.utc = step.utc;
  begin.ended = 0;
  begin.clock = step.clock;
  std::atomic_ref(begin.step).store(step.step, std::memory_order_release);
}

void EventFile::add(const Event& event) {
  if (count_ == room_) full_ = full_ || make_room(2 * room_) != 0;
  if (count_ == room_) {
    ++header().left_out;
    return;
  }
  events()[count_] = event;
  publish(header().count, ++count_);
}

void EventFile::end(double ended) {
  header().doing = {};
  header().ended = ended;
}

}  // namespace bigmac
