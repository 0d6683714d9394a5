#include "tests/system/toy.h"

namespace bigmac {
namespace {

TEST(SystemModel, RunsAStep) {
  Toy toy;
  EXPECT_EQ(run_complaint(toy, {toy_sample(0, 2, 1), toy_sample(1, 0, 3), toy_sample(2, 1, 0)}), "no error");
  EXPECT_EQ(run_complaint(toy, {toy_sample(0, 0, 0)}), "no error");
}

// By hand, item by item, from the parameters the model has.
TEST(SystemModel, GivesEverySampleItsItemsAndEveryItemItsValues) {
  auto system = Toy().system();
  std::vector<Values> samples{toy_sample(0, 2, 1), toy_sample(1, 0, 3), toy_sample(2, 1, 0)};
  Batch batch(system, samples, 1);
  auto model = whole_model(system);
  auto output = run_step(model, batch);
  auto weight = [&](const char* prefix) { return model.find(prefix)->named_parameters()["weight"]; };
  auto text = torch::zeros({}, torch::kFloat64), drawing = text;
  for (const auto& sample : samples) {
    auto row = weight("llm.embedding.").index_select(0, sample["tokens"]).sum(0, true);
    for (const auto& pixels : sample.group("pixels"))
      row = row + pixels.matmul(weight("vision.")).sum(0, true);
    for (const char* layer : {"llm.layers.0.", "llm.layers.1.", "llm.layers.2."})
      row = torch::tanh(row.matmul(weight(layer)));
    text = text + row.matmul(weight("llm.head.")).square().sum();
    for (const auto& target : sample.group("target"))
      drawing = drawing + (row.matmul(weight("painter.")).sum(0) - target).square().sum();
  }
  ASSERT_EQ(model.losses().size(), 2u);
  EXPECT_NEAR(model.losses()[0], text.item<double>() / 3, 1e-12);
  EXPECT_NEAR(model.losses()[1], drawing.item<double>() / 3, 1e-12);
  EXPECT_NEAR(output.loss.item<double>(), model.losses()[0] + model.losses()[1], 1e-12);
  EXPECT_EQ(model.find("llm.layers.3."), nullptr);
}

TEST(SystemModel, CountsALossOnceThoughItIsRecomputed) {
  auto system = Toy().system();
  Batch batch(system, {toy_sample(1, 0, 0)}, 1);
  auto model = whole_model(system);
  model.bind(batch);
  Model::Inputs inputs{{}, {{}, {}}};
  auto first = model.forward(0, 0, inputs).loss.item<double>();
  inputs.recomputed = true;
  EXPECT_EQ(model.forward(0, 0, inputs).loss.item<double>(), first);
  EXPECT_EQ(model.losses()[0], first);
  model.bind(batch);
  EXPECT_EQ(model.losses()[0], 0);
}

// A sum of 16 bits holds no more than three digits of its count.
TEST(SystemModel, DividesLossesInFloat32AtLeast) {
  Toy toy;
  toy.head = [](Matrix& matrix, Items, Flow& x, std::vector<Values>&) {
    x.loss("text", (x["hidden"].matmul(matrix.weight) * 0).sum() + 1);
  };
  auto system = toy.system();
  system.loss("none", [](const Values&) { return 0.0; });
  std::vector<Values> samples;
  for (int i = 0; i < 3; ++i) samples.push_back(toy_sample(i, 1, 0));
  Batch batch(system, samples, 1);
  auto model = whole_model(system, {{torch::kCPU, torch::kBFloat16}});
  auto output = run_step(model, batch);
  EXPECT_EQ(output.loss.scalar_type(), torch::kFloat32);
  EXPECT_NEAR(output.loss.item<double>(), 1.0 / 3, 1e-7);
}

TEST(SystemModel, NamesWhatAnEncoderGaveWrongly) {
  std::vector<Values> samples{toy_sample(0, 2, 0)};
  auto with = [&](const Toy::Encode& encode) {
    Toy toy;
    toy.encode = encode;
    return run_complaint(toy, samples);
  };
  auto gives = [](const std::string& name, at::IntArrayRef shape, torch::ScalarType type = torch::kFloat64) {
    auto tensor = torch::zeros(shape, type);
    return [=](Matrix&, Items items) { return std::vector<Values>(items.size(), Values{{name, {tensor}}}); };
  };
  EXPECT_EQ(with(gives("pictures", {2, 4})),
            "[system] encoder 'vision' gave 'pictures', which it does not say it produces: unknown value "
            "'pictures' (did you mean 'picture'?); known: picture");
  EXPECT_EQ(with([](Matrix&, Items items) { return std::vector<Values>(items.size()); }),
            "[system] encoder 'vision' gave no 'picture', which it says it produces");
  EXPECT_EQ(with([](Matrix&, Items) { return std::vector<Values>(1); }),
            "[system] encoder 'vision' gave values of 1 items for 2");
  EXPECT_EQ(with(gives("picture", {2, 3})),
            "[system] 'picture' of encoder 'vision' is [2, 3] Double, but its declaration says [any, 4]");
  Toy toy;
  toy.encode = gives("picture", {4});
  toy.vision_out = {"picture"};
  toy.llm_in = {"tokens", {"picture", {any, 4}}};
  EXPECT_EQ(run_complaint(toy, samples),
            "[system] 'picture' of encoder 'vision' is [4] Double, but backbone 'llm' says [any, 4]");
  toy.vision_out = toy.llm_in = {"picture"};
  toy.llm_in.emplace_back("tokens");
  toy.vision_out[0].dtype = torch::kLong;
  EXPECT_EQ(
      run_complaint(toy, samples),
      "[system] 'picture' of encoder 'vision' is [4] Double, but its declaration says of any shape Long");
  EXPECT_EQ(with(gives("picture", {0, 4})), "no error");
}

TEST(SystemModel, NamesDataThatAreNotAsDeclared) {
  Toy toy;
  auto sample = toy_sample(0, 1, 1);
  sample.set("tokens", torch::zeros({3}, torch::kFloat32));
  EXPECT_EQ(run_complaint(toy, {sample}),
            "[system] 'tokens' of the data is [3] Float, but their declaration says [any] Long");
  sample = toy_sample(0, 1, 1);
  sample.set("pixels", torch::zeros({2, 5}));
  EXPECT_EQ(run_complaint(toy, {sample}),
            "[system] 'pixels' of the data is [2, 5] Float, but their declaration says [any, 4]");
  sample = toy_sample(0, 1, 1);
  sample.set("target", torch::zeros({1, 4}));
  EXPECT_EQ(run_complaint(toy, {sample}),
            "[system] 'target' of the data is [1, 4] Float, but their declaration says [4]");
  toy.data[0] = "pixels";
  toy.vision_in = {{"pixels", {any, 4}}};
  sample = toy_sample(0, 1, 1);
  sample.set("pixels", torch::zeros({7}));
  EXPECT_EQ(run_complaint(toy, {sample}),
            "[system] 'pixels' of the data is [7] Float, but encoder 'vision' says [any, 4]");
  sample = toy_sample(0, 1, 1);
  sample.erase("tokens");
  EXPECT_EQ(run_complaint(Toy(), {sample}),
            "llm.embedding, step 0, microbatch 0: [values] unknown value 'tokens'; known: picture");
}

TEST(SystemModel, GivesModulesDataInItsDtypeAndLeavesWholeNumbers) {
  Toy toy;
  std::vector<torch::ScalarType> seen;
  toy.encode = [&](Matrix& matrix, Items items) {
    seen.push_back(items[0]["pixels"].scalar_type());
    return Toy::encode_items(matrix, items);
  };
  toy.embed = [&](Matrix& matrix, Items samples, Flow& x) {
    seen.push_back(samples[0]["tokens"].scalar_type());
    Toy::embed_samples(matrix, samples, x);
  };
  EXPECT_EQ(run_complaint(toy, {toy_sample(0, 1, 0)}), "no error");
  EXPECT_EQ(seen, (std::vector<torch::ScalarType>{torch::kFloat64, torch::kLong}));
}

TEST(SystemModel, TakesOneValueForAllItemsOfAGeneratorOrOneForEach) {
  std::vector<Values> samples{toy_sample(0, 0, 3), toy_sample(1, 0, 0)};
  auto giving = [&](size_t count, const char* name = "states") {
    Toy toy;
    toy.head = [=](Matrix&, Items, Flow& x, std::vector<Values>& out) {
      Tensors states;
      for (size_t k = 0; k < count; ++k) states.push_back(x["hidden"] + double(k));
      out[0].set(name, states);
      x.loss("text", x["hidden"].sum());
    };
    return run_complaint(toy, samples);
  };
  EXPECT_EQ(giving(1), "no error");
  EXPECT_EQ(giving(3), "no error");
  for (int count : {0, 2, 4})
    EXPECT_EQ(
        giving(size_t(count)),
        concat("[system] backbone 'llm' gave ", count,
               " tensors of 'states' for sample 0 of microbatch 0, of which generator 'painter' has 3 items; "
               "give one for all of them or one for each"));
  EXPECT_EQ(
      giving(1, "state"),
      "[system] backbone 'llm' gave 'state', which it does not say it produces: unknown value 'state' (did "
      "you mean 'states'?); known: states");
  Toy toy;
  toy.head = [](Matrix&, Items, Flow& x, std::vector<Values>& out) {
    out[0].set("states", x["hidden"][0]);
    x.loss("text", x["hidden"].sum());
  };
  EXPECT_EQ(run_complaint(toy, samples),
            "[system] 'states' of backbone 'llm' is [4] Double, but its declaration says [any, 4]");
  toy.llm_out = {"states"};
  toy.painter_in = {{"states", {any, 4}}, "target"};
  EXPECT_EQ(run_complaint(toy, samples),
            "[system] 'states' of backbone 'llm' is [4] Double, but generator 'painter' says [any, 4]");
}

TEST(SystemModel, NamesLossesThatAreNone) {
  auto giving = [&](const char* name, const std::function<torch::Tensor(const torch::Tensor&)>& sum) {
    Toy toy;
    toy.head = [=](Matrix&, Items, Flow& x, std::vector<Values>&) { x.loss(name, sum(x["hidden"])); };
    return run_complaint(toy, {toy_sample(0, 0, 0), toy_sample(1, 0, 0)});
  };
  EXPECT_EQ(giving("texts", [](const auto& x) { return x.sum(); }),
            "[system] unknown loss 'texts' (did you mean 'text'?); known: text, painter");
  EXPECT_EQ(giving("text", [](const auto& x) { return x.sum(0); }),
            "[system] loss 'text' is [4] Double, expected one number: the sum over the microbatch");
  EXPECT_EQ(giving("text", [](const auto&) { return torch::Tensor(); }), "no error");  // none
  EXPECT_EQ(giving("text", [](const auto& x) { return x.sum().reshape({1, 1}); }), "no error");
  Toy toy;
  toy.generate = [](Matrix&, Items) { return torch::Tensor(); };
  EXPECT_EQ(run_complaint(toy, {toy_sample(0, 0, 1)}),
            "[system] loss 'painter' is undefined, expected one number: the sum over the microbatch");
}

TEST(SystemModel, KeepsLayersToTheValuesThatTheyUse) {
  Toy toy;
  toy.uses = {{"hidden", "extra"}};
  toy.layer = [](Matrix& matrix, Flow& x) {
    Toy::run_layer(matrix, x);
    if (x.has("extra"))
      x.erase("extra");
    else
      x.set("extra", torch::ones({1}));
  };
  std::vector<bool> there;
  toy.head = [&](Matrix& matrix, Items samples, Flow& x, std::vector<Values>& out) {
    there.push_back(x.has("extra"));
    Toy::read_head(matrix, samples, x, out);
  };
  for (int64_t layers : {1, 2, 3}) {
    toy.layers = layers;
    run_complaint(toy, {toy_sample(0, 0, 0)});
  }
  EXPECT_EQ(there, (std::vector<bool>{true, false, true}));
  toy.uses = {{"hidden"}};
  EXPECT_EQ(run_complaint(toy, {toy_sample(0, 0, 0)}),
            "llm.layers.0, step 0, microbatch 0: [system] it sets 'extra', which is not among what it says "
            "it uses");
}

TEST(SystemModel, HandsOnWhatALaterPartUsesAlone) {
  Toy toy;
  toy.layers = 4;
  toy.uses = {{"hidden"}};
  toy.head_uses = {{"hidden"}};
  std::vector<std::vector<std::string>> seen;
  toy.layer = [&](Matrix& matrix, Flow& x) {
    seen.push_back(x.names());
    Toy::run_layer(matrix, x);
  };
  using Names = std::vector<std::string>;
  auto handed_on = [&](int64_t stages) {
    auto system = toy.system();
    Batch batch(system, {toy_sample(0, 0, 0)}, 1);
    auto cut = make_cut(system.backbone(), stages);
    std::vector<Names> names;
    Model::Inputs inputs{{}, {{}, {}}};
    for (int rank = 0; rank < int(stages); ++rank) {
      SystemModel model(system, step_of(system, stages), cut, rank, in_double());
      model.bind(batch);
      inputs.values = model.forward(0, 0, inputs).values;
      names.push_back(values_of(inputs.values).names());
    }
    names.pop_back();
    return names;
  };
  EXPECT_EQ(handed_on(4), (std::vector<Names>(3, {"hidden"})));
  EXPECT_EQ(seen, (std::vector<Names>(4, {"hidden"})));
  toy.head_uses = {{"hidden", "mask"}};
  EXPECT_EQ(handed_on(4), (std::vector<Names>(3, {"hidden", "mask"})));
  toy.uses = {};
  toy.head_uses = {};
  EXPECT_EQ(handed_on(2), (std::vector<Names>(1, {"hidden", "mask"})));
}

TEST(SystemModel, RefusesNamesToRecomputeThatAreNone) {
  auto system = Toy().system();
  auto recomputing = [&](const char* name) {
    auto options = in_double();
    options.recomputed = {name};
    return complaint([&] { whole_model(system, options); });
  };
  EXPECT_EQ(
      recomputing("vison"),
      "[system] recompute: unknown module 'vison' (did you mean 'vision'?); known: vision, painter, llm");
  EXPECT_EQ(
      recomputing("painter"),
      "[system] recompute: generator 'painter' keeps nothing between its forward and its backward, which are "
      "one operator");
  EXPECT_EQ(recomputing("llm"), "no error");
  auto options = in_double();
  options.recomputed = {"vision"};
  auto model = whole_model(system, options);
  EXPECT_TRUE(model.recomputes_encoder(0));
  EXPECT_FALSE(model.recomputes_backbone());
}

TEST(SystemModel, RefusesACutOfOtherStages) {
  auto system = Toy().system();
  EXPECT_EQ(complaint([&] {
              SystemModel(system, step_of(system), make_cut(system.backbone(), 2), 0, in_double());
            }),
            "[system] the cut has 2 stages, the step 1");
}

}  // namespace
}  // namespace bigmac
