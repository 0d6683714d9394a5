// Understanding and generation in one model: emoji are captioned, names are drawn, in any mixture of samples.
//   everything --steps 200 --verbose
//   everything --pp 4 --vpp 2 --dp 2 --microbatches 4 --order balanced --shard llm=states
#include <torch/torch.h>

#include "bigmac/bigmac.h"
#include "bigmac/data/dataset.h"
#include "bigmac/data/text.h"
#include "bigmac/nn/decoder.h"
#include "bigmac/nn/diffusion.h"
#include "bigmac/nn/initialise.h"
#include "bigmac/nn/lists.h"
#include "bigmac/nn/vision.h"

using namespace bigmac;

int main(int argc, char** argv) {
  nn::VisionConfig eyes{.picture = 24, .hidden = 64, .ffn = 128, .out = 96};
  nn::DecoderConfig llm{.hidden = 96, .layers = 8, .head_dim = 24, .ffn = 256};
  nn::DiffusionConfig brush{.picture = 24, .hidden = 96, .ffn = 256, .text = 96};

  System system;
  system.data({"tokens", "labels", "pixels", "target", "noise", "time"});
  system.encoder(
      "vision", {.consumes = {"pixels"}, .produces = {{"picture", {any, llm.hidden}}}},
      [&] { return nn::VisionEncoder(eyes); },
      [](auto& vision, Items items) {
        return values_of("picture", vision.forward(torch::stack(each_of(items, "pixels"))).unbind());
      });
  system.backbone("llm", {.consumes = {"tokens", "labels", "picture"}, .produces = {"states"}})
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
            [](auto& head, Items samples, Flow& x, std::vector<Values>& out) {
              auto states = head.states(x["hidden"]);
              for (size_t i = 0; i < samples.size(); ++i)
                out[i].set("states", states[int64_t(i)].slice(0, 0, samples[i]["tokens"].size(0)));
              x.loss("text", nn::text_loss(head, states, each_of(samples, "labels")));
            });
  system.generator(
      "drawing", {.consumes = {"states", "target", "noise", "time"}},
      [&] { return nn::DiffusionTransformer(brush); },
      [](auto& drawing, Items items) {
        auto text = nn::pad_states(each_of(items, "states"));
        auto of = [&](const char* name) { return torch::stack(each_of(items, name)); };
        return nn::rectified_flow_loss(drawing, of("target"), of("noise"), of("time"), text.x, text.mask);
      });
  system.initialise(nn::initialise);
  system.loss("text", [](const Values& s) { return s["labels"].ne(-100).sum().item<double>(); });
  system.loss("drawing", [](const Values& s) { return 3.0 * 24 * 24 * double(s.count("target")); });

  auto emoji = data::load_dataset({.picture = 24});
  auto batches = [&](int64_t step) {
    auto random = at::detail::createCPUGenerator(uint64_t(step));
    std::vector<Values> samples;
    for (int64_t i = 0; i < 32; ++i) {
      auto index = emoji.training()[size_t(step * 32 + i) % emoji.training().size()];
      auto name = torch::tensor(data::encode(emoji.pairs()[size_t(index)].name));
      auto picture = torch::full({i % 2 == 0 ? eyes.tokens() : 0}, int64_t{data::kPicture});
      auto tokens = torch::cat({picture, name, torch::tensor({int64_t{data::kEnd}})});
      auto labels = torch::full_like(tokens, nn::kNoLabel);
      if (i % 2 == 0) labels.slice(0, picture.numel() - 1, -1).copy_(tokens.slice(0, picture.numel()));
      samples.push_back({{"tokens", {tokens}}, {"labels", {labels}}});
      samples.back().set(i % 2 == 0 ? "pixels" : "target", emoji.picture(index));
      if (i % 2 == 0) continue;
      samples.back().set("noise", torch::randn({3, 24, 24}, random, torch::kFloat32));
      samples.back().set("time", torch::rand({}, random, torch::kFloat32));
    }
    return samples;
  };
  return train::run_program(system, batches, argc, argv, {.steps = 100});
}
