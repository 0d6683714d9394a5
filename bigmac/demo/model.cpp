#include "bigmac/demo/model.h"

#include "bigmac/data/text.h"
#include "bigmac/nn/initialise.h"
#include "bigmac/nn/lists.h"

namespace bigmac::demo {
namespace {

void add_vision(System& system, const Config& config) {
  int64_t side = config.encoder.picture;
  system.data({{"pixels", {3, side, side}}})
      .encoder(
          kVision, {{"pixels"}, {{"picture", {config.encoder.tokens(), config.backbone.hidden}}}},
          [encoder = config.encoder] { return nn::VisionEncoder(encoder); },
          [](nn::VisionEncoderImpl& vision, Items items) {
            return values_of("picture", vision.forward(torch::stack(each_of(items, "pixels"))).unbind());
          });
}

void add_audio(System& system, const Config& config) {
  system.data({{"clip", {config.audio->mels, any}}, {"frames", {}, torch::kLong}})
      .encoder(
          kAudio,
          {{"clip", "frames"},
           {{"sound", {any, config.backbone.hidden}}},
           [](const Values& item) { return item["frames"].item<double>(); }},
          [audio = *config.audio] { return nn::AudioEncoder(audio); },
          [](nn::AudioEncoderImpl& audio, Items items) {
            return values_of("sound", audio.forward(each_of(items, "clip")));
          });
}

// All draws of all targets in one batch; shorter texts are padded and masked.
torch::Tensor drawing_loss(nn::DiffusionTransformerImpl& drawing, Items items) {
  auto text = nn::pad_states(each_of(items, "states"));
  int64_t draws = items[0]["times"].size(0);
  auto repeated = [&](const torch::Tensor& rows) { return rows.repeat_interleave(draws, 0); };
  return nn::rectified_flow_loss(drawing, repeated(torch::stack(each_of(items, "target"))),
                                 torch::cat(each_of(items, "noise")), torch::cat(each_of(items, "times")),
                                 repeated(text.x), repeated(text.mask));
}

void add_drawing(System& system, const Config& config) {
  int64_t side = config.encoder.picture, draws = config.batch.draws;
  double values = double(draws * 3 * side * side);
  system.data({{"target", {3, side, side}}, {"noise", {draws, 3, side, side}}, {"times", {draws}}})
      .generator(
          kDrawing, {{{"states", {any, config.backbone.hidden}}, "target", "noise", "times"}},
          [generator = config.generator] { return nn::DiffusionTransformer(generator); }, drawing_loss)
      .loss(
          kDrawing, [values](const Values& sample) { return values * double(sample.count("target")); },
          config.drawing_weight);
}

auto embed(bool hears, bool experts) {
  return [=](torch::nn::EmbeddingImpl& table, Items samples, Flow& x) {
    auto padded = nn::pad_tokens(each_of(samples, "tokens"), data::kPad);
    auto hidden = nn::scatter_items(table.forward(padded.tokens), padded.tokens,
                                    groups_of(samples, "picture"), data::kPicture);
    if (hears) hidden = nn::scatter_items(hidden, padded.tokens, groups_of(samples, "sound"), data::kSound);
    x.set("hidden", hidden);
    if (experts) x.set("mask", padded.mask);
  };
}

void run_layer(nn::DecoderLayerImpl& layer, Flow& x) {
  if (!x.has("mask")) return x.set("hidden", layer.forward(x["hidden"]));
  auto out = layer.run(x["hidden"], {}, x["mask"]);
  x.set("hidden", out.x);
  auto tokens = x["mask"].sum();
  x.loss("balance", out.losses.balance * tokens);
  x.loss("router z", out.losses.z * tokens);
}

// What is drawn takes the states of its text, behind the first token.
void run_head(nn::DecoderHeadImpl& head, Items samples, Flow& x, std::vector<Values>& out) {
  auto states = head.states(x["hidden"]);
  x.loss("text", nn::text_loss(head, states, each_of(samples, "labels")));
  auto rows = states.unbind();
  for (size_t i = 0; i < samples.size(); ++i)
    out[i].set("states", rows[i].slice(0, 1, samples[i]["tokens"].size(0)));
}

void add_backbone(System& system, const Config& config) {
  const auto& decoder = config.backbone;
  Ports consumes{"tokens", "labels", "picture"};
  if (config.audio) consumes.push_back("sound");
  auto backbone = system.data({{"tokens", {any}, torch::kLong}, {"labels", {any}, torch::kLong}})
                      .backbone(kBackbone, {consumes, {{"states", {any, decoder.hidden}}}});
  std::vector<std::string> uses{"hidden"};
  if (decoder.moe) uses.push_back("mask");
  backbone
      .embedding([decoder] { return torch::nn::Embedding(decoder.vocabulary, decoder.hidden); },
                 embed(config.audio.has_value(), decoder.moe.has_value()))
      .layers(
          decoder.layers, [decoder](int64_t) { return nn::DecoderLayer(decoder); }, run_layer, uses)
      .head([decoder] { return nn::DecoderHead(decoder.hidden, decoder.vocabulary, decoder.eps); }, run_head,
            std::vector<std::string>{"hidden"});
  if (decoder.tied_embeddings) backbone.tie("head.weight", "embedding.weight");
  system.loss("text",
              [](const Values& sample) { return sample["labels"].ne(data::kNoLabel).sum().item<double>(); });
  if (!decoder.moe) return;
  auto tokens = [](const Values& sample) { return double(sample["tokens"].size(0)); };
  double layers = double(decoder.layers);
  system.loss("balance", tokens, config.balance_weight / layers)
      .loss("router z", tokens, config.router_z_weight / layers);
}

}  // namespace

System make_system(const Config& config) {
  System system;
  add_vision(system, config);
  if (config.audio) add_audio(system, config);
  add_backbone(system, config);
  add_drawing(system, config);
  system.initialise(nn::initialise);
  return system;
}

}  // namespace bigmac::demo
