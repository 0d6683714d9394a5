#include "bigmac/demo/sample.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorIndexing.h>

#include <algorithm>
#include <set>

#include "bigmac/data/text.h"
#include "bigmac/demo/model.h"
#include "bigmac/runtime/safetensors.h"

namespace bigmac::demo {
namespace {

constexpr const char* kConfig = "config";

template <class Impl>
Impl& part(const WholeModel& whole, const std::string& name) {
  return dynamic_cast<Impl&>(*whole.model->find(name + "."));
}
template <class Impl>
Impl& part_of_backbone(const WholeModel& whole, const std::string& name) {
  return part<Impl>(whole, concat(kBackbone, ".", name));
}

torch::TensorOptions real(const WholeModel& whole) {
  const auto& precision = whole.model->options().precision;
  return torch::dtype(precision.dtype).device(precision.device);
}

// Behind the last layer: tokens [B, L] -> [B, L, hidden]
torch::Tensor run_backbone(const WholeModel& whole, const torch::Tensor& tokens, const nn::SampleItems& items,
                           int64_t placeholder) {
  auto x = part_of_backbone<torch::nn::EmbeddingImpl>(whole, "embedding").forward(tokens);
  if (!items.empty()) x = nn::scatter_items(x, tokens, items, placeholder);
  for (int64_t i = 0; i < whole.config.backbone.layers; ++i)
    x = part_of_backbone<nn::DecoderLayerImpl>(whole, concat("layers.", i)).forward(x);
  return x;
}

// The texts behind items [T_i, hidden], one a sample. Shorter samples are padded on the right, where causal
// attention does not see it.
std::vector<std::string> write(const WholeModel& whole, const Tensors& items, int64_t placeholder,
                               int64_t most_bytes) {
  auto count = int64_t(items.size());
  auto whole_numbers = torch::dtype(torch::kInt64).device(real(whole).device());
  nn::SampleItems of_samples;
  std::vector<int64_t> lengths;
  for (const auto& item : items) {
    of_samples.push_back({item});
    lengths.push_back(item.size(0));
  }
  int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  auto tokens = torch::full({count, longest + most_bytes}, int64_t(data::kPad), whole_numbers);
  for (int64_t i = 0; i < count; ++i) tokens[i].narrow(0, 0, lengths[size_t(i)]).fill_(placeholder);
  auto rows = torch::arange(count, whole_numbers);
  auto end = torch::tensor(lengths, torch::kInt64).to(whole_numbers.device());
  auto ended = torch::zeros({count}, whole_numbers.dtype(torch::kBool));
  auto& head = part_of_backbone<nn::DecoderHeadImpl>(whole, "head");
  for (int64_t i = 0; i < most_bytes && !ended.all().item<bool>(); ++i) {
    auto x = run_backbone(whole, tokens.narrow(1, 0, longest + i), of_samples, placeholder);
    auto last = head.forward(x.index({rows, end - 1}));
    auto next = std::get<1>(last.narrow(-1, 0, data::kEnd + 1).max(-1));
    tokens.index_put_({rows, end}, next);
    ended = ended.logical_or(next.eq(int64_t(data::kEnd)));
    end = end + 1;
  }
  auto written = tokens.cpu();
  std::vector<std::string> texts;
  for (int64_t i = 0; i < count; ++i) {
    auto row = written[i].narrow(0, lengths[size_t(i)], most_bytes).contiguous();
    texts.push_back(data::decode({row.data_ptr<int64_t>(), row.data_ptr<int64_t>() + row.numel()}));
  }
  return texts;
}

std::multiset<std::string> words_of(const std::string& text) {
  std::multiset<std::string> words;
  std::string word;
  for (char c : text + " ") {
    bool separates = c == ' ' || c == ':' || c == ',' || c == '(' || c == ')' || c == '"';
    if (!separates)
      word += c;
    else if (!word.empty())
      words.insert(std::exchange(word, {}));
  }
  return words;
}

// better(i, j) is the score of what was made for i against j; larger is better.
template <class Score>
Against compare(int64_t count, Score&& score, bool larger_is_better) {
  if (count < 2)
    throw InvalidInput(concat("[sample] a comparison needs at least 2 of the pairs, got ", count));
  Against against;
  for (int64_t i = 0; i < count; ++i) {
    double own = score(i, i);
    against.own += own / double(count);
    for (int64_t j = 0; j < count; ++j) {
      if (i == j) continue;
      double other = score(i, j);
      double weight = 1.0 / double(count * (count - 1));
      against.chance += other * weight;
      bool better = larger_is_better ? own > other : own < other;
      against.won += (better ? 1.0 : own == other ? 0.5 : 0.0) * weight;
    }
  }
  return against;
}

}  // namespace

void save_model(const std::string& weights, const Config& config,
                const std::map<std::string, torch::Tensor>& parameters) {
  save_safetensors(weights, parameters, {{kConfig, to_yaml(config)}});
}

WholeModel make_model(const Config& config) {
  WholeModel whole{config, std::make_unique<System>(make_system(config)), nullptr};
  auto options = default_options();
  options.device = config.options.device;
  options.dtype = config.options.dtype;
  options.seed = config.options.seed;
  whole.config.options = options;
  auto step = train::step_of(options, *whole.system);
  Precision precision{train::device_of(options.device, 0), train::dtype_from_name(options.dtype)};
  whole.model =
      std::make_unique<SystemModel>(*whole.system, step, make_cut(whole.system->backbone(), step.stages()), 0,
                                    SystemModelOptions{precision, options.seed});
  return whole;
}

WholeModel load_model(const std::string& weights) {
  auto file = load_safetensors(weights);
  auto yaml = file.metadata.find(kConfig);
  if (yaml == file.metadata.end())
    throw InvalidInput(concat("[sample] '", weights,
                              "' has no configuration in its metadata; was it written by bigmac train?"));
  auto whole = make_model(parse_config(yaml->second, weights + " (its configuration)"));
  torch::NoGradGuard no_grad;
  for (const auto& parameter : whole.model->parameters()) {
    const auto& sizes = parameter.leaves[0].sizes();
    auto found = file.tensors.find(parameter.name);
    if (found == file.tensors.end())
      throw InvalidInput(concat("[sample] '", weights, "' lacks the parameter '", parameter.name, "'"));
    if (found->second.sizes() != sizes)
      throw InvalidInput(concat("[sample] '", weights, "': parameter '", parameter.name, "' is ",
                                found->second.sizes(), ", the model needs ", sizes));
    for (const auto& leaf : parameter.leaves) leaf.copy_(found->second);
  }
  return whole;
}

std::vector<std::string> write_captions(const WholeModel& whole, const data::Dataset& dataset,
                                        const std::vector<int64_t>& indices, int64_t most_bytes) {
  torch::NoGradGuard no_grad;
  if (indices.empty()) return {};
  Tensors pictures;
  for (int64_t index : indices) pictures.push_back(dataset.picture(index));
  auto seen = part<nn::VisionEncoderImpl>(whole, kVision).forward(torch::stack(pictures).to(real(whole)));
  return write(whole, seen.unbind(), data::kPicture, most_bytes);
}

std::vector<std::string> write_heard(const WholeModel& whole, const Clips& clips,
                                     const std::vector<int64_t>& indices, int64_t most_bytes) {
  torch::NoGradGuard no_grad;
  if (indices.empty()) return {};
  Tensors heard;
  for (int64_t index : indices) heard.push_back(clips.load(index).to(real(whole)));
  return write(whole, part<nn::AudioEncoderImpl>(whole, kAudio).forward(heard), data::kSound, most_bytes);
}

torch::Tensor draw_pictures(const WholeModel& whole, const data::Dataset& dataset,
                            const std::vector<int64_t>& indices, int64_t steps, uint64_t seed) {
  torch::NoGradGuard no_grad;
  auto options = real(whole);
  auto generator = at::detail::createCPUGenerator(seed);
  auto& head = part_of_backbone<nn::DecoderHeadImpl>(whole, "head");
  nn::DiffusionTransformer drawing(std::static_pointer_cast<nn::DiffusionTransformerImpl>(
      part<nn::DiffusionTransformerImpl>(whole, kDrawing).shared_from_this()));
  Tensors drawn;
  for (int64_t index : indices) {
    auto tokens = data::make_draw_prompt(dataset.pairs().at(size_t(index)).name).unsqueeze(0);
    auto text = head.states(run_backbone(whole, tokens.to(options.device()), {}, data::kPicture)).slice(1, 1);
    auto noise = torch::randn({1, 3, dataset.side(), dataset.side()}, generator, torch::kFloat32).to(options);
    auto picture = nn::sample_pictures(drawing, text, {}, noise, steps);
    drawn.push_back(picture.clamp(-1, 1).to(torch::kFloat32).cpu());
  }
  return torch::cat(drawn);
}

double word_f1(const std::string& a, const std::string& b) {
  auto in_a = words_of(a), in_b = words_of(b);
  std::vector<std::string> common;
  std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(), std::back_inserter(common));
  size_t total = in_a.size() + in_b.size();
  return total == 0 ? 1 : 2.0 * double(common.size()) / double(total);
}

Against compare_captions(const std::vector<std::string>& written, const std::vector<std::string>& names) {
  return compare(
      int64_t(written.size()), [&](int64_t i, int64_t j) { return word_f1(written[i], names[j]); }, true);
}

Against compare_pictures(const torch::Tensor& drawn, const torch::Tensor& real) {
  int64_t count = drawn.size(0);
  auto distances = torch::cdist(drawn.flatten(1), real.flatten(1)).square() / double(drawn[0].numel());
  auto table = distances.to(torch::kFloat64).contiguous();
  const double* values = table.data_ptr<double>();
  return compare(
      count, [&](int64_t i, int64_t j) { return values[i * count + j]; }, false);
}

}  // namespace bigmac::demo
