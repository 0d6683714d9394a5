#pragma once

#include <map>
#include <string>
#include <vector>

#include "bigmac/system/part.h"

namespace bigmac::train {

// Values of parameters one behind the other, padded at the end so that they divide into equal shards.

// How many elements a shard of `members` has.
int64_t shard_elements(const std::vector<Parameter>& parameters, int members);

// Copies the values into one buffer [members * shard], of which the leaves become views. Throws InvalidInput
// naming the parameter and the unit where they are not all of one dtype.
torch::Tensor flatten(const std::vector<Parameter>& parameters, int members, const std::string& unit);

// Views of such a buffer by name.
std::map<std::string, torch::Tensor> named_views(const torch::Tensor& flat,
                                                 const std::vector<Parameter>& parameters);

// Copies tensors by name into such a buffer.
void copy_named(const std::map<std::string, torch::Tensor>& named, const std::vector<Parameter>& parameters,
                const torch::Tensor& flat);

}  // namespace bigmac::train
