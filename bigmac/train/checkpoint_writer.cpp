#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <future>
#include <random>
#include <thread>
#include <utility>

#include "bigmac/common/atomic_file.h"
#include "bigmac/common/error.h"
#include "bigmac/common/read_file.h"
#include "bigmac/runtime/safetensors.h"
#include "bigmac/train/checkpoint.h"
#include "bigmac/train/checkpoint_files.h"

namespace bigmac::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char *kShard = ".safetensors", *kRecord = ".json", *kFailed = ".failed";
const std::map<std::string, std::string> kFormat{{"format", "pt"}};  // without it transformers refuses a file

struct Stop {
  std::atomic<bool> at_once{false};         // in the middle of this rank's own file too
  std::atomic<bool> without_others{false};  // where another rank's file is not there
};

struct Save {
  CheckpointOptions options;
  int rank = 0, ranks = 1;
  int64_t step = 0;
  SaveId id;
  NamedTensors tensors;
  Facts facts;

  std::string part() const { return part_folder(options.folder, step, id); }
  std::string file(int of_rank, const char* ending) const {
    return (fs::path(part()) / rank_file(of_rank, ending)).string();
  }
  template <class... Parts>
  Failure failure(const Parts&... parts) const {
    return Failure(concat("checkpoint of step ", step, " in ", options.folder, ": ", parts...));
  }
};

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.publish();
}

RankRecord write_own(const Save& save, const Stop& stop) {
  auto check = [&] {
    if (stop.at_once) throw save.failure("given up");
  };
  RankRecord record{save.step, save.rank, save.ranks, 0, {}};
  for (const auto& [name, tensor] : save.tensors) {
    check();
    size_t bytes = tensor.nbytes();
    record.bytes += bytes;
    record.tensors[name] = {rank_file(save.rank, kShard), safetensors_dtype(tensor.scalar_type()),
                            tensor.sizes().vec(), crc32_of(tensor.data_ptr(), bytes)};
  }
  save_safetensors(save.file(save.rank, kShard), save.tensors, kFormat, check);
  write_text(save.file(save.rank, kRecord), to_json(record));
  return record;
}

void check_failed(const Save& save, int rank) {
  auto path = save.file(rank, kFailed);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  throw save.failure("rank ", rank, " failed: ", read_file(path, 1 << 16));
}

// Once every other rank's record is there.
std::vector<RankRecord> await_records(const Save& save, const Stop& stop) {
  std::vector<RankRecord> records;
  auto deadline = Clock::now() + save.options.patience;
  auto pause = 2ms;
  for (int rank = 1; rank < save.ranks; ++rank) {
    auto path = save.file(rank, kRecord);
    std::error_code ignored;
    while (!fs::exists(path, ignored)) {
      for (int other = rank; other < save.ranks; ++other) check_failed(save, other);
      if (stop.at_once || stop.without_others)
        throw save.failure("given up before rank ", rank, "'s file was there");
      if (Clock::now() > deadline)
        throw save.failure("rank ", rank, "'s file was not there after ", save.options.patience.count(),
                           " s");
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, 128ms);
    }
    auto record = read_rank_record(path);
    if (record.step != save.step || record.rank != rank || record.ranks != save.ranks)
      throw save.failure(path, " is of step ", record.step, " and rank ", record.rank, " of ", record.ranks,
                         "; right would be rank ", rank, " of ", save.ranks);
    for (auto& [name, tensor] : record.tensors) tensor.file = rank_file(rank, kShard);
    records.push_back(std::move(record));
  }
  return records;
}

void assemble(const Save& save, RankRecord own, const Stop& stop) {
  CheckpointIndex index{save.step, save.ranks, own.bytes, save.facts, std::move(own.tensors)};
  std::map<std::string, int> givers;
  for (const auto& [name, tensor] : index.tensors) givers[name] = 0;
  for (auto& record : await_records(save, stop)) {
    index.bytes += record.bytes;
    for (const auto& [name, tensor] : record.tensors) {
      auto [giver, is_new] = givers.emplace(name, record.rank);
      if (!is_new)
        throw save.failure("ranks ", giver->second, " and ", record.rank, " both give the tensor '", name,
                           "'");
    }
    index.tensors.merge(record.tensors);
  }
  write_text((fs::path(save.part()) / kIndexFile).string(), to_json(index));
  for (int rank = 0; rank < save.ranks; ++rank) fs::remove(save.file(rank, kRecord));
  publish(save.options.folder, save.step, save.id);
  retire(save.options.folder, save.step, save.id, save.options.keep);
}

// Leaves nothing of a save that failed on the first rank, and a word for it on the others.
void report_failure(const Save& save, const std::string& reason) noexcept {
  try {
    if (save.rank == 0)
      discard(save.options.folder, save.step, save.id);
    else
      write_text(save.file(save.rank, kFailed), reason);
  } catch (...) {  // the first rank's patience ends too
  }
}

void run(const Save& save, const Stop& stop) {
  bool made = false;
  try {
    if (save.rank == 0) sweep(save.options.folder, save.id);
    make_folder(save.part());
    made = true;
    auto record = write_own(save, stop);
    if (save.rank == 0) assemble(save, std::move(record), stop);
  } catch (const std::exception& error) {
    std::error_code ignored;
    bool is_gone = save.rank != 0 && made && !fs::exists(save.part(), ignored);
    report_failure(save, error.what());
    if (is_gone) throw save.failure("given up by rank 0 while rank ", save.rank, " wrote its file");
    throw;
  }
}

// Copies on the CPU, contiguous, into those of the save before where they fit: fresh memory takes longer to
// come by than to fill.
NamedTensors copies_of(const NamedTensors& tensors, const NamedTensors& before) {
  torch::NoGradGuard no_grad;
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) {
    auto found = before.find(name);
    bool fits = found != before.end() && found->second.sizes() == tensor.sizes() &&
                found->second.scalar_type() == tensor.scalar_type();
    auto copy = fits ? found->second : at::empty(tensor.sizes(), torch::TensorOptions(tensor.scalar_type()));
    copy.copy_(tensor.detach());
    copies.emplace(name, std::move(copy));
  }
  return copies;
}

uint64_t random_attempt() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

}  // namespace

struct CheckpointWriter::Implementation {
  CheckpointOptions options;
  int rank, ranks;
  int64_t saves = 0;
  std::shared_ptr<Stop> stop;
  std::future<void> running;
  bool is_given_up = false;
  NamedTensors copies;  // of the last save, which the thread may be writing

  // Waits for what is running; its error, if it has one that nobody has seen.
  std::exception_ptr finish(const IsCancelled& is_cancelled) {
    if (!running.valid()) return nullptr;
    try {
      while (is_cancelled && running.wait_for(50ms) != std::future_status::ready)
        if (is_cancelled())
          throw Failure(concat("checkpoint in ", options.folder, " given up while rank ", rank, " waited"));
    } catch (...) {
      stop->at_once = true;
      is_given_up = true;
      throw;
    }
    try {
      running.get();
    } catch (...) {
      if (!is_given_up) return std::current_exception();
    }
    return nullptr;
  }
};

CheckpointWriter::CheckpointWriter(CheckpointOptions options, int rank, int ranks) {
  auto wrong = [](const auto&... parts) { return InvalidInput(concat("[checkpoint] ", parts...)); };
  if (options.folder.empty()) throw wrong("the folder has no name");
  if (options.keep < 0) throw wrong("keep is ", options.keep, "; right would be 0 (all) or more");
  if (ranks < 1 || rank < 0 || rank >= ranks) throw wrong("there is no rank ", rank, " of ", ranks);
  if (options.attempt == 0 && ranks > 1)
    throw wrong("attempt is 0; right would be a random number that the ", ranks, " ranks share");
  if (options.attempt == 0) options.attempt = random_attempt();
  make_folder(options.folder, true);
  implementation_ = std::make_unique<Implementation>(
      Implementation{std::move(options), rank, ranks, 0, std::make_shared<Stop>(), {}, false, {}});
}

CheckpointWriter::~CheckpointWriter() {
  auto& own = *implementation_;
  own.stop->without_others = true;
  if (own.running.valid()) own.running.wait();
}

void CheckpointWriter::save(int64_t step, const NamedTensors& tensors, const Facts& facts,
                            const IsCancelled& is_cancelled) {
  auto& own = *implementation_;
  if (step < 0) throw InvalidInput(concat("[checkpoint] there is no step ", step));
  SaveId id{own.options.attempt, own.saves++};
  auto error = own.finish(is_cancelled);

  Save save{own.options, own.rank, own.ranks, step, id, {}, own.rank == 0 ? facts : Facts()};
  try {
    check_storable(save.file(own.rank, kShard), tensors, kFormat);
    to_json(CheckpointIndex{step, own.ranks, 0, save.facts, {}});
    save.tensors = own.copies = copies_of(tensors, own.copies);
  } catch (const std::exception& failed) {
    if (own.rank != 0) {
      std::error_code ignored;
      fs::create_directories(save.part(), ignored);
    }
    report_failure(save, failed.what());
    throw;
  }
  own.stop = std::make_shared<Stop>();
  own.is_given_up = false;
  own.running =
      std::async(std::launch::async, [save = std::move(save), stop = own.stop] { run(save, *stop); });
  if (error) std::rethrow_exception(error);
}

void CheckpointWriter::wait(const IsCancelled& is_cancelled) {
  if (auto error = implementation_->finish(is_cancelled)) std::rethrow_exception(error);
}

}  // namespace bigmac::train
