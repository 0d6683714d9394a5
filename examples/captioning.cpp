// Emoji in, their names out: an image encoder in front of a decoder.
//   captioning --steps 200 --verbose
//   captioning --pp 4 --vpp 2 --microbatches 8 --ranks-as processes
#include <torch/torch.h>

#include "bigmac/bigmac.h"
#include "bigmac/data/dataset.h"
#include "bigmac/data/text.h"
#include "bigmac/nn/decoder.h"
#include "bigmac/nn/initialise.h"
#include "bigmac/nn/lists.h"
#include "bigmac/nn/vision.h"

using namespace bigmac;

int main(int argc, char** argv) {
  nn::VisionConfig eyes{.picture = 24, .hidden = 64, .ffn = 128, .out = 96};
  nn::DecoderConfig llm{.hidden = 96, .layers = 8, .head_dim = 24, .ffn = 256};

  System system;
  system.data({{"tokens", {any}, torch::kLong}, {"labels", {any}, torch::kLong}, {"pixels", {3, 24, 24}}});

  system.encoder(
      "vision", {.consumes = {"pixels"}, .produces = {{"picture", {any, llm.hidden}}}},
      [&] { return nn::VisionEncoder(eyes); },
      [](auto& vision, Items items) {
        return values_of("picture", vision.forward(torch::stack(each_of(items, "pixels"))).unbind());
      });

  system.backbone("llm", {.consumes = {"tokens", "labels", {"picture", {any, llm.hidden}}}})
      .embedding([&] { return torch::nn::Embedding(llm.vocabulary, llm.hidden); },
                 [](auto& table, Items samples, Flow& x) {
                   auto tokens = nn::pad_tokens(each_of(samples, "tokens"), data::kPad).tokens;
                   x.set("hidden", nn::scatter_items(table.forward(tokens), tokens,
                                                     groups_of(samples, "picture"), data::kPicture));
                 })
      .layers(
          llm.layers, [&](int64_t) { return nn::DecoderLayer(llm); },
          [](auto& layer, Flow& x) { x.set("hidden", layer.forward(x["hidden"])); })
      .head([&] { return nn::DecoderHead(llm.hidden, llm.vocabulary); },
            [](auto& head, Items samples, Flow& x, auto&) {
              x.loss("text", nn::text_loss(head, head.states(x["hidden"]), each_of(samples, "labels")));
            })
      .tie("head.weight", "embedding.weight");

  system.initialise(nn::initialise);
  system.loss("text", [](const Values& sample) { return sample["labels"].ne(-100).sum().item<double>(); });

  auto emoji = data::load_dataset({.picture = 24});
  auto batches = [&](int64_t step) {
    std::vector<Values> samples;
    for (int64_t i = 0; i < 32; ++i) {
      auto index = emoji.training()[size_t(step * 32 + i) % emoji.training().size()];
      auto name = torch::tensor(data::encode(emoji.pairs()[size_t(index)].name));
      auto picture = torch::full({eyes.tokens()}, int64_t{data::kPicture});
      auto end = torch::tensor({int64_t{data::kEnd}});
      samples.push_back({{"tokens", {torch::cat({picture, name, end})}},
                         {"labels", {torch::cat({picture.slice(0, 1) * 0 - 100, name, end, end * 0 - 100})}},
                         {"pixels", {emoji.picture(index)}}});
    }
    return samples;
  };
  return train::run_program(system, batches, argc, argv, {.steps = 100});
}
