#pragma once

#include "bigmac/system/system_model.h"
#include "tests/system/support.h"

namespace bigmac {

// Pictures and numbers in, a drawing and a loss out, of matrices; what a test changes of it. What flows:
// hidden [samples, 4], mask [samples] bool.
struct Toy {
  using Encode = std::function<std::vector<Values>(Matrix&, Items)>;
  using Embed = std::function<void(Matrix&, Items, Flow&)>;
  using Layer = std::function<void(Matrix&, Flow&)>;
  using Generate = std::function<torch::Tensor(Matrix&, Items)>;
  using Head = std::function<void(Matrix&, Items, Flow&, std::vector<Values>&)>;

  static std::vector<Values> encode_items(Matrix& matrix, Items items) {
    std::vector<Values> made;
    for (const auto& item : items) made.push_back({{"picture", {item["pixels"].matmul(matrix.weight)}}});
    return made;
  }
  static void embed_samples(Matrix& matrix, Items samples, Flow& x) {
    Tensors rows;
    for (const auto& sample : samples) {
      rows.push_back(matrix.weight.index_select(0, sample["tokens"]).sum(0));
      for (const auto& picture : sample.group("picture")) rows.back() = rows.back() + picture.sum(0);
    }
    x.set("hidden", torch::stack(rows));
    x.set("mask", x["hidden"].sum(1).ge(0));
  }
  static void run_layer(Matrix& matrix, Flow& x) {
    x.set("hidden", torch::tanh(x["hidden"].matmul(matrix.weight)));
  }
  static void read_head(Matrix& matrix, Items samples, Flow& x, std::vector<Values>& out) {
    for (size_t i = 0; i < samples.size(); ++i)
      out[i].set("states", x["hidden"].slice(0, int64_t(i), int64_t(i) + 1));
    x.loss("text", x["hidden"].matmul(matrix.weight).square().sum());
  }
  static torch::Tensor generate_items(Matrix& matrix, Items items) {
    auto sum = torch::zeros({}, matrix.weight.options());
    for (const auto& item : items)
      sum = sum + (item["states"].matmul(matrix.weight).sum(0) - item["target"]).square().sum();
    return sum;
  }

  Ports data{{"pixels", {any, 4}}, {"tokens", {any}, torch::kLong}, {"target", {4}}};
  Ports vision_in{"pixels"}, vision_out{{"picture", {any, 4}}};
  Ports llm_in{"tokens", "picture"}, llm_out{{"states", {any, 4}}}, painter_in{"states", "target"};
  Encode encode = encode_items;
  Embed embed = embed_samples;
  Layer layer = run_layer;
  Head head = read_head;
  Generate generate = generate_items;
  std::function<std::shared_ptr<Matrix>(int64_t)> make_layer = [](int64_t) { return make_matrix(); };
  std::optional<std::vector<std::string>> uses{}, head_uses{};
  int64_t layers = 3;
  std::vector<Tie> ties{};

  System system() const {
    System made;
    made.data(data)
        .encoder("vision", {vision_in, vision_out}, make_matrix, encode)
        .generator("painter", {painter_in}, make_matrix, generate);
    auto backbone = made.backbone("llm", {llm_in, llm_out});
    backbone.embedding([] { return std::make_shared<Matrix>(11, 4); }, embed)
        .layers(layers, make_layer, layer, uses)
        .head(make_matrix, head, head_uses);
    for (const auto& tie : ties) backbone.tie(tie.parameter, tie.to);
    auto one = [](const Values&) { return 1.0; };
    made.loss("text", one).loss("painter", one);
    return made;
  }
};

inline Step step_of(const System& system, int64_t ranks = 1, int64_t chunks = 1,
                    Base base = Base::one_f_one_b) {
  Step step;
  step.ranks = ranks;
  step.chunks = chunks;
  step.microbatches = 1;
  step.base = base;
  for (const auto& module : system.modules()) step.modules.push_back({module.name, module.kind, {}, 0});
  return step;
}

inline SystemModelOptions in_double() {
  return {{torch::kCPU, torch::kFloat64}};
}

inline SystemModel whole_model(const System& system, SystemModelOptions options = in_double()) {
  return {system, step_of(system), make_cut(system.backbone(), 1), 0, std::move(options)};
}

// Numbers that differ from item to item.
inline Values toy_sample(int i, int pictures, int targets) {
  Values sample;
  Tensors pixels, aims;
  for (int k = 0; k < pictures; ++k)
    pixels.push_back(torch::full({1 + k, 4}, 0.1 * i + 0.01 * k + 0.05, torch::kFloat64));
  for (int k = 0; k < targets; ++k) aims.push_back(torch::full({4}, 0.2 * k - 0.1 * i, torch::kFloat64));
  sample.set("pixels", pixels);
  sample.set("target", aims);
  sample.set("tokens", whole_numbers({i % 11, (3 * i + 1) % 11}));
  return sample;
}

// All of a step of one microbatch on one rank: encoders, backbone, generators.
inline Model::Output run_step(SystemModel& model, const Batch& batch) {
  model.bind(batch);
  auto items_of = [&](int module) {
    std::vector<ModelItem> items;
    for (size_t n = 0; n < batch.items(module, 0).size(); ++n) items.push_back({0, int(n)});
    return items;
  };
  Model::Inputs inputs;
  inputs.items = {model.encode(0, items_of(0)), {}};
  auto output = model.forward(0, 0, inputs);
  if (!items_of(1).empty()) output.loss = output.loss + model.generate(1, items_of(1), output.items.at(1));
  return output;
}

inline std::string run_complaint(const Toy& toy, std::vector<Values> samples) {
  return complaint([&] {
    auto system = toy.system();
    system.check();
    Batch batch(system, std::move(samples), 1);
    auto model = whole_model(system);
    run_step(model, batch);
  });
}

}  // namespace bigmac
