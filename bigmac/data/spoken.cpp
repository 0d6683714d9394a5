#include "bigmac/data/spoken.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "bigmac/common/error.h"

namespace bigmac::data {
namespace {

enum Purpose : uint64_t { kVoice = 1, kRate, kPitch };

// splitmix64's finalizer, over one word after the other.
uint64_t random_word(std::initializer_list<uint64_t> counter) {
  uint64_t state = 0;
  for (uint64_t word : counter) {
    state += word + 0x9e3779b97f4a7c15u;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
    state ^= state >> 31;
  }
  return state;
}

// In least..most.
int64_t draw(Purpose purpose, uint64_t seed, int64_t index, int64_t least, int64_t most) {
  auto count = static_cast<uint64_t>(most - least + 1);
  return least + static_cast<int64_t>(random_word({purpose, seed, static_cast<uint64_t>(index)}) % count);
}

// FNV-1a.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

std::string hexadecimal(uint64_t value) {
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[(value >> shift) & 15u];
  return digits;
}

// "flag: Côte d’Ivoire" -> "flag-c-te-d-ivoire"
std::string letters_of(const std::string& name) {
  std::string letters;
  for (unsigned char byte : name) {
    bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
    if (plain) letters += static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte);
    if (!plain && !letters.empty() && letters.back() != '-') letters += '-';
    if (letters.size() == 80) break;
  }
  if (letters.empty() || letters.back() != '-') letters += '-';
  return letters;
}

std::vector<std::string> names_of(const Dataset& dataset) {
  std::vector<std::string> names;
  for (const auto& pair : dataset.pairs()) names.push_back(pair.name);
  return names;
}

void check_range(const char* what, int64_t least, int64_t most) {
  if (least > most)
    throw InvalidInput(concat("spoken names' ", what, " ", least, "..", most, " is an empty range"));
}

torch::Tensor to_tensor(const Waveform& waveform) {
  auto tensor = torch::empty({static_cast<int64_t>(waveform.samples.size())}, torch::kFloat32);
  std::memcpy(tensor.data_ptr(), waveform.samples.data(), waveform.samples.size() * sizeof(float));
  return tensor;
}

}  // namespace

Spoken::Spoken(std::vector<std::string> names, SpokenConfig config)
    : names_(std::move(names)), config_(std::move(config)) {
  if (config_.voices.empty()) throw InvalidInput("spoken names need at least one voice");
  check_range("words per minute", config_.slowest, config_.fastest);
  check_range("pitch", config_.lowest, config_.highest);
  try {
    speaker_.emplace(config_.program);
  } catch (const InvalidInput&) {
    if (config_.cache.empty()) throw;
  }
  if (speaker_)
    for (const auto& voice : config_.voices) {
      speaker_->check({voice, config_.slowest, config_.lowest});
      speaker_->check({voice, config_.fastest, config_.highest});
    }
  std::error_code error;
  if (!config_.cache.empty()) std::filesystem::create_directories(config_.cache, error);
  if (error) throw Failure(concat("cannot make the folder ", config_.cache, ": ", error.message()));
}

Spoken::Spoken(const Dataset& dataset, SpokenConfig config) : Spoken(names_of(dataset), std::move(config)) {}

const std::string& Spoken::name(int64_t index) const {
  if (index < 0 || index >= size())
    throw InvalidInput(concat("spoken name ", index, " is outside 0..", size() - 1));
  return names_[static_cast<size_t>(index)];
}

Voice Spoken::voice(int64_t index) const {
  name(index);
  auto last = static_cast<int64_t>(config_.voices.size()) - 1;
  auto which = static_cast<size_t>(draw(kVoice, config_.seed, index, 0, last));
  return {config_.voices[which], draw(kRate, config_.seed, index, config_.slowest, config_.fastest),
          draw(kPitch, config_.seed, index, config_.lowest, config_.highest)};
}

std::string Spoken::path(int64_t index) const {
  Voice with = voice(index);
  if (config_.cache.empty()) return "";
  auto key = concat(name(index), '\n', with.name, '\n', with.words_per_minute, '\n', with.pitch, '\n',
                    config_.sample_rate);
  auto file = letters_of(name(index)) + hexadecimal(hash_of(key)) + ".wav";
  return (std::filesystem::path(config_.cache) / file).string();
}

Waveform Spoken::speak(int64_t index) const {
  const auto& text = name(index);
  return speaker_ ? speaker_->speak(text, voice(index), config_.sample_rate)
                  : Speaker(config_.program).speak(text, voice(index), config_.sample_rate);
}

torch::Tensor Spoken::waveform(int64_t index) const {
  auto file = path(index);
  if (!file.empty() && std::filesystem::exists(file)) {
    auto waveform = read_wave(file);
    if (waveform.sample_rate != config_.sample_rate)
      throw InvalidInput(concat("'", file, "' has a sample rate of ", waveform.sample_rate, " Hz, not ",
                                config_.sample_rate, "; remove it to have it spoken again"));
    return to_tensor(waveform);
  }
  auto waveform = speak(index);
  if (!file.empty()) write_wave(file, waveform);
  return to_tensor(waveform);
}

int64_t Spoken::fill_cache(int64_t threads) const {
  if (config_.cache.empty()) throw InvalidInput("spoken names have no cache to fill; name a folder for it");
  if (threads < 0) throw InvalidInput(concat("cannot speak with ", threads, " threads"));
  if (threads == 0) threads = std::max<int64_t>(1, std::thread::hardware_concurrency());

  std::atomic<int64_t> next{0}, spoken{0};
  std::mutex mutex;
  std::exception_ptr error;
  auto work = [&] {
    try {
      for (int64_t index = next++; index < size(); index = next++) {
        auto file = path(index);
        if (std::filesystem::exists(file)) continue;
        write_wave(file, speak(index));
        ++spoken;
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      next = size();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int64_t i = 0; i < std::min(threads, size()); ++i) workers.emplace_back(work);
  }
  if (error) std::rethrow_exception(error);
  return spoken;
}

}  // namespace bigmac::data
