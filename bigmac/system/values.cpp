#include "bigmac/system/values.h"

#include <sstream>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac {
namespace {

// Names are written into the layout of bundles.
void check_name(const std::string& name) {
  if (name.empty() || name.find_first_of("\t\n") != std::string::npos)
    throw InvalidInput(concat("[values] '", name,
                              "' is no name for a value; it must not be empty or hold a tab or a line end"));
}

void check_defined(const std::string& name, const Tensors& group) {
  for (const auto& tensor : group)
    if (!tensor.defined()) throw InvalidInput(concat("[values] '", name, "' is set to an undefined tensor"));
}

}  // namespace

Values::Values(std::initializer_list<std::pair<const std::string, Tensors>> groups) {
  for (const auto& [name, tensors] : groups) set(name, tensors);
}

void Values::set(const std::string& name, Tensors group) {
  check_name(name);
  check_defined(name, group);
  size_t count = group.size();
  groups_[name] = {std::move(group), count, {}, {}};
}

void Values::set_later(const std::string& name, size_t count, std::function<Tensors()> load) {
  check_name(name);
  groups_[name] = {{}, count, std::move(load), {}};
}

void Values::set_each_later(const std::string& name, size_t count,
                            std::function<torch::Tensor(size_t)> load) {
  check_name(name);
  groups_[name] = {{}, count, {}, std::move(load)};
}

size_t Values::count(const std::string& name) const {
  auto found = groups_.find(name);
  return found == groups_.end() ? 0 : found->second.count;
}

std::vector<std::string> Values::names() const {
  std::vector<std::string> names;
  for (const auto& [name, group] : groups_) names.push_back(name);
  return names;
}

Values::Group& Values::find(const std::string& name) const {
  auto found = groups_.find(name);
  if (found == groups_.end()) throw InvalidInput("[values] " + unknown_name("value", name, names()));
  return found->second;
}

const Tensors& Values::group(const std::string& name) const {
  Group& group = find(name);
  if (!group.load && !group.load_one) return group.tensors;
  Tensors loaded;
  if (group.load) loaded = group.load();
  if (group.load_one)
    for (size_t i = 0; i < group.count; ++i) loaded.push_back(group.load_one(i));
  if (loaded.size() != group.count)
    throw Failure(concat("[values] '", name, "' was said to have ", group.count, " tensors, ", loaded.size(),
                         " were loaded"));
  check_defined(name, loaded);
  group = {std::move(loaded), group.count, {}, {}};
  return group.tensors;
}

torch::Tensor Values::item(const std::string& name, size_t index) const {
  const Group& found = find(name);
  if (index >= found.count)
    throw InvalidInput(
        concat("[values] '", name, "' has ", found.count, " tensors, none with number ", index));
  return found.load_one ? found.load_one(index) : group(name)[index];
}

const torch::Tensor& Values::at(const std::string& name) const {
  const auto& tensors = group(name);
  if (tensors.size() != 1)
    throw InvalidInput(
        concat("[values] '", name, "' has ", tensors.size(), " tensors, not one; ask for its group"));
  return tensors[0];
}

Tensors each_of(std::span<const Values> items, const std::string& name) {
  Tensors tensors;
  for (const auto& item : items) tensors.push_back(item.at(name));
  return tensors;
}

std::vector<Tensors> groups_of(std::span<const Values> items, const std::string& name) {
  std::vector<Tensors> groups;
  for (const auto& item : items) groups.push_back(item.group(name));
  return groups;
}

std::vector<Values> values_of(const std::string& name, const Tensors& tensors) {
  std::vector<Values> list;
  for (const auto& tensor : tensors) list.push_back({{name, {tensor}}});
  return list;
}

Bundle bundle_of(const Values& values, const std::function<bool(const std::string&)>& take) {
  Bundle bundle;
  for (const auto& name : values.names()) {
    if (!take(name)) continue;
    const auto& group = values.group(name);
    bundle.layout += concat(name, "\t", group.size(), "\n");
    bundle.tensors.insert(bundle.tensors.end(), group.begin(), group.end());
  }
  return bundle;
}

Values values_of(const Bundle& bundle) {
  Values values;
  std::istringstream layout(bundle.layout);
  auto next = bundle.tensors.begin();
  std::string count;
  for (std::string name; std::getline(layout, name, '\t') && std::getline(layout, count);) {
    auto end = next + std::stol(count);
    values.set(name, Tensors(next, end));
    next = end;
  }
  return values;
}

}  // namespace bigmac
