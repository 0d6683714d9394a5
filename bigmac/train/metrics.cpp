#include "bigmac/train/metrics.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace bigmac::train {
namespace {

std::vector<std::string> lines_before(const std::string& path, int64_t first) {
  std::vector<std::string> kept;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    bool before = json.is_object() && json.contains("step") && json["step"].is_number_integer() &&
                  json["step"].get<int64_t>() < first;
    if (before) kept.push_back(std::move(line));
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(std::string path, int64_t first) : path_(std::move(path)) {
  std::vector<std::string> kept;
  if (first > 0) kept = lines_before(path_, first);
  file_.open(path_);
  for (const auto& line : kept) file_ << line << "\n";
  file_.flush();
  check();
}

void MetricsFile::add(const StepFigures& figures) {
  nlohmann::ordered_json json{{"step", figures.step}, {"loss", figures.loss}};
  for (const auto& [name, loss] : figures.losses) json["losses"][name] = loss;
  json["gradient_norm"] = figures.gradient_norm;
  json["learning_rate"] = figures.learning_rate;
  json["seconds"] = figures.seconds;
  json["samples"] = figures.samples;
  file_ << json.dump() << std::endl;
  check();
}

void MetricsFile::check() const {
  if (!file_) throw Failure(concat("cannot write '", path_, "'"));
}

}  // namespace bigmac::train
