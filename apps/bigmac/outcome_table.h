#pragma once

#include <string>
#include <vector>

#include "apps/bigmac/text_columns.h"
#include "bigmac/plan/outcome.h"

namespace bigmac {

std::string seconds_text(double seconds);  // four digits: "4.213 s", "310.0 ms"
std::string percent_text(double part);     // "12.3 %"
std::string signed_percent(double part);   // "+12.3 %"

// Outcomes, a line each, with every choice in a column of its own. Choices that are the same in all lines and
// need no column (VPP, EP, MBS 1) are named below the table.
class OutcomeTable {
 public:
  explicit OutcomeTable(const Workload& workload);

  // `step`: in place of the outcome's, such as "OOM".
  void add(const Outcome& outcome, const std::string& step = "");
  // A line without an outcome: only its schedule and `step`.
  void add_without(Arrangement arrangement, const std::string& step);
  // `extra` stands behind the step.
  std::string text(const std::vector<Column>& extra = {}) const;

 private:
  struct Number {
    Column column;
    int64_t usual;
  };
  void add_configuration(const Configuration& configuration);

  const Workload& workload_;
  Column step_{"step", {}}, tokens_{"tok/s/GPU", {}}, mfu_{"MFU", {}}, bubble_{"bubble", {}},
      memory_{"memory", {}};
  Column schedule_{"schedule", {}, true}, base_{"base", {}, true}, own_gpus_{"own GPUs", {}}, recompute_;
  std::vector<Number> numbers_;
};

}  // namespace bigmac
