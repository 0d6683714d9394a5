#include "bigmac/measured/read_primus.h"

#include <algorithm>
#include <map>

#include "bigmac/common/error.h"
#include "bigmac/measured/json_stream.h"
#include "bigmac/measured/number_ranks.h"
#include "bigmac/measured/primus_file.h"
#include "bigmac/measured/rank_of_file.h"

namespace bigmac {
namespace {

using json::Level;
using json::Token;

constexpr double kMillisecond = 1e-3;
constexpr double kGiB = 1024.0 * 1024 * 1024;

class ConfigFile : public json::Visitor {
 public:
  explicit ConfigFile(const std::string& path) : path_(path) {
    if (!path.empty()) json::walk_file(path, *this);
  }
  // By any of its names; -1 where it is not there.
  int64_t operator()(std::initializer_list<const char*> keys) const {
    for (const char* key : keys)
      if (auto at = values_.find(key); at != values_.end()) {
        double number = at->second;
        if (!(number >= 1 && number <= 1e9 && number == double(int64_t(number))))
          throw InvalidInput(
              concat("[primus] ", path_, ": ", key, " must be a whole number from 1, got ", number));
        return int64_t(number);
      }
    return -1;
  }

  void opened(const std::vector<Level>&, bool) override {}
  void closed(const std::vector<Level>&) override {}
  void value(const std::vector<Level>& levels, const Token& token) override {
    if (levels.size() == 1 && levels[0].is_object && token.kind == Token::Kind::number)
      values_[levels[0].key] = token.number;
  }

 private:
  const std::string& path_;
  std::map<std::string, double> values_;
};

class RankReader {
 public:
  RankReader(const std::string& path, int64_t rank, int64_t number, const PrimusIteration& iteration,
             LeftOut* left)
      : path_(path), number_(number), iteration_(iteration), left_(left), out_{.file = path, .rank = rank} {}

  RawRank read() {
    bool splits = !list("wgrad_start").empty();
    add("fwd", Phase::forward);
    add("bwd", splits ? Phase::input : Phase::backward);
    if (splits) add("wgrad", Phase::weight);
    if (iteration_.total >= 0) out_.step = iteration_.total * kMillisecond;
    if (iteration_.memory >= 0 && !out_.operators.empty())
      out_.memory = {{out_.operators.front().start}, {iteration_.memory * kGiB}};
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidInput(concat("[primus] ", path_, ": iteration ", number_, " ", what));
  }
  const std::vector<double>& list(const std::string& key) const {
    static const std::vector<double> kNone;
    auto at = iteration_.lists.find(key);
    return at == iteration_.lists.end() ? kNone : at->second;
  }

  void add(const std::string& prefix, Phase phase) {
    const auto& starts = list(prefix + "_start");
    const auto& ends = list(prefix + "_end");
    const auto& microbatches = list(prefix + "_minibatch");
    const auto& chunks = list(prefix + "_chunk");
    if (starts.empty() && left_ == nullptr) fail(concat("has no ", prefix, "_start"));
    size_t most = starts.size();
    auto needs = [&](const char* what, size_t count) {
      if (count == starts.size()) return;
      auto text = concat("has ", starts.size(), " ", prefix, "_start and ", count, " ", prefix, what);
      if (left_ == nullptr) fail(text);
      left_->add("lists of a dump are of different length; the shorter counts",
                 concat(path_, ": iteration ", number_, " ", text));
      most = std::min(most, count);
    };
    needs("_end", ends.size());
    if (!microbatches.empty()) needs("_minibatch", microbatches.size());
    if (!chunks.empty()) needs("_chunk", chunks.size());
    for (size_t n = 0; n < most; ++n) {
      if (ends[n] < starts[n] && left_ == nullptr)
        fail(concat("has ", prefix, "_end[", n, "] ", ends[n], " before ", prefix, "_start[", n, "] ",
                    starts[n]));
      auto& op = out_.operators.emplace_back();
      op.phase = phase;
      op.start = starts[n] * kMillisecond;
      op.end = ends[n] * kMillisecond;
      if (!microbatches.empty()) op.microbatch = whole(prefix + "_minibatch", n, microbatches[n]);
      if (!chunks.empty()) op.chunk = whole(prefix + "_chunk", n, chunks[n]);
    }
  }

  int64_t whole(const std::string& key, size_t n, double value) const {
    bool legal = value >= 0 && value <= double(INT32_MAX) && value == double(int64_t(value));
    if (!legal && left_ != nullptr) return INT32_MAX;  // mend() leaves it out
    if (!legal) fail(concat("has ", key, "[", n, "] ", value, "; it must be a whole number from 0"));
    return int64_t(value);
  }

  const std::string& path_;
  int64_t number_;
  const PrimusIteration& iteration_;
  LeftOut* left_;
  RawRank out_;
};

// By rank; each rank once, none missing.
std::vector<std::string> by_rank(const std::vector<std::string>& paths, int64_t ranks) {
  std::map<int64_t, std::string> path_of;
  for (const auto& path : paths) {
    auto rank = rank_of_file(path);
    if (!rank)
      throw InvalidInput(
          concat("[primus] the name of '", path, "' says no rank; right would be pp_rank_N.json"));
    auto [at, is_new] = path_of.emplace(*rank, path);
    if (!is_new)
      throw InvalidInput(
          concat("[primus] rank ", *rank, " is in two files: '", at->second, "' and '", path, "'"));
  }
  int64_t most = std::max(ranks, path_of.empty() ? 0 : path_of.rbegin()->first + 1);
  std::vector<std::string> list;
  for (const auto& [rank, path] : path_of) {
    if (rank != int64_t(list.size())) break;
    list.push_back(path);
  }
  if (int64_t(list.size()) != most)
    throw InvalidInput(concat(
        "[primus] pp_rank_", list.size(), ".json is missing: ",
        ranks > 0 ? concat("config.json says pp_size ", ranks) : concat("there is one of rank ", most - 1)));
  if (ranks > 0 && most > ranks)
    throw InvalidInput(
        concat("[primus] config.json says pp_size ", ranks, ", but there is '", path_of[most - 1], "'"));
  return list;
}

// Likewise where ranks may be missing, whose paths are empty.
std::vector<std::string> by_rank_that_are_there(const std::vector<std::string>& paths, int64_t ranks,
                                                std::vector<std::string>& notes) {
  constexpr int64_t kFar = 64;
  std::map<int64_t, std::string> path_of;
  for (const auto& path : paths) {
    auto rank = rank_of_file(path);
    if (!rank)
      notes.push_back(concat("'", path, "' is left out: its name says no rank"));
    else if (!path_of.emplace(*rank, path).second)
      notes.push_back(concat("'", path, "' is left out: rank ", *rank, " is in '", path_of[*rank], "'"));
  }
  while (path_of.size() > 1 &&
         path_of.rbegin()->first > kFar * int64_t(path_of.size()) + std::max<int64_t>(ranks, 0)) {
    notes.push_back(concat("'", path_of.rbegin()->second, "' is left out: its rank is far from the others"));
    path_of.erase(std::prev(path_of.end()));
  }
  if (path_of.empty()) return by_rank(paths, ranks);
  std::vector<std::string> list(size_t(std::max(ranks, path_of.rbegin()->first + 1)));
  for (const auto& [rank, path] : path_of) list[size_t(rank)] = path;
  std::vector<int64_t> missing;
  for (size_t rank = 0; rank < list.size(); ++rank)
    if (list[rank].empty()) missing.push_back(int64_t(rank));
  if (!missing.empty())
    notes.push_back(concat("of ", list.size(), " ranks the dumps of these are missing: ", ranges(missing)));
  return list;
}

// Of a rank's file what there is; nothing where it cannot be read.
std::map<int64_t, PrimusIteration> iterations_of(const std::string& path, std::vector<std::string>& notes,
                                                 LeftOut& left, const json::Progress& progress) {
  if (path.empty()) return {};
  try {
    auto file = read_primus_file(path, &left, progress);
    if (file.cut)
      notes.push_back(concat(file.cut->why, "; it was read that far: ", file.cut->bytes, " bytes"));
    return std::move(file.iterations);
  } catch (const InvalidInput& error) {
    notes.push_back(concat("'", path, "' is left out: ", error.what()));
    return {};
  }
}

// The iterations that any rank has.
std::map<int64_t, RawStep> steps_that_are_there(const std::vector<std::string>& files,
                                                std::vector<std::string>& notes, LeftOut& left,
                                                const json::Progress& progress) {
  std::map<int64_t, RawStep> steps;
  for (size_t rank = 0; rank < files.size(); ++rank)
    for (const auto& [number, iteration] : iterations_of(files[rank], notes, left, progress)) {
      auto& step = steps[number];
      for (size_t n = step.ranks.size(); n < files.size(); ++n)
        step.ranks.push_back({.file = files[n], .rank = int64_t(n)});
      step.ranks[rank] = RankReader(files[rank], int64_t(rank), number, iteration, &left).read();
    }
  std::erase_if(steps, [](const auto& step) {
    return std::all_of(step.second.ranks.begin(), step.second.ranks.end(),
                       [](const RawRank& rank) { return rank.operators.empty(); });
  });
  if (steps.empty() && !notes.empty()) throw InvalidInput("[primus] holds no operator: " + notes.back());
  return steps;
}

std::map<int64_t, RawStep> whole_steps(const std::vector<std::string>& files,
                                       const json::Progress& progress) {
  std::map<int64_t, RawStep> steps;
  for (size_t rank = 0; rank < files.size(); ++rank) {
    auto iterations = read_primus_file(files[rank], nullptr, progress).iterations;
    for (const auto& [number, iteration] : iterations) {
      auto& step = steps[number];
      if (step.ranks.size() != rank)
        throw InvalidInput(concat("[primus] ", files[step.ranks.size()], " has no iteration ", number, ", ",
                                  files[rank], " does"));
      step.ranks.push_back(RankReader(files[rank], int64_t(rank), number, iteration, nullptr).read());
    }
  }
  for (const auto& [number, step] : steps)
    if (step.ranks.size() != files.size())
      throw InvalidInput(concat("[primus] ", files[step.ranks.size()], " has no iteration ", number, ", ",
                                files[0], " does"));
  return steps;
}

}  // namespace

bool begins_as_primus(const std::string& beginning) {
  auto skip = [&](size_t at) {
    return std::min(beginning.find_first_not_of(" \t\r\n", at), beginning.size());
  };
  size_t at = skip(beginning.starts_with("\xef\xbb\xbf") ? 3 : 0);
  if (at >= beginning.size() || beginning[at] != '{') return false;
  at = skip(at + 1);
  if (at >= beginning.size() || beginning[at] != '"') return false;
  auto quote = beginning.find('"', ++at);
  if (quote == std::string::npos || quote == at) return false;
  return std::all_of(beginning.begin() + std::ptrdiff_t(at), beginning.begin() + std::ptrdiff_t(quote),
                     [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<RawStep> read_primus(const std::vector<std::string>& paths, const std::string& config_path,
                                 const ReadOptions& options, std::vector<std::string>& notes, LeftOut* left,
                                 const json::Progress& progress) {
  ConfigFile config(config_path);
  auto ranks = config({"pp_size"});
  auto files = left == nullptr ? by_rank(paths, ranks) : by_rank_that_are_there(paths, ranks, notes);
  auto steps =
      left == nullptr ? whole_steps(files, progress) : steps_that_are_there(files, notes, *left, progress);
  std::vector<RawStep> list;
  for (auto& [number, step] : steps) {
    step.name = std::to_string(number);
    auto chunks = config({"vp_size", "vpp_size"});
    step.chunks = chunks > 0 ? chunks : options.chunks;
    step.group = options.group;
    auto microbatches = config({"num_mbs", "micro_batches"});
    step.microbatches = microbatches > 0 ? microbatches : options.microbatches;
    list.push_back(std::move(step));
  }
  if (list.empty()) throw InvalidInput(concat("[primus] ", files[0], " holds no iteration"));
  return list;
}

}  // namespace bigmac
