#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bigmac/runtime/bundle.h"

namespace bigmac {

// Named tensors: what a sample holds, what a module takes and gives. A name holds a group of tensors, which
// may be one (tokens), several (the pictures of a sample, the side features of an encoder's layers) or none.
class Values {
 public:
  Values() = default;
  Values(std::initializer_list<std::pair<const std::string, Tensors>> groups);

  void set(const std::string& name, torch::Tensor value) { set(name, Tensors{std::move(value)}); }
  void set(const std::string& name, Tensors group);
  // A group of `count` tensors that is loaded when it is first asked for, by the ranks that need it alone.
  void set_later(const std::string& name, size_t count, std::function<Tensors()> load);
  // The same, one tensor by its number at a time: item() loads what it gives and keeps nothing, so that items
  // of a whole step take no more memory than those in use. `load` may be called again.
  void set_each_later(const std::string& name, size_t count, std::function<torch::Tensor(size_t)> load);

  bool has(const std::string& name) const { return groups_.contains(name); }
  size_t count(const std::string& name) const;  // of the group, 0 where the name is not there
  std::vector<std::string> names() const;

  // The group of a name; InvalidInput with the nearest name where it is not there, Failure where what was
  // loaded later is not as many as said.
  const Tensors& group(const std::string& name) const;
  // Tensor `index` of a group; errors as group()'s, and InvalidInput for one that it has not.
  torch::Tensor item(const std::string& name, size_t index) const;
  // The only tensor of a group; InvalidInput with the count where it has none or several.
  const torch::Tensor& at(const std::string& name) const;
  const torch::Tensor& operator[](const std::string& name) const { return at(name); }

  void erase(const std::string& name) { groups_.erase(name); }

 private:
  struct Group {
    Tensors tensors;
    size_t count = 0;
    std::function<Tensors()> load;
    std::function<torch::Tensor(size_t)> load_one;
  };
  Group& find(const std::string& name) const;
  mutable std::map<std::string, Group> groups_;
};

// What samples or items hold under a name: the one tensor of each, or the group of each.
Tensors each_of(std::span<const Values> items, const std::string& name);
std::vector<Tensors> groups_of(std::span<const Values> items, const std::string& name);
// Values of that name alone, one a tensor.
std::vector<Values> values_of(const std::string& name, const Tensors& tensors);

// As a bundle, whose layout names the groups and says how many tensors each has; and back. `take` chooses
// names.
Bundle bundle_of(const Values& values, const std::function<bool(const std::string&)>& take);
Values values_of(const Bundle& bundle);

}  // namespace bigmac
