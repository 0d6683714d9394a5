#pragma once

#include <map>

#include "bigmac/system/part.h"

namespace bigmac {

// Gives every tied parameter of the backbone's parts (by number in BackboneDeclaration::all()) the values of
// what it is tied to: where that is here too they share them, else it starts with what that starts with.
// Throws InvalidInput for a parameter that is not there (with the nearest name), for one that is tied twice
// or to one that is tied itself, and for shapes that differ.
void tie_parameters(const System& system, const std::map<int64_t, PartModule>& parts, uint64_t seed,
                    const Precision& precision);

// By global name of a parameter to which others are tied: the numbers of the parts that hold it, ascending.
std::map<std::string, std::vector<int64_t>> tied_parts(const BackboneDeclaration& backbone);

}  // namespace bigmac
