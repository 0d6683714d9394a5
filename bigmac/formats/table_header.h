#pragma once

#include <string>
#include <vector>

#include "bigmac/formats/json_rules.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

// The step and the units of a table, which are JSON in both of our formats.

// Their two keys, without the object's braces, a unit a line.
std::string header_text(const Schedule& schedule);

// The most modules of a step that is read.
inline constexpr int64_t kMostModules = 256;

class HeaderReader {
 public:
  HeaderReader();

  // The rules that read them.
  std::vector<json::Field> fields() const { return fields_; }

  // A number for a module's name until the step has been read, whatever the order of the keys is.
  int32_t module_number(const std::string& name);
  // By that number, the module of the step that was read. Throws InvalidInput for a name that is not there.
  std::vector<int32_t> modules(const Step& step) const;

  // Both, once they have been read. Throws InvalidInput where the step is not legal or takes far more memory
  // than a file with so many operators can fill: more than 65536 stages x microbatches and 16 times as many
  // as there are operators.
  void take(int64_t operators, Schedule& schedule);

 private:
  std::vector<json::Field> fields_;
  Step step_;
  Unit unit_;
  std::vector<Unit> units_;
  std::vector<std::string> names_;
};

Phase phase_from_letter(const std::string& text);

// Throws as HeaderReader::take does.
void check_step_fits(const Step& step, int64_t operators);

// The first of Schedule::overlapped that is no forward of the backbone with a backward or input gradient
// behind it in its row, or -1.
int64_t find_bad_overlap(const Schedule& schedule);

// The rank whose row holds an offset, and the position in it.
struct Placement {
  int rank;
  int64_t position;
};
Placement placement_of(const Schedule& schedule, int64_t offset);

void append_number(std::string& text, int64_t number);

}  // namespace bigmac
