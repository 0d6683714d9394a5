#include "tests/train/training_role.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bigmac/train/session.h"
#include "tests/support/roles.h"
#include "tests/train/systems.h"

namespace bigmac::train {
namespace {

constexpr const char* kKind = "two encoders";

std::string file_of(const std::string& folder, const std::string& name, int rank) {
  return concat(folder, "/", name, rank);
}

TrainOptions options_in(const std::string& folder) {
  TrainOptions options;
  options.pp = 2;
  options.dp = 2;
  options.microbatches = 3;
  options.dtype = "float64";
  options.steps = kSteps;
  options.checkpoints = folder + "/checkpoints";
  options.checkpoint_every = kEvery;
  options.resume = true;
  if (auto sharding = read_text(folder + "/sharding"); !sharding.empty()) {
    options.shard["llm"] = Sharding::states;
    for (const char* encoder : {"vision", "audio"})
      options.shard[encoder] = sharding == "states" ? Sharding::states : Sharding::full;
    options.gather = sharding == "full one-sided" ? Gather::one_sided : Gather::collective;
  }
  return options;
}

Reports reports_in(const std::string& folder) {
  Reports reports;
  reports.begin = [folder](int64_t first, int64_t) { write_text(folder + "/begun", std::to_string(first)); };
  reports.step = [folder](const StepFigures& figures) {
    std::ofstream(folder + "/losses", std::ios::app)
        << concat(figures.step, " ", std::bit_cast<uint64_t>(figures.loss), "\n");
  };
  return reports;
}

const bool added = roles::add_program("training", [](const std::string& folder) {
  int rank = std::atoi(std::getenv("RANK"));
  write_text(file_of(folder, "pid", rank), std::to_string(getpid()));
  auto batches = [](int64_t step) { return make_samples(kKind, {}, step); };
  try {
    train(make_system(kKind), batches, options_in(folder), reports_in(folder));
  } catch (const std::exception& error) {
    write_text(file_of(folder, "error", rank), error.what());
    throw;
  }
});

}  // namespace

Losses losses_of(const std::string& folder) {
  Losses losses;
  std::istringstream in(read_text(folder + "/losses"));
  int64_t step = 0;
  for (std::string bits; in >> step >> bits;) losses[step].insert(bits);
  return losses;
}

int64_t count_losses(const std::string& folder) {
  auto text = read_text(folder + "/losses");
  return std::count(text.begin(), text.end(), '\n');
}

std::string read_text(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void write_text(const std::string& file, const std::string& text) {
  std::ofstream(file) << text;
}

void forget_start(const std::string& folder) {
  std::filesystem::remove(folder + "/begun");
  for (int rank = 0; rank < kRanks; ++rank)
    for (const char* name : {"pid", "error"}) std::filesystem::remove(file_of(folder, name, rank));
}

std::string error_of(const std::string& folder, int rank) {
  return read_text(file_of(folder, "error", rank));
}

int64_t count_from(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::stoll(text) : otherwise;
}

}  // namespace bigmac::train
