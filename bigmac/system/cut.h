#pragma once

#include <string>
#include <vector>

#include "bigmac/system/system.h"

namespace bigmac {

// How the backbone's parts are given to stages. At most one of split and layout is set; with neither the
// stages' costs are as even as whole layers allow.
struct CutOptions {
  std::vector<int64_t> split{};  // layers of each stage; embedding and head, which the first and the last
                                 // stage hold besides, are not counted
  std::string layout{};          // as Megatron Core writes it: "Et*3|t*4|t*4|t*3L"
  std::vector<double> costs{};   // of embedding, layers and head, as they were measured or counted; none:
                                 // those that were declared
};

// Stage s holds parts[first[s] .. first[s + 1]) of BackboneDeclaration::all().
struct Cut {
  std::vector<int64_t> first;

  int64_t stages() const { return int64_t(first.size()) - 1; }
  int64_t stage_of(int64_t part) const;
};

// Every part once, in order. Throws InvalidInput naming both numbers where there are more stages than parts,
// where a split or layout does not fit the stages and layers, or costs are not one a part.
Cut make_cut(const BackboneDeclaration& backbone, int64_t stages, const CutOptions& options = {});

// What each stage costs, by the options' costs or the declared ones; the mean is 1.
std::vector<double> stage_costs(const BackboneDeclaration& backbone, const Cut& cut,
                                const CutOptions& options = {});

}  // namespace bigmac
