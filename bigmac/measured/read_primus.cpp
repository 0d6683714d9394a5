#include "bigmac/measured/read_primus.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "bigmac/common/error.h"
#include "bigmac/formats/in_quotes.h"
#include "bigmac/measured/json_stream.h"
#include "bigmac/measured/rank_of_file.h"

namespace bigmac {
namespace {

using json::Level;
using json::Token;

constexpr double kMillisecond = 1e-3;
constexpr double kGiB = 1024.0 * 1024 * 1024;

struct Iteration {
  std::map<std::string, std::vector<double>> lists;
  double total = -1, memory = -1;
};
using Iterations = std::map<int64_t, Iteration>;

const std::string kLists[] = {"fwd_start",   "fwd_end",   "fwd_minibatch",   "fwd_chunk",
                              "bwd_start",   "bwd_end",   "bwd_minibatch",   "bwd_chunk",
                              "wgrad_start", "wgrad_end", "wgrad_minibatch", "wgrad_chunk"};

bool is_list(const std::string& key) {
  return std::find(std::begin(kLists), std::end(kLists), key) != std::end(kLists);
}

int64_t iteration_number(const std::string& path, const std::string& key) {
  int64_t number = -1;
  auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc() || end != key.data() + key.size() || number < 0)
    throw InvalidInput(concat("[primus] ", path, ": iteration ", in_quotes(key), " must be a whole number"));
  return number;
}

class RankFile : public json::Visitor {
 public:
  explicit RankFile(const std::string& path) : path_(path) { json::walk_file(path, *this); }

  Iterations take() { return std::move(iterations_); }

  void opened(const std::vector<Level>& levels, bool is_object) override {
    if (levels.empty() && !is_object) throw InvalidInput(concat("[primus] ", path_, ": must be an object"));
    if (levels.size() == 1) {
      auto number = iteration_number(path_, levels[0].key);
      if (!is_object) fail(levels, "must be an object");
      auto [at, is_new] = iterations_.emplace(number, Iteration{});
      if (!is_new) fail(levels, "is there twice");
      iteration_ = &at->second;
    }
    if (levels.size() == 2) {
      bool known = is_list(levels[1].key);
      if (known && is_object) fail(levels, "must be an array of numbers");
      list_ = known ? &iteration_->lists[levels[1].key] : nullptr;
      if (list_ != nullptr && !list_->empty()) fail(levels, "is there twice");
    }
    if (levels.size() == 3 && list_ != nullptr) fail(levels, "must be a number, got an object or array");
  }
  void closed(const std::vector<Level>& levels) override {
    if (levels.size() == 2) list_ = nullptr;
  }
  void value(const std::vector<Level>& levels, const Token& token) override {
    if (levels.size() < 2) fail(levels, concat("must be an object, got ", token.shown()));
    if (levels.size() == 2 && is_list(levels[1].key))
      fail(levels, concat("must be an array of numbers, got ", token.shown()));
    bool is_figure = levels.size() == 2 && (levels[1].key == "total" || levels[1].key == "memory");
    bool in_list = levels.size() == 3 && list_ != nullptr;
    if (!is_figure && !in_list) return;
    if (token.kind != Token::Kind::number) fail(levels, concat("must be a number, got ", token.shown()));
    if (in_list) {
      list_->push_back(token.number);
      return;
    }
    if (token.number < 0) fail(levels, concat("must be at least 0, got ", token.shown()));
    (levels[1].key == "total" ? iteration_->total : iteration_->memory) = token.number;
  }

 private:
  [[noreturn]] void fail(const std::vector<Level>& levels, const std::string& what) const {
    throw InvalidInput(concat("[primus] ", path_, ": ", json::pointer(levels), " ", what));
  }

  const std::string& path_;
  Iterations iterations_;
  Iteration* iteration_ = nullptr;
  std::vector<double>* list_ = nullptr;
};

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
  RankReader(const std::string& path, int64_t rank, int64_t number, const Iteration& iteration)
      : path_(path), number_(number), iteration_(iteration), out_{.file = path, .rank = rank} {}

  RawRank read() {
    bool splits = !list("wgrad_start").empty();
    add("fwd", Phase::forward);
    add("bwd", splits ? Phase::input : Phase::backward);
    if (splits) add("wgrad", Phase::weight);
    if (iteration_.total >= 0) out_.step = iteration_.total * kMillisecond;
    if (iteration_.memory >= 0) out_.memory = iteration_.memory * kGiB;
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
    if (starts.empty()) fail(concat("has no ", prefix, "_start"));
    auto needs = [&](const char* what, size_t count) {
      if (count != starts.size())
        fail(concat("has ", starts.size(), " ", prefix, "_start and ", count, " ", prefix, what));
    };
    needs("_end", ends.size());
    if (!microbatches.empty()) needs("_minibatch", microbatches.size());
    if (!chunks.empty()) needs("_chunk", chunks.size());
    for (size_t n = 0; n < starts.size(); ++n) {
      if (ends[n] < starts[n])
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
    if (!legal) fail(concat("has ", key, "[", n, "] ", value, "; it must be a whole number from 0"));
    return int64_t(value);
  }

  const std::string& path_;
  int64_t number_;
  const Iteration& iteration_;
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
                                 const ReadOptions& options) {
  ConfigFile config(config_path);
  auto files = by_rank(paths, config({"pp_size"}));
  std::map<int64_t, RawStep> steps;
  for (size_t rank = 0; rank < files.size(); ++rank) {
    auto iterations = RankFile(files[rank]).take();
    for (const auto& [number, iteration] : iterations) {
      auto& step = steps[number];
      if (step.ranks.size() != rank)
        throw InvalidInput(concat("[primus] ", files[step.ranks.size()], " has no iteration ", number, ", ",
                                  files[rank], " does"));
      step.ranks.push_back(RankReader(files[rank], int64_t(rank), number, iteration).read());
    }
  }
  std::vector<RawStep> list;
  for (auto& [number, step] : steps) {
    if (step.ranks.size() != files.size())
      throw InvalidInput(concat("[primus] ", files[step.ranks.size()], " has no iteration ", number, ", ",
                                files[0], " does"));
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
