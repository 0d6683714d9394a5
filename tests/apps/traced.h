#pragma once

#include <nlohmann/json.hpp>

#include "tests/apps/program.h"

namespace bigmac {

// The trace of a step that is simulated with these options, a unit as a millisecond.
class Traced {
 public:
  explicit Traced(const std::string& options, const std::string& name = "traced.json") : file_(name) {
    auto outcome = run_bigmac("simulate --json --trace " + file_.path() + " " + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    makespan_ = nlohmann::json::parse(outcome.out)["makespan"];
  }
  const std::string& path() const { return file_.path(); }
  std::string text() const { return file_.text(); }
  double makespan() const { return makespan_; }

 private:
  TemporaryFile file_;
  double makespan_ = 0;
};

}  // namespace bigmac
