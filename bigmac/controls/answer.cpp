#include "bigmac/controls/answer.h"

#include "bigmac/controls/controls_json.h"
#include "bigmac/view/columns.h"

namespace bigmac {

std::string answer(std::string_view request) {
  auto controls = controls_from_json(request);
  auto made = controlled(controls);
  nlohmann::ordered_json json{{"report", nlohmann::ordered_json::parse(to_json(made.report))},
                              {"command", command_of(controls)}};
  auto text = json.dump();
  std::string bytes;
  for (int byte = 0; byte < 4; ++byte) bytes += char(text.size() >> (8 * byte));
  return bytes + text + to_columns(made.recording);
}

}  // namespace bigmac
