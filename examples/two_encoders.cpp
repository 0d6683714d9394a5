// Emoji and their spoken names in, the written names out: an image and an audio encoder in front of a
// decoder.
//   two_encoders --steps 200 --verbose
//   two_encoders --pp 4 --microbatches 8 --freeze 'vision.*'
#include <torch/torch.h>

#include "bigmac/bigmac.h"
#include "bigmac/data/dataset.h"
#include "bigmac/data/spoken.h"
#include "bigmac/data/text.h"
#include "bigmac/nn/audio.h"
#include "bigmac/nn/decoder.h"
#include "bigmac/nn/initialise.h"
#include "bigmac/nn/lists.h"
#include "bigmac/nn/log_mel.h"
#include "bigmac/nn/vision.h"

using namespace bigmac;

int main(int argc, char** argv) {
  nn::VisionConfig eyes{.picture = 24, .hidden = 64, .ffn = 128, .out = 96};
  nn::AudioConfig ears{.hidden = 64, .ffn = 128, .merge = 4, .out = 96};
  nn::DecoderConfig llm{.hidden = 96, .layers = 6, .head_dim = 24, .ffn = 256};

  System system;
  system.data({"tokens", "labels", {"pixels", {3, 24, 24}}, {"clip", {ears.mels, any}}})
      .encoder(
          "vision", {.consumes = {"pixels"}, .produces = {{"picture", {any, llm.hidden}}}},
          [&] { return nn::VisionEncoder(eyes); },
          [](auto& vision, Items items) {
            return values_of("picture", vision.forward(torch::stack(each_of(items, "pixels"))).unbind());
          })
      .encoder(
          "audio", {.consumes = {"clip"}, .produces = {{"sound", {any, llm.hidden}}}},
          [&] { return nn::AudioEncoder(ears); },
          [](auto& audio, Items items) { return values_of("sound", audio.forward(each_of(items, "clip"))); });
  system.backbone("llm", {.consumes = {"tokens", "labels", "picture", "sound"}})
      .embedding([&] { return torch::nn::Embedding(llm.vocabulary, llm.hidden); },
                 [](auto& table, Items samples, Flow& x) {
                   auto tokens = nn::pad_tokens(each_of(samples, "tokens"), data::kPad).tokens;
                   auto seen = nn::scatter_items(table.forward(tokens), tokens, groups_of(samples, "picture"),
                                                 data::kPicture);
                   x.set("hidden",
                         nn::scatter_items(seen, tokens, groups_of(samples, "sound"), data::kSound));
                 })
      .layers(
          llm.layers, [&](int64_t) { return nn::DecoderLayer(llm); },
          [](auto& layer, Flow& x) { x.set("hidden", layer.forward(x["hidden"])); })
      .head([&] { return nn::DecoderHead(llm.hidden, llm.vocabulary); },
            [](auto& head, Items samples, Flow& x, auto&) {
              x.loss("text", nn::text_loss(head, head.states(x["hidden"]), each_of(samples, "labels")));
            });
  system.initialise(nn::initialise);
  system.loss("text", [](const Values& sample) { return sample["labels"].ne(-100).sum().item<double>(); });

  auto emoji = data::load_dataset({.picture = 24});
  data::Spoken spoken(emoji, {.cache = "out/spoken"});
  auto batches = [&](int64_t step) {
    std::vector<Values> samples;
    for (int64_t i = 0; i < 32; ++i) {
      auto index = emoji.training()[size_t(step * 32 + i) % emoji.training().size()];
      auto clip = nn::log_mel(spoken.waveform(index), spoken.sample_rate());
      auto name = torch::tensor(data::encode(emoji.pairs()[size_t(index)].name));
      auto end = torch::tensor({int64_t{data::kEnd}});
      auto given = torch::cat({torch::full({eyes.tokens()}, int64_t{data::kPicture}),
                               torch::full({ears.tokens(clip.size(1))}, data::kSound)});
      samples.push_back({{"tokens", {torch::cat({given, name, end})}},
                         {"labels", {torch::cat({given.slice(0, 1) * 0 - 100, name, end, end * 0 - 100})}},
                         {"pixels", {emoji.picture(index)}},
                         {"clip", {clip}}});
    }
    return samples;
  };
  return train::run_program(system, batches, argc, argv, {.steps = 100});
}
