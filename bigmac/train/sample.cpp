#include "bigmac/train/sample.h"

#include <torch/torch.h>

#include <algorithm>
#include <set>

#include "bigmac/data/text.h"
#include "bigmac/runtime/safetensors.h"

namespace bigmac::train {
namespace {

constexpr const char* kConfig = "config";

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

TrainedModel load_model(const std::string& weights) {
  auto file = load_safetensors(weights);
  auto yaml = file.metadata.find(kConfig);
  if (yaml == file.metadata.end())
    throw InvalidInput(concat("[sample] '", weights,
                              "' has no configuration in its metadata; was it written by bigmac train?"));
  TrainedModel trained;
  trained.config = parse_config(yaml->second, weights + " (its configuration)");
  trained.config.pp = trained.config.vpp = 1;
  trained.config.base.reset();
  trained.model = std::make_unique<Multimodal>(trained.config, 0);
  torch::NoGradGuard no_grad;
  for (auto& [name, parameter] : trained.model->parameters()) {
    auto found = file.tensors.find(name);
    if (found == file.tensors.end())
      throw InvalidInput(concat("[sample] '", weights, "' lacks the parameter '", name, "'"));
    if (found->second.sizes() != parameter.sizes())
      throw InvalidInput(concat("[sample] '", weights, "': parameter '", name, "' is ", found->second.sizes(),
                                ", the model needs ", parameter.sizes()));
    parameter.copy_(found->second);
  }
  return trained;
}

std::vector<std::string> write_captions(Multimodal& model, const data::Dataset& dataset,
                                        const std::vector<int64_t>& indices, int64_t most_bytes) {
  torch::NoGradGuard no_grad;
  if (indices.empty()) return {};
  auto options = model.options();
  std::vector<torch::Tensor> pictures;
  std::vector<int64_t> rows;
  for (int64_t index : indices) {
    rows.push_back(int64_t(rows.size()));
    pictures.push_back(dataset.picture(index));
  }
  auto embedded = model.encoder()->forward(torch::stack(pictures).to(options));
  auto tokens = torch::full({int64_t(indices.size()), embedded.size(1)}, int64_t(data::kPicture),
                            torch::dtype(torch::kInt64).device(options.device()));
  auto& decoder = model.backbone();
  auto ended = torch::zeros({int64_t(indices.size())}, torch::dtype(torch::kBool).device(options.device()));
  for (int64_t i = 0; i < most_bytes && !ended.all().item<bool>(); ++i) {
    auto x = decoder->embed(tokens, embedded, rows, data::kPicture);
    for (int64_t layer : decoder->layers()) x = decoder->run(layer, x);
    auto last = decoder->logits(decoder->states(x.select(1, x.size(1) - 1)));
    auto next = std::get<1>(last.narrow(-1, 0, data::kEnd + 1).max(-1));
    ended = ended.logical_or(next.eq(int64_t(data::kEnd)));
    tokens = torch::cat({tokens, next.unsqueeze(1)}, 1);
  }
  auto written = tokens.narrow(1, embedded.size(1), tokens.size(1) - embedded.size(1)).cpu().contiguous();
  std::vector<std::string> captions;
  for (int64_t i = 0; i < written.size(0); ++i) {
    auto row = written[i];
    captions.push_back(data::decode({row.data_ptr<int64_t>(), row.data_ptr<int64_t>() + row.numel()}));
  }
  return captions;
}

torch::Tensor draw_pictures(Multimodal& model, const data::Dataset& dataset,
                            const std::vector<int64_t>& indices, int64_t steps, uint64_t seed) {
  torch::NoGradGuard no_grad;
  auto options = model.options();
  auto generator = at::detail::createCPUGenerator(seed);
  auto& decoder = model.backbone();
  std::vector<torch::Tensor> drawn;
  for (int64_t index : indices) {
    auto prompt = data::make_draw_prompt(dataset.pairs().at(size_t(index)).name);
    auto x = decoder->embed(prompt.tokens.to(options.device()), {}, {}, data::kPicture);
    for (int64_t layer : decoder->layers()) x = decoder->run(layer, x);
    auto noise = torch::randn({1, 3, dataset.side(), dataset.side()}, generator, torch::kFloat32).to(options);
    auto picture = nn::sample_pictures(model.generator(), decoder->states(x),
                                       prompt.target_mask.to(options.device()), noise, steps);
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

}  // namespace bigmac::train
