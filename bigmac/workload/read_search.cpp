#include "bigmac/workload/read_search.h"

#include "bigmac/formats/layout.h"
#include "bigmac/workload/fields.h"

namespace bigmac {
namespace {

void read_counts(YamlSection& section, const std::string& key, std::vector<int64_t>& values, int64_t least,
                 int64_t most) {
  section.read_list(key, values, [&](const std::string& text) {
    int64_t value = count_from(text);
    if (value < least || value > most)
      throw InvalidInput(concat("must be from ", least, " to ", most, ", got ", value));
    return value;
  });
}

// "[6,11,11,8]" again, of the numbers or the lists of them by chunk.
std::string list_text(const YAML::Node& node) {
  if (!node.IsSequence()) return node.IsScalar() ? node.Scalar() : "?";
  std::string text;
  for (const auto& element : node) text += concat(text.empty() ? "" : ",", list_text(element));
  return concat("[", text, "]");
}

// Decoder layers by stage, or a Megatron layout, as a split of all of the model's layers.
cost::Split read_split(const YAML::Node& node, int64_t decoder_layers) {
  if (node.IsScalar()) return cost::split_of(parse_layout(node.Scalar()), decoder_layers);
  if (!node.IsSequence())
    throw InvalidInput("must be a list of layers by stage, or a layout such as Et|(tt|)*30L");
  int64_t stages = 0;
  for (const auto& stage : node) stages += stage.IsSequence() ? int64_t(stage.size()) : 1;
  auto split = cost::parse_split(list_text(node), decoder_layers, stages);
  ++split.front();  // the embedding
  ++split.back();   // the head
  return split;
}

void read_splits(YamlSection& section, Search& search, int64_t decoder_layers) {
  for (const auto& node : section.elements("splits")) try {
      search.splits.push_back(read_split(node, decoder_layers));
      auto stages = int64_t(search.splits.back().size());
      bool fits = search.pipeline.empty();
      for (int64_t ranks : search.pipeline)
        for (int64_t chunks : search.chunks.empty() ? std::vector{stages / ranks} : search.chunks)
          fits |= ranks * chunks == stages;
      if (!fits)
        throw InvalidInput(
            concat("has ", stages, " stages, which no pipeline and chunks of the search give"));
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat(section.where(node), section.name(), ".splits: ", error.what()));
    }
}

}  // namespace

Search read_search(YamlSection section, const Workload& workload) {
  Search search;
  auto layers = int64_t(workload.backbone.model.layers.size());
  read_counts(section, "tensor", search.tensor, 1, workload.gpus);
  read_counts(section, "pipeline", search.pipeline, 1, workload.gpus);
  read_counts(section, "chunks", search.chunks, 1, layers);
  read_counts(section, "expert", search.expert, 1, workload.gpus);
  read_counts(section, "microbatch", search.microbatch, 1, int64_t{1} << 20);
  read_counts(section, "warmup_units", search.warmup_units, 1, int64_t{1} << 20);
  section.read_list("arrangements", search.arrangements, arrangement_from_name);
  section.read_list("bases", search.bases, made_base_from_name);
  read_splits(section, search, layers - 2);
  section.done();
  return search;
}

}  // namespace bigmac
