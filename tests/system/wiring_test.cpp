#include <random>

#include "tests/system/support.h"

namespace bigmac {
namespace {

double one(const Values&) {
  return 1;
}

auto encode_nothing = [](Matrix&, Items) { return std::vector<Values>(); };
auto generate_nothing = [](Matrix&, Items) { return torch::Tensor(); };
auto embed_nothing = [](Matrix&, Items, Flow&) {};
auto run_nothing = [](Matrix&, Flow&) {};
auto read_nothing = [](Matrix&, Items, Flow&, std::vector<Values>&) {};
auto make_layer = [](int64_t) { return make_matrix(); };

// Pictures in, text and a drawing out, and what a test changes of it.
struct Plan {
  Ports data{{"pixels", {any, 6}, torch::kFloat32}, {"tokens", {any}, torch::kLong}, {"target", {5}}};
  Ports vision_in{{"pixels", {any, 6}}}, vision_out{{"picture", {any, 16}}};
  Ports llm_in{"tokens", {"picture", {any, 16}}}, llm_out{{"states", {any, 16}, torch::kFloat32}};
  Ports painter_in{{"states", {any, 16}}, "target"}, painter_out{};
  std::string vision = "vision", llm = "llm", painter = "painter";
  std::vector<std::string> losses{"text", "painter"};
  std::function<void(System&)> more = [](System&) {};
  std::function<void(Backbone&)> more_of_backbone = [](Backbone&) {};
};

Backbone whole_backbone(System& system, const std::string& name, const Wiring& wiring) {
  auto backbone = system.backbone(name, wiring);
  backbone.embedding(make_matrix, embed_nothing)
      .layers(3, make_layer, run_nothing)
      .head(make_matrix, read_nothing);
  return backbone;
}

System system_of(const Plan& plan) {
  System system;
  system.data(plan.data)
      .encoder(plan.vision, {plan.vision_in, plan.vision_out}, make_matrix, encode_nothing)
      .generator(plan.painter, {plan.painter_in, plan.painter_out}, make_matrix, generate_nothing);
  auto backbone = whole_backbone(system, plan.llm, {plan.llm_in, plan.llm_out});
  plan.more_of_backbone(backbone);
  for (const auto& loss : plan.losses) system.loss(loss, one);
  plan.more(system);
  return system;
}

template <class Change>
std::string complaint_when(Change change) {
  Plan plan;
  change(plan);
  return complaint([&] { system_of(plan).check(); });
}

TEST(Wiring, OfWholeSystemsIsLegal) {
  EXPECT_EQ(complaint_when([](Plan&) {}), "no error");
  System text;
  text.data({"tokens"}).loss("text", one);
  whole_backbone(text, "llm", {{"tokens"}});
  EXPECT_EQ(complaint([&] { text.check(); }), "no error");
}

TEST(Wiring, MayHandDataToSeveralModules) {
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.llm_in.emplace_back("pixels");
              p.painter_in.emplace_back("pixels");
            }),
            "no error");
}

TEST(Wiring, NamesWhatNothingProducesWithTheNearest) {
  EXPECT_EQ(complaint_when([](Plan& p) { p.llm_in[1] = "pictures"; }),
            "[system] backbone 'llm' consumes 'pictures', which nothing produces: unknown value 'pictures' "
            "(did you mean 'picture'?); known: picture, pixels, states, target, tokens");
  EXPECT_EQ(complaint_when([](Plan& p) { p.vision_in.emplace_back("thumbnail"); }),
            "[system] encoder 'vision' consumes 'thumbnail', which nothing produces: unknown value "
            "'thumbnail'; known: picture, pixels, states, target, tokens");
}

TEST(Wiring, RefusesWhatTwoProduce) {
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.more = [](System& s) {
                s.encoder("audio", {{"pixels"}, {"picture"}}, make_matrix, encode_nothing);
              };
            }),
            "[system] 'picture' is produced twice, by encoder 'vision' and by encoder 'audio'");
  EXPECT_EQ(complaint_when([](Plan& p) { p.llm_out.emplace_back("target"); }),
            "[system] 'target' is produced twice, by the data and by backbone 'llm'");
  EXPECT_EQ(complaint_when([](Plan& p) { p.vision_out.emplace_back("picture"); }),
            "[system] 'picture' is produced twice, by encoder 'vision' and again");
  EXPECT_EQ(complaint_when([](Plan& p) { p.more = [](System& s) { s.data({"tokens"}); }; }),
            "[system] 'tokens' is produced twice, by the data and again");
}

TEST(Wiring, RefusesWhatIsConsumedTwiceByOne) {
  EXPECT_EQ(complaint_when([](Plan& p) { p.llm_in.emplace_back("tokens"); }),
            "[system] backbone 'llm' consumes 'tokens' twice");
}

TEST(Wiring, RefusesWhatNothingConsumes) {
  EXPECT_EQ(complaint_when([](Plan& p) { p.vision_out.emplace_back("grids"); }),
            "[system] encoder 'vision' produces 'grids', which nothing consumes: unknown consumed value "
            "'grids'; known: picture, pixels, states, target, tokens");
  EXPECT_EQ(
      complaint_when([](Plan& p) {
        p.llm_out = {"state"};
        p.painter_in = {"target"};
      }),
      "[system] backbone 'llm' produces 'state', which nothing consumes: unknown consumed value 'state'; "
      "known: picture, pixels, target, tokens");
}

TEST(Wiring, RefusesTwoModulesOfOneName) {
  EXPECT_EQ(complaint_when([](Plan& p) { p.painter = p.losses[1] = "vision"; }),
            "[system] two modules are called 'vision'");
  EXPECT_EQ(complaint_when([](Plan& p) { p.llm = "painter"; }), "[system] two modules are called 'painter'");
}

TEST(Wiring, RefusesACycle) {
  EXPECT_EQ(
      complaint_when([](Plan& p) { p.vision_in.emplace_back("states"); }),
      "[system] a cycle: encoder 'vision' takes from backbone 'llm', which takes from encoder 'vision'; "
      "values go from encoders to the backbone to generators");
  EXPECT_EQ(
      complaint_when([](Plan& p) {
        p.painter_out = {"sketch"};
        p.vision_in.emplace_back("sketch");
      }),
      "[system] a cycle: encoder 'vision' takes from generator 'painter', which takes from backbone "
      "'llm', which takes from encoder 'vision'; values go from encoders to the backbone to generators");
  EXPECT_EQ(complaint_when([](Plan& p) { p.llm_in.emplace_back("states"); }),
            "[system] a cycle: backbone 'llm' takes from backbone 'llm'; values go from encoders to the "
            "backbone to generators");
}

TEST(Wiring, KeepsKindsOfModulesApart) {
  EXPECT_EQ(
      complaint_when([](Plan& p) {
        p.more = [](System& s) {
          s.encoder("resampler", {{"pixels", "picture"}, {"tokens"}}, make_matrix, encode_nothing);
        };
        p.data.erase(p.data.begin() + 1);
      }),
      "[system] encoder 'resampler' consumes 'picture' of encoder 'vision'; an encoder takes data alone: "
      "make them one");
  EXPECT_EQ(complaint_when([](Plan& p) { p.painter_in.emplace_back("picture"); }),
            "[system] generator 'painter' consumes 'picture' of encoder 'vision'; a generator takes data and "
            "what the backbone produces: hand it through the backbone");
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.more = [](System& s) {
                s.encoder("critic", {{"pixels", "states"}, {"verdict"}}, make_matrix, encode_nothing);
              };
            }),
            "[system] encoder 'critic' consumes 'states' of backbone 'llm'; that is what generators do");
  EXPECT_EQ(complaint_when([](Plan& p) { p.painter_out = {"image"}; }),
            "[system] generator 'painter' produces 'image'; a generator gives its loss alone");
}

TEST(Wiring, RefusesModulesWithoutDataOrProducts) {
  EXPECT_EQ(
      complaint_when([](Plan& p) { p.painter_in = {"states"}; }),
      "[system] generator 'painter' consumes no data, so that nothing says how many items a sample has");
  EXPECT_EQ(complaint_when([](Plan& p) { p.vision_in.clear(); }),
            "[system] encoder 'vision' consumes no data, so that nothing says how many items a sample has");
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.vision_out.clear();
              p.llm_in.pop_back();
            }),
            "[system] encoder 'vision' produces nothing");
}

TEST(Wiring, TakesOneWholeBackbone) {
  EXPECT_EQ(complaint([] { System().check(); }), "[system] has 0 backbones, expected one");
  EXPECT_EQ(
      complaint_when([](Plan& p) { p.more = [](System& s) { whole_backbone(s, "other", {{"tokens"}}); }; }),
      "[system] has 2 backbones, expected one");
  auto without = [](const char* part) {
    return complaint([&] {
      System system;
      auto backbone = system.data({"tokens"}).loss("text", one).backbone("llm", {{"tokens"}});
      if (part != std::string("embedding")) backbone.embedding(make_matrix, embed_nothing);
      if (part != std::string("layers")) backbone.layers(2, make_layer, run_nothing);
      if (part != std::string("head")) backbone.head(make_matrix, read_nothing);
      system.check();
    });
  };
  for (const char* part : {"embedding", "layers", "head"})
    EXPECT_EQ(without(part), concat("[system] backbone 'llm' has no ", part));
}

TEST(Wiring, NamesBothSidesOfWhatDoesNotFit) {
  EXPECT_EQ(
      complaint_when([](Plan& p) {
        p.vision_in[0] = {"pixels", {any, 8}};
      }),
      "[system] 'pixels' does not fit: the data produces it [any, 6] Float, encoder 'vision' consumes it "
      "[any, 8]");
  EXPECT_EQ(
      complaint_when([](Plan& p) {
        p.llm_in[1] = {"picture", {16}};
      }),
      "[system] 'picture' does not fit: encoder 'vision' produces it [any, 16], backbone 'llm' consumes "
      "it [16]");
  EXPECT_EQ(
      complaint_when([](Plan& p) {
        p.llm_in[0] = {"tokens", {any}, torch::kInt32};
      }),
      "[system] 'tokens' does not fit: the data produces it [any] Long, backbone 'llm' consumes it [any] "
      "Int");
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.painter_in[0] = "states";
              p.painter_in[0].dtype = torch::kLong;
            }),
            "[system] 'states' does not fit: backbone 'llm' produces it [any, 16] Float, generator 'painter' "
            "consumes it of any shape Long");
}

TEST(Wiring, TakesFloatingDtypesForTheModels) {
  for (auto dtype : {torch::kFloat64, torch::kBFloat16, torch::kFloat16})
    EXPECT_EQ(complaint_when([&](Plan& p) { p.vision_in[0].dtype = dtype; }), "no error");
}

TEST(Wiring, RefusesBadNames) {
  for (const char* name : {"", "a\tb", "a\n"}) {
    EXPECT_EQ(complaint_when([&](Plan& p) { p.data.emplace_back(name); }),
              concat("[system] the data: '", name,
                     "' is no name for a value; it must not be empty or hold a tab or a line end"));
  }
  for (const char* name : {"", "vision.tower", "a\tb", "a\n", "vision*", "v?"})
    EXPECT_EQ(
        complaint_when([&](Plan& p) { p.vision = name; }),
        concat("[system] '", name,
               "' is no name for a module; it must not be empty or hold a dot, a tab, a line end, * or ?"));
}

TEST(Wiring, TakesDeclaredLossesAlone) {
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.losses = {"text", "paint"};
            }),
            "[system] the loss of generator 'painter' is not declared: unknown loss 'painter' (did you mean "
            "'paint'?); known: text, paint");
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.losses = {"text", "painter", "text"};
            }),
            "[system] loss 'text' is declared twice");
  EXPECT_EQ(complaint_when([](Plan& p) { p.losses.clear(); }),
            "[system] has no loss; declare what the backbone or a generator gives");
  EXPECT_EQ(complaint_when([](Plan& p) { p.more = [](System& s) { s.loss("z", {}); }; }),
            "[system] loss 'z' does not say what it is counted by");
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.more = [](System& s) { s.loss("z", one, std::numeric_limits<double>::quiet_NaN()); };
            }),
            "[system] loss 'z' has weight nan, expected a finite number");
}

TEST(Wiring, RefusesTiesToPartsThatAreNone) {
  for (const char* name : {"layers.3.weight", "haed.weight", "head", "weight", "llm.head.weight"})
    EXPECT_EQ(
        complaint_when(
            [&](Plan& p) { p.more_of_backbone = [&](Backbone& b) { b.tie(name, "embedding.weight"); }; }),
        concat("[system] tie: '", name,
               "' of backbone 'llm' is in no part of it; parameters are called embedding.*, layers.0.* to "
               "layers.2.* and head.*"));
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.more_of_backbone = [](Backbone& b) { b.tie("head.weight", "embed.weight"); };
            }),
            "[system] tie: 'embed.weight' of backbone 'llm' is in no part of it; parameters are called "
            "embedding.*, layers.0.* to layers.2.* and head.*");
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.more_of_backbone = [](Backbone& b) { b.tie("head.weight", "layers.2.weight"); };
            }),
            "no error");
}

TEST(Wiring, RefusesCostsThatAreNone) {
  EXPECT_EQ(complaint_when([](Plan& p) { p.more_of_backbone = [](Backbone& b) { b.head_cost(-1); }; }),
            "[system] llm.head costs -1, expected a finite number from 0");
  EXPECT_EQ(complaint_when([](Plan& p) {
              p.more_of_backbone = [](Backbone& b) { b.layers(1, make_layer, run_nothing, {}, INFINITY); };
            }),
            "[system] llm.layers.3 costs inf, expected a finite number from 0");
  System system;
  auto backbone = system.backbone("llm", {});
  EXPECT_EQ(complaint([&] { backbone.embedding_cost(1); }), "[system] embedding_cost before embedding");
  EXPECT_EQ(complaint([&] { backbone.head_cost(1); }), "[system] head_cost before head");
}

// Random systems of up to three encoders and generators: legal as they are, and refused by name once any one
// consumer asks for a value by a name that is not there.
TEST(Wiring, OfRandomSystemsIsLegalUntilOneNameIsWrong) {
  std::mt19937 random(7);
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  for (int trial = 0; trial < 200; ++trial) {
    int encoders = below(4), generators = below(4), wrong = below(encoders + generators + 1);
    for (bool broken : {false, true}) {
      auto draw = random;
      auto port = [&](const std::string& name, int module) {
        return Port(broken && module == wrong ? name + "!" : name);
      };
      System system;
      Ports taken{"tokens"}, made;
      system.data({"tokens"}).loss("text", one);
      for (int e = 0; e < encoders; ++e) {
        auto name = concat("encoder", e);
        system.data({name + " data"});
        Ports produces;
        for (int k = 0; k <= int(draw() % 3); ++k) produces.emplace_back(concat(name, " value ", k));
        taken.insert(taken.end(), produces.begin(), produces.end());
        system.encoder(name, {{port(name + " data", e)}, produces}, make_matrix, encode_nothing);
      }
      for (int g = 0; g < generators; ++g) {
        auto name = concat("generator", g);
        system.data({name + " data"}).loss(name, one);
        if (g == 0 || draw() % 2) made.emplace_back(concat("states ", g));
        system.generator(name, {{port(name + " data", encoders + g), made.back()}}, make_matrix,
                         generate_nothing);
      }
      taken[0] = port("tokens", encoders + generators);
      whole_backbone(system, "llm", {taken, made});
      auto text = complaint([&] { system.check(); });
      if (!broken)
        EXPECT_EQ(text, "no error") << "trial " << trial;
      else
        EXPECT_NE(text.find("!', which nothing produces: unknown value"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace bigmac
