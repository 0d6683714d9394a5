#include "bigmac/picture/raster.h"

#include <cairo.h>
#include <librsvg/rsvg.h>

#include <cmath>
#include <memory>
#include <utility>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

template <auto Free>
struct Freed {
  template <class Thing>
  void operator()(Thing* thing) const {
    Free(thing);
  }
};
using Handle = std::unique_ptr<RsvgHandle, Freed<g_object_unref>>;
using Surface = std::unique_ptr<cairo_surface_t, Freed<cairo_surface_destroy>>;
using Context = std::unique_ptr<cairo_t, Freed<cairo_destroy>>;

std::string message_of(GError* error) {
  std::string message = error ? error->message : "unknown reason";
  g_clear_error(&error);
  return message;
}

Handle parse(const std::string& svg) {
  GError* error = nullptr;
  Handle handle(rsvg_handle_new_from_data(reinterpret_cast<const guint8*>(svg.data()), svg.size(), &error));
  if (!handle) throw InvalidInput(concat("[png] not an SVG: ", message_of(error)));
  rsvg_handle_set_dpi(handle.get(), 96);
  return handle;
}

// Width and height, or where they are missing those of the view box.
std::pair<double, double> size_of(RsvgHandle* handle) {
  double width = 0, height = 0;
  if (rsvg_handle_get_intrinsic_size_in_pixels(handle, &width, &height)) return {width, height};
  gboolean has_width = 0, has_height = 0, has_view = 0;
  RsvgLength w{}, h{};
  RsvgRectangle view{};
  rsvg_handle_get_intrinsic_dimensions(handle, &has_width, &w, &has_height, &h, &has_view, &view);
  if (!has_view) throw InvalidInput("[png] the SVG says neither width and height nor a viewBox");
  return {view.width, view.height};
}

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) throw Failure(concat("[png] ", cairo_status_to_string(status)));
}

cairo_status_t append(void* to, const unsigned char* bytes, unsigned count) {
  static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

std::string png_of(const std::string& svg, double scale) {
  if (!(scale > 0) || !std::isfinite(scale))
    throw InvalidInput(concat("[png] scale must be above 0, got ", scale));
  auto handle = parse(svg);
  auto [own_width, own_height] = size_of(handle.get());
  double width = std::ceil(own_width * scale), height = std::ceil(own_height * scale);
  if (!(width >= 1 && height >= 1))
    throw InvalidInput(concat("[png] a picture of ", own_width, " x ", own_height, " has no pixels"));
  if (width > kMostPixelSide || height > kMostPixelSide || width * height > kMostPixels)
    throw InvalidInput(concat("[png] a picture of ", width, " x ", height, " pixels is too large; at most ",
                              kMostPixelSide, " a side and ", kMostPixels,
                              " altogether; take a smaller scale"));
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, int(width), int(height)));
  check(cairo_surface_status(surface.get()));
  Context context(cairo_create(surface.get()));
  cairo_set_source_rgb(context.get(), 1, 1, 1);
  cairo_paint(context.get());
  RsvgRectangle viewport{0, 0, width, height};
  GError* error = nullptr;
  if (!rsvg_handle_render_document(handle.get(), context.get(), &viewport, &error))
    throw InvalidInput(concat("[png] cannot draw the SVG: ", message_of(error)));
  check(cairo_status(context.get()));
  std::string png;
  check(cairo_surface_write_to_png_stream(surface.get(), append, &png));
  return png;
}

}  // namespace bigmac
