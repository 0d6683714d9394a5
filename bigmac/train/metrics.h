#pragma once

#include <fstream>
#include <string>

#include "bigmac/train/trainer.h"

namespace bigmac::train {

// A file with a JSON line a step:
//
//   {"step", "loss", "losses": {name: loss}, "gradient_norm", "learning_rate", "seconds", "samples"}
//
// Throws Failure naming the file where it cannot be written.
class MetricsFile {
 public:
  // `first`: the step that comes next. Lines of steps before it that stand there are kept, others are not.
  explicit MetricsFile(std::string path, int64_t first = 0);
  void add(const StepFigures& figures);

 private:
  void check() const;

  std::string path_;
  std::ofstream file_;
};

}  // namespace bigmac::train
