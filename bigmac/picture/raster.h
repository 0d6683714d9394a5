#pragma once

#include <string>

namespace bigmac {

// Most pixels of a picture, of a side and altogether.
inline constexpr double kMostPixelSide = 32767;
inline constexpr double kMostPixels = 64e6;

// The SVG as the bytes of a PNG on white, `scale` pixels for each of its own. Reads nothing but `svg`: what
// it refers to outside is left out. Throws InvalidInput for what is no SVG (with the reason), one that does
// not say how large it is, pictures larger than above, and a scale that is not above 0.
std::string png_of(const std::string& svg, double scale = 2);

}  // namespace bigmac
