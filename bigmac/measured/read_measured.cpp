#include "bigmac/measured/read_measured.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "bigmac/common/error.h"
#include "bigmac/measured/clocks.h"
#include "bigmac/measured/json_stream.h"
#include "bigmac/measured/rank_of_file.h"
#include "bigmac/measured/read_event_files.h"
#include "bigmac/measured/read_primus.h"
#include "bigmac/measured/read_trace.h"
#include "bigmac/profile/read_events.h"

namespace bigmac {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = "config.json";

bool is_json_file(const std::string& name) {
  return name != kConfig && (name.ends_with(".json") || name.ends_with(".json.gz"));
}

bool is_event_file(const std::string& name) {
  return name.ends_with(".events") || name.ends_with(".events.gz");
}

// The files of a folder that may be ranks: where there are event files or dumps of Primus, these only.
std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> all, dumps, events;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    auto name = at->path().filename().string();
    if (is_json_file(name)) all.push_back(at->path().string());
    if (name.starts_with("pp_rank_") && is_json_file(name)) dumps.push_back(at->path().string());
    if (is_event_file(name)) events.push_back(at->path().string());
  }
  if (error) throw InvalidInput(concat("cannot read '", folder, "': ", error.message()));
  if (all.empty() && events.empty() && fs::is_directory(fs::path(folder) / "replica0"))
    throw InvalidInput(concat("[measured] ", folder, " holds a profile of several replicas; take one, as ",
                              (fs::path(folder) / "replica0").string()));
  auto& files = !events.empty() ? events : dumps.empty() ? all : dumps;
  if (files.empty())
    throw InvalidInput(concat("[measured] ", folder,
                              " holds no .json, .json.gz or .events; right would be a trace a rank, the "
                              "pp_rank_N.json of a Primus pipeline dump, or what `bigmac train` writes "
                              "into profile/"));
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    return std::pair(rank_of_file(a).value_or(-1), a) < std::pair(rank_of_file(b).value_or(-1), b);
  });
  return files;
}

std::string config_beside(const std::string& file) {
  auto path = fs::path(file).parent_path() / kConfig;
  std::error_code error;
  return fs::is_regular_file(path, error) ? path.string() : std::string();
}

std::vector<std::string> expand(const std::vector<std::string>& paths) {
  if (paths.empty())
    throw InvalidInput("[measured] no file is given; right would be a folder, or a file a rank");
  std::error_code error;
  if (paths.size() == 1 && fs::is_directory(paths[0], error)) return files_of(paths[0]);
  std::vector<std::string> files;
  for (const auto& path : paths)
    if (fs::path(path).filename() != kConfig) files.push_back(path);
  return files.empty() ? paths : files;
}

// Clocks that did not fit, over the steps of a measurement.
struct Misfits {
  int64_t shifted = 0, left = 0;  // steps
  double worst = 0, most = 0;     // seconds: the latest message, the largest shift
  int from = 0, to = 0;           // of the latest message
};

// Puts the clocks right where they do not fit and where that is possible. Returns whether the rows can be
// laid beside one another now.
bool align(MeasuredStep& step, Misfits& misfits) {
  auto clocks = compare_clocks(step);
  if (clocks.comparable()) return true;
  if (-clocks.least_gap > misfits.worst) {
    misfits.worst = -clocks.least_gap;
    misfits.from = clocks.from.rank;
    misfits.to = clocks.to.rank;
  }
  ++(clocks.offsets ? misfits.shifted : misfits.left);
  if (!clocks.offsets) return false;
  for (double offset : *clocks.offsets) misfits.most = std::max(misfits.most, std::abs(offset));
  shift_rows(step, *clocks.offsets);
  return true;
}

void note(const Misfits& misfits, size_t steps, std::vector<std::string>& notes) {
  auto what = concat("the ranks' clocks differ: by them a message arrives up to ", misfits.worst,
                     " s before it leaves (rank ", misfits.from, " to ", misfits.to, "); in ");
  if (misfits.shifted > 0)
    notes.push_back(concat(what, misfits.shifted, " of ", steps, " steps they are shifted by up to ",
                           misfits.most, " s against rank 0's"));
  if (misfits.left > 0)
    notes.push_back(
        concat(what, misfits.left, " of ", steps,
               " steps no shift mends that: these steps are taken to last as long as the longest of "
               "their ranks, first operator to last"));
}

// What has been read of all files.
class Bytes {
 public:
  Bytes(const std::vector<std::string>& files, const ReadOptions& options) : options_(options) {
    std::error_code error;
    for (const auto& file : files) {
      auto size = fs::file_size(file, error);
      if (!error) all_ += int64_t(size);
    }
  }
  json::Progress progress() {
    if (!options_.progress) return {};
    return [this](int64_t bytes) { options_.progress(read_ += bytes, all_); };
  }

 private:
  const ReadOptions& options_;
  int64_t read_ = 0, all_ = 0;
};

Measurement measurement_of(std::vector<RawStep> steps, bool align_clocks, std::vector<std::string> notes,
                           LeftOut* left) {
  Measurement measurement{.source = {}, .steps = {}, .notes = std::move(notes)};
  Misfits misfits;
  std::string refused;
  for (auto& raw : steps) {
    bool says_length = raw.ranks[0].step >= 0;
    try {
      measurement.steps.push_back(left == nullptr ? assemble(std::move(raw))
                                                  : assemble_what_is_there(std::move(raw), *left));
    } catch (const InvalidInput& error) {
      if (left == nullptr || steps.size() == 1) throw;
      if (refused.empty()) refused = error.what();
      measurement.notes.push_back(concat("a step is left out: ", error.what()));
      continue;
    }
    auto& step = measurement.steps.back();
    if (align_clocks && align(step, misfits) && !says_length)
      step.rank_steps.assign(step.rank_steps.size(), step.timeline.length());
  }
  if (measurement.steps.empty()) throw InvalidInput(refused);
  note(misfits, measurement.steps.size(), measurement.notes);
  return measurement;
}

enum class Kind { trace, primus, events };
constexpr const char* kKinds[] = {"a trace", "a Primus pipeline dump", "a file of events"};

Kind kind_of(const std::string& file) {
  constexpr size_t kBeginning = 256;
  auto begin = json::beginning_of(file, kBeginning);
  if (begins_as_events(begin)) return Kind::events;
  return begins_as_primus(begin) ? Kind::primus : Kind::trace;
}

// What the files are, by how they begin. One that is of another kind is refused, or where what there is is
// read, left to the reader, which says that it cannot read it.
Kind kind_of(const std::vector<std::string>& files, bool incomplete) {
  auto kind = kind_of(files[0]);
  for (const auto& file : files) {
    auto other = kind_of(file);
    if (other == kind) continue;
    if (!incomplete)
      throw InvalidInput(concat("[measured] '", files[0], "' and '", file, "' are of different kinds: ",
                                kKinds[int(kind)], " and ", kKinds[int(other)]));
    if (kind == Kind::trace) kind = other;
  }
  return kind;
}

std::string source_of(Kind kind, const std::vector<std::string>& files) {
  auto parent = fs::path(files[0]).parent_path().string();
  auto folder = parent.empty() ? std::string(".") : parent;
  if (kind == Kind::primus) return concat("Primus pipeline dump ", folder);
  if (kind == Kind::events) return concat("profile ", folder);
  return files.size() == 1 ? concat("trace ", files[0]) : concat(files.size(), " traces ", files[0], " ...");
}

}  // namespace

Measurement read_measured(const std::vector<std::string>& paths, const ReadOptions& options) {
  auto files = expand(paths);
  auto kind = kind_of(files, options.incomplete);
  Bytes bytes(files, options);
  LeftOut left;
  auto* leaves_out = options.incomplete ? &left : nullptr;
  std::vector<std::string> notes;
  auto read = [&] {
    if (kind == Kind::events) return read_event_files(files, notes, leaves_out);
    if (kind == Kind::primus)
      return read_primus(files, config_beside(files[0]), options, notes, leaves_out, bytes.progress());
    return read_traces(files, options, notes, leaves_out, bytes.progress());
  };
  auto steps = read();
  auto measurement = measurement_of(std::move(steps), kind != Kind::primus, std::move(notes), leaves_out);
  for (auto& note : left.notes()) measurement.notes.push_back(std::move(note));
  measurement.source = source_of(kind, files);
  return measurement;
}

}  // namespace bigmac
