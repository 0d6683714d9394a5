#include "bigmac/train/options_file.h"

#include "bigmac/common/read_file.h"

namespace bigmac::train {

// No file of options is larger.
constexpr size_t kMostBytes = size_t{1} << 20;

TrainOptions parse_options(const std::string& yaml, const std::string& file, const TrainOptions& defaults) {
  TrainOptions options = defaults;
  YamlReader reader(YamlSection(load_yaml(yaml, file), file, ""));
  describe(reader, options);
  reader.done();
  return options;
}

TrainOptions read_options(const std::string& file, const TrainOptions& defaults) {
  return parse_options(read_file(file, kMostBytes, "a YAML file of options"), file, defaults);
}

std::string to_yaml(const TrainOptions& options) {
  YamlWriter writer;
  TrainOptions copy = options;
  describe(writer, copy);
  return writer.text();
}

}  // namespace bigmac::train
