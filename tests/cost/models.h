#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "bigmac/cost/read_model.h"

// The shape files of workloads/models, and models as text that can be compared.
namespace bigmac {

inline std::string shape_path(const std::string& name) {
  return std::string(BIGMAC_SOURCE_DIR) + "/workloads/models/" + name + ".json";
}

inline std::string shape_text(const std::string& name) {
  std::ifstream file(shape_path(name), std::ios::binary);
  EXPECT_TRUE(file) << shape_path(name);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline cost::Model shape_model(const std::string& name, cost::Tower tower = cost::Tower::whole) {
  return cost::read_model_file(shape_path(name), tower);
}

inline std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(BIGMAC_SOURCE_DIR) + "/workloads/models"))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  EXPECT_GE(names.size(), 11u);
  return names;
}

inline std::string describe(const cost::Model& model) {
  std::ostringstream out;
  out << int(model.family) << ' ' << model.hidden << ' ' << model.out << ' ' << model.features << ' '
      << model.merge << '\n';
  for (const auto& layer : model.layers) {
    out << layer.name << '\n';
    for (const auto& part : layer.parts) {
      out << "  " << part.name << ' ' << int(part.kind) << ' ' << int(part.rows) << ' ' << part.in << ' '
          << part.out << ' ' << part.per_row << ' ' << part.bias << part.tied << part.of_data << ' '
          << int(part.cut) << ' ' << part.experts << ' ' << part.top_k << ' ' << part.heads << ' '
          << part.kv_heads << ' ' << part.head_dim << ' ' << part.causal << ' ' << part.window;
      for (const auto& saved : part.saved)
        out << " [" << saved.name << ' ' << saved.width << ' ' << saved.bytes << ' ' << saved.cut
            << saved.for_weights << saved.selective << saved.per_key << ']';
      out << '\n';
    }
  }
  return out.str();
}

}  // namespace bigmac
