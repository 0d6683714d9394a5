// Names in, emoji out: a decoder reads the name, a diffusion transformer behind it learns to draw it.
//   text_to_image --steps 200 --verbose
//   text_to_image --pp 2 --vpp 2 --microbatches 8 --shard drawing=states
#include <torch/torch.h>

#include "bigmac/bigmac.h"
#include "bigmac/data/dataset.h"
#include "bigmac/data/text.h"
#include "bigmac/nn/decoder.h"
#include "bigmac/nn/diffusion.h"
#include "bigmac/nn/initialise.h"
#include "bigmac/nn/lists.h"

using namespace bigmac;

int main(int argc, char** argv) {
  nn::DecoderConfig llm{.hidden = 96, .layers = 6, .head_dim = 24, .ffn = 256};
  nn::DiffusionConfig brush{.picture = 24, .hidden = 96, .ffn = 256, .text = 96};

  System system;
  system.data(
      {{"tokens", {any}, torch::kLong}, {"target", {3, 24, 24}}, {"noise", {3, 24, 24}}, {"time", {}}});

  system.backbone("llm", {.consumes = {"tokens"}, .produces = {{"states", {any, llm.hidden}}}})
      .embedding([&] { return torch::nn::Embedding(llm.vocabulary, llm.hidden); },
                 [](auto& table, Items samples, Flow& x) {
                   x.set("hidden",
                         table.forward(nn::pad_tokens(each_of(samples, "tokens"), data::kPad).tokens));
                 })
      .layers(
          llm.layers, [&](int64_t) { return nn::DecoderLayer(llm); },
          [](auto& layer, Flow& x) { x.set("hidden", layer.forward(x["hidden"])); })
      .head([&] { return nn::RmsNorm(llm.hidden); },
            [](auto& norm, Items samples, Flow& x, std::vector<Values>& out) {
              auto states = norm.forward(x["hidden"]);
              for (size_t i = 0; i < samples.size(); ++i)
                out[i].set("states", states[int64_t(i)].slice(0, 0, samples[i]["tokens"].size(0)));
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
  system.loss("drawing", [](const Values& sample) { return 3.0 * 24 * 24 * double(sample.count("target")); });

  auto emoji = data::load_dataset({.picture = 24});
  auto batches = [&](int64_t step) {
    auto random = at::detail::createCPUGenerator(uint64_t(step));
    std::vector<Values> samples;
    for (int64_t i = 0; i < 32; ++i) {
      auto index = emoji.training()[size_t(step * 32 + i) % emoji.training().size()];
      auto name = data::encode(emoji.pairs()[size_t(index)].name);
      name.push_back(data::kEnd);
      samples.push_back({{"tokens", {torch::tensor(name)}},
                         {"target", {emoji.picture(index)}},
                         {"noise", {torch::randn({3, 24, 24}, random, torch::kFloat32)}},
                         {"time", {torch::rand({}, random, torch::kFloat32)}}});
    }
    return samples;
  };
  return train::run_program(system, batches, argc, argv, {.steps = 100});
}
