#include "bigmac/controls/page_part.h"

#include "bigmac/common/error.h"
#include "bigmac/controls/controls_json.h"
#include "bigmac/view/pack.h"

namespace bigmac {
namespace {

constexpr char kServer[] =
    "<script>window.bigmacServer = (text) => fetch('simulate', {method: 'POST', body: text});</script>\n";

// As text of a script element, which a "<" could end.
std::string in_script(const nlohmann::ordered_json& json) {
  std::string text;
  for (char letter : json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
    letter == '<' ? text += "\\u003c" : text += letter;
  return text;
}

}  // namespace

std::string controls_part(const NearestControls& start, const PagePart& part) {
  if (engine().empty() && !part.server) return {};
  nlohmann::ordered_json json{
      {"controls", to_json(start.controls)}, {"left_out", start.left_out}, {"open", part.open}};
  auto html =
      concat("<script type=\"application/json\" id=\"controls-start\">", in_script(json), "</script>\n");
  if (!engine().empty())
    html += concat("<script type=\"text/plain\" id=\"controls-engine\">", packed(engine()), "</script>\n");
  return part.server ? html + kServer : html;
}

}  // namespace bigmac
