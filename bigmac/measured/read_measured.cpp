#include "bigmac/measured/read_measured.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "bigmac/common/error.h"
#include "bigmac/measured/clocks.h"
#include "bigmac/measured/json_stream.h"
#include "bigmac/measured/rank_of_file.h"
#include "bigmac/measured/read_primus.h"
#include "bigmac/measured/read_trace.h"

namespace bigmac {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = "config.json";

bool is_json_file(const std::string& name) {
  return name != kConfig && (name.ends_with(".json") || name.ends_with(".json.gz"));
}

// The files of a folder that may be ranks: where there are dumps of Primus, these only.
std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> all, dumps;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    auto name = at->path().filename().string();
    if (is_json_file(name)) all.push_back(at->path().string());
    if (name.starts_with("pp_rank_") && is_json_file(name)) dumps.push_back(at->path().string());
  }
  if (error) throw InvalidInput(concat("cannot read '", folder, "': ", error.message()));
  auto& files = dumps.empty() ? all : dumps;
  if (files.empty())
    throw InvalidInput(concat("[measured] ", folder,
                              " holds no .json or .json.gz; right would be a trace a rank, or the "
                              "pp_rank_N.json of a Primus pipeline dump"));
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
  shift_rows(step.timeline, *clocks.offsets);
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

Measurement read_trace_files(const std::vector<std::string>& files, const ReadOptions& options) {
  Measurement measurement;
  Misfits misfits;
  for (auto& raw : read_traces(files, options, measurement.notes)) {
    bool says_length = raw.ranks[0].step >= 0;
    auto& step = measurement.steps.emplace_back(assemble(std::move(raw)));
    if (align(step, misfits) && !says_length)
      step.rank_steps.assign(step.rank_steps.size(), step.timeline.length());
  }
  note(misfits, measurement.steps.size(), measurement.notes);
  measurement.source = concat("trace ", files[0]);
  if (files.size() > 1) measurement.source = concat(files.size(), " traces ", files[0], " ...");
  return measurement;
}

}  // namespace

Measurement read_measured(const std::vector<std::string>& paths, const ReadOptions& options) {
  auto files = expand(paths);
  constexpr size_t kBeginning = 256;
  bool primus = begins_as_primus(json::beginning_of(files[0], kBeginning));
  for (const auto& file : files)
    if (begins_as_primus(json::beginning_of(file, kBeginning)) != primus)
      throw InvalidInput(concat("[measured] '", files[0], "' and '", file,
                                "' are of different kinds: a Primus pipeline dump and a trace"));
  if (!primus) return read_trace_files(files, options);
  Measurement measurement;
  for (auto& raw : read_primus(files, config_beside(files[0]), options))
    measurement.steps.push_back(assemble(std::move(raw)));
  auto folder = fs::path(files[0]).parent_path().string();
  measurement.source = concat("Primus pipeline dump ", folder.empty() ? "." : folder);
  return measurement;
}

}  // namespace bigmac
