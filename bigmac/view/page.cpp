#include "bigmac/view/page.h"

#include "bigmac/common/error.h"
#include "bigmac/common/svg.h"
#include "bigmac/view/columns.h"
#include "bigmac/view/pack.h"
#include "bigmac/view/page_files.h"

namespace bigmac {
namespace {

std::string title_of(const std::vector<Recording>& recordings, const PageOptions& options) {
  if (!options.title.empty()) return options.title;
  std::string title;
  for (const auto& recording : recordings) title += (title.empty() ? "" : " | ") + recording.name;
  return title;
}

}  // namespace

std::string to_page(const std::vector<Recording>& recordings, const PageOptions& options) {
  if (recordings.empty())
    throw InvalidInput("[view] there is nothing to show; right would be at least one recording");
  for (const auto& recording : recordings)
    if (recording.timeline.rows.empty())
      throw InvalidInput(concat("[view] '", recording.name, "' has no ranks; right would be at least one"));
  auto title = xml_escaped(title_of(recordings, options));
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  page += "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n";
  page += concat("<title>", title, "</title>\n<style>\n", page_style(), "</style>\n</head>\n<body>\n");
  page += page_body();
  for (const auto& recording : recordings) {
    page += "<script type=\"text/plain\" class=\"recording\">";
    page += packed(to_columns(recording));
    page += "</script>\n";
  }
  page += concat(options.controls, "<script>\n", page_script(), "</script>\n</body>\n</html>\n");
  return page;
}

}  // namespace bigmac
