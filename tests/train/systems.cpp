#include "tests/train/systems.h"

#include <torch/torch.h>

#include "bigmac/nn/audio.h"
#include "bigmac/nn/decoder.h"
#include "bigmac/nn/initialise.h"

namespace bigmac::train {
namespace {

constexpr int64_t kHidden = 16, kVocabulary = 40, kPicture = 38, kSound = 39, kPad = 0, kFeatures = 2;

nn::DecoderConfig decoder(bool experts) {
  nn::DecoderConfig config;
  config.vocabulary = kVocabulary;
  config.hidden = kHidden;
  config.layers = 8;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 8;
  config.ffn = 24;
  if (experts) config.moe = nn::MoeConfig{.experts = 4, .experts_per_token = 2, .ffn = 12};
  return config;
}

// Patches [n, 6] of a picture become n tokens, and as many side features as layers take.
class VisionImpl : public torch::nn::Module {
 public:
  VisionImpl()
      : in(register_module("in", torch::nn::Linear(6, 12))),
        block(register_module("block", torch::nn::Linear(12, 12))),
        projector(register_module("projector", torch::nn::Linear(12, kHidden))) {
    for (int64_t i = 0; i < kFeatures; ++i)
      side.push_back(register_module("side" + std::to_string(i), torch::nn::Linear(12, kHidden)));
  }
  torch::nn::Linear in, block, projector;
  std::vector<torch::nn::Linear> side;
};
TORCH_MODULE(Vision);

class PainterImpl : public torch::nn::Module {
 public:
  PainterImpl() : out(register_module("out", torch::nn::Linear(kHidden, 5))) {}
  torch::nn::Linear out;
};
TORCH_MODULE(Painter);

nn::SampleItems items_of(Items samples, const std::string& name) {
  nn::SampleItems items;
  for (const auto& sample : samples) items.push_back(sample.group(name));
  return items;
}

void add_vision(System& system, bool features) {
  Ports produces{{"picture", {any, kHidden}}};
  if (features) produces.push_back({"features", {any, kHidden}});
  system.data({{"patches", {any, 6}}})
      .encoder(
          "vision",
          {{{"patches", {any, 6}}},
           produces,
           [](const Values& item) { return double(item["patches"].size(0)); }},
          [] { return Vision(); },
          [features](VisionImpl& vision, Items items) {
            std::vector<Values> made;
            for (const auto& item : items) {
              auto x = torch::gelu(vision.block(torch::tanh(vision.in(item["patches"]))));
              made.emplace_back();
              made.back().set("picture", vision.projector(x));
              if (!features) continue;
              Tensors side;
              for (auto& layer : vision.side) side.push_back(layer(x));
              made.back().set("features", side);
            }
            return made;
          });
}

void add_audio(System& system) {
  nn::AudioConfig config{
      .mels = 4, .hidden = 8, .layers = 1, .heads = 2, .ffn = 16, .merge = 2, .out = kHidden};
  system.data({{"clip", {4, any}}})
      .encoder(
          "audio", {{"clip"}, {"sound"}, [](const Values& item) { return double(item["clip"].size(1)); }},
          [config] { return nn::AudioEncoder(config); },
          [](nn::AudioEncoderImpl& audio, Items items) {
            Tensors clips;
            for (const auto& item : items) clips.push_back(item["clip"]);
            std::vector<Values> made;
            for (auto& tokens : audio.forward(clips)) made.push_back({{"sound", {tokens}}});
            return made;
          });
}

void add_painter(System& system, const std::string& name, const std::string& target) {
  system.data({{target, {5}}})
      .generator(
          name, {{"states", target}}, [] { return Painter(); },
          [target](PainterImpl& painter, Items items) {
            auto sum = torch::zeros({}, items[0][target].options());
            for (const auto& item : items)
              sum = sum + (torch::tanh(painter.out(item["states"])).mean(0) - item[target]).square().sum();
            return sum;
          })
      .loss(
          name, [target](const Values& sample) { return 5.0 * double(sample.count(target)); }, 0.7);
}

struct BackboneParts {
  bool vision = false, audio = false, features = false, states = false, experts = false;
};

void add_backbone(System& system, const BackboneParts& parts) {
  auto config = decoder(parts.experts);
  Ports consumes{{"tokens", {any}, torch::kLong}, {"labels", {any}, torch::kLong}};
  if (parts.vision) consumes.push_back({"picture", {any, kHidden}});
  if (parts.audio) consumes.push_back("sound");
  if (parts.features) consumes.push_back("features");
  Ports produces;
  if (parts.states) produces.push_back({"states", {any, kHidden}});
  auto embed = [parts](torch::nn::EmbeddingImpl& table, Items samples, Flow& x) {
    std::vector<torch::Tensor> tokens;
    for (const auto& sample : samples) tokens.push_back(sample["tokens"]);
    auto padded = nn::pad_tokens(tokens, kPad);
    auto hidden = table.forward(padded.tokens);
    if (parts.vision)
      hidden = nn::scatter_items(hidden, padded.tokens, items_of(samples, "picture"), kPicture);
    if (parts.audio) hidden = nn::scatter_items(hidden, padded.tokens, items_of(samples, "sound"), kSound);
    x.set("hidden", hidden);
    x.set("mask", padded.mask);
    x.set("positions",
          torch::arange(hidden.size(1), hidden.options().dtype(torch::kLong).requires_grad(false)));
    if (!parts.features) return;
    Tensors features;
    auto blank = torch::zeros_like(hidden).detach();
    for (int64_t i = 0; i < kFeatures; ++i) {
      nn::SampleItems of_layer;
      for (const auto& sample : samples) {
        const auto& group = sample.group("features");
        of_layer.emplace_back();
        for (size_t k = size_t(i); k < group.size(); k += kFeatures) of_layer.back().push_back(group[k]);
      }
      features.push_back(nn::scatter_items(blank, padded.tokens, of_layer, kPicture));
    }
    x.set("features", features);
  };
  auto layer = [config, parts](int64_t index) {
    return [config, parts, index](nn::DecoderLayerImpl& module, Flow& x) {
      auto positions = nn::rotary(x["positions"], config.head_dim, config.rope_theta, x["hidden"]);
      auto out = module.run(x["hidden"], positions, x["mask"]);
      auto hidden = out.x;
      // The side features are used by every other layer, more than once each.
      if (parts.features && index % 2 == 0)
        hidden = hidden + x.group("features")[size_t(index / 2) % kFeatures];
      x.set("hidden", hidden);
      if (!parts.experts) return;
      auto valid = x["mask"].sum();
      x.loss("balance", out.losses.balance * valid);
      x.loss("router z", out.losses.z * valid);
    };
  };
  auto head = [parts](nn::DecoderHeadImpl& module, Items samples, Flow& x, std::vector<Values>& out) {
    auto states = module.states(x["hidden"]);
    Tensors logits, labels;
    for (size_t i = 0; i < samples.size(); ++i) {
      auto own = states[int64_t(i)].slice(0, 0, samples[i]["tokens"].size(0));
      auto counted = samples[i]["labels"].ne(-100).nonzero().flatten();
      logits.push_back(module.logits(own.index_select(0, counted)));
      labels.push_back(samples[i]["labels"].index_select(0, counted));
      if (parts.states) out[i].set("states", own);
    }
    auto all = torch::cat(labels);
    if (all.numel() == 0) return;
    auto scores = torch::cat(logits);
    x.loss("text", torch::nn::functional::cross_entropy(
                       scores, all, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum)));
    if (parts.experts) x.loss("z", nn::head_z_loss(scores));
  };
  std::vector<std::string> uses{"hidden", "mask", "positions"};
  if (parts.features) uses.push_back("features");
  auto backbone = system.data({{"tokens", {any}, torch::kLong}, {"labels", {any}, torch::kLong}})
                      .backbone("llm", {consumes, produces});
  backbone.embedding([] { return torch::nn::Embedding(kVocabulary, kHidden); }, embed);
  for (int64_t i = 0; i < config.layers; ++i)
    backbone.layers(
        1, [config](int64_t) { return nn::DecoderLayer(config); }, layer(i), uses);
  backbone.head([] { return nn::DecoderHead(kHidden, kVocabulary); }, head,
                std::vector<std::string>{"hidden"});
  if (!parts.experts) backbone.tie("head.weight", "embedding.weight");
  auto tokens = [](const Values& sample) { return double(sample["tokens"].size(0)); };
  auto labels = [](const Values& sample) { return sample["labels"].ne(-100).sum().item<double>(); };
  system.loss("text", labels);
  if (parts.experts)
    system.loss("balance", tokens, 0.01).loss("router z", tokens, 0.001).loss("z", labels, 1e-4);
}

bool takes_pictures(const std::string& kind) {
  return kind != "generation";
}

}  // namespace

std::vector<std::string> system_kinds() {
  return {"captioning", "generation", "two encoders", "all at once", "moe"};
}

System make_system(const std::string& kind) {
  System system;
  bool all = kind == "all at once";
  if (takes_pictures(kind)) add_vision(system, all);
  if (kind == "two encoders" || all) add_audio(system);
  if (kind == "generation" || all) add_painter(system, "drawing", "target");
  if (all) add_painter(system, "speech", "voice");
  add_backbone(system, {takes_pictures(kind), kind == "two encoders" || all, all, kind == "generation" || all,
                        kind == "moe"});
  return system;
}

std::vector<Values> make_samples(const std::string& kind, const SampleOptions& options, int64_t step) {
  auto generator = at::detail::createCPUGenerator(options.seed * 1000 + uint64_t(step));
  auto real = [&](at::IntArrayRef sizes) {
    return torch::randn(sizes, generator, torch::dtype(torch::kFloat64));
  };
  auto whole = [&](int64_t below) {
    return torch::randint(below, {1}, generator, torch::dtype(torch::kLong)).item<int64_t>();
  };
  bool all = kind == "all at once";
  std::vector<Values> samples;
  for (int64_t i = 0; i < options.samples; ++i) {
    Values sample;
    Tensors patches, clips, targets, voices, tokens;
    auto text = [&](int64_t length) {
      tokens.push_back(torch::randint(1, 37, {length}, generator, torch::dtype(torch::kLong)));
    };
    text(1 + whole(4));
    if (takes_pictures(kind) && i >= options.text_only)
      for (int64_t k = whole(4); k > 0; --k) {
        int64_t count = options.uneven && i == 1 ? 40 : 1 + whole(3);
        patches.push_back(real({count, 6}));
        tokens.push_back(torch::full({count}, kPicture, torch::kLong));
        text(1 + whole(2));
      }
    if ((kind == "two encoders" || all) && i >= options.text_only)
      for (int64_t k = whole(3); k > 0; --k) {
        int64_t frames = 4 + whole(9);
        clips.push_back(real({4, frames}));
        tokens.push_back(torch::full({((frames + 1) / 2 + 1) / 2}, kSound, torch::kLong));
        text(1 + whole(2));
      }
    text(1 + whole(8));
    if (kind == "generation" || all)
      for (int64_t k = whole(3); k > 0; --k) targets.push_back(real({5}));
    if (all && i % 2 == 0) voices.push_back(real({5}));
    auto joined = torch::cat(tokens);
    auto labels = torch::full_like(joined, -100);
    if (i % 3 != 2)
      labels.slice(0, -2).copy_(torch::randint(1, 37, {std::min<int64_t>(2, joined.numel())}, generator,
                                               torch::dtype(torch::kLong)));
    sample.set("tokens", joined);
    sample.set("labels", labels);
    if (takes_pictures(kind)) sample.set("patches", patches);
    if (kind == "two encoders" || all) sample.set("clip", clips);
    if (kind == "generation" || all) sample.set("target", targets);
    if (all) sample.set("voice", voices);
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace bigmac::train
