#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "bigmac/runtime/threads_transport.h"
#include "tests/system/toy.h"

namespace bigmac {
namespace {

TEST(SystemModel, RefusesATensorThatTwoLayersShareWithoutATie) {
  Toy toy;
  auto shared = make_matrix();
  toy.make_layer = [=](int64_t index) { return index == 1 ? make_matrix() : shared; };
  auto system = toy.system();
  EXPECT_EQ(
      complaint([&] { whole_model(system); }),
      "[system] 'llm.layers.0.weight' and 'llm.layers.2.weight' are one tensor, which stages cannot share; "
      "declare it: tie(...)");
  toy.make_layer = [](int64_t) { return std::shared_ptr<Matrix>(); };
  auto without = toy.system();
  EXPECT_EQ(complaint([&] { whole_model(without); }), "[system] the maker of 'llm.layers.0.' gave no module");
}

std::string tie_complaint(std::vector<Tie> ties) {
  Toy toy;
  toy.ties = std::move(ties);
  auto system = toy.system();
  return complaint([&] {
    system.check();
    whole_model(system);
  });
}

TEST(Ties, ThatCannotBeAreNamed) {
  EXPECT_EQ(
      tie_complaint({{"head.weight", "embedding.weight"}}),
      "[system] 'head.weight' is [4, 4] Double and cannot be tied to 'embedding.weight', which is [11, 4] "
      "Double");
  EXPECT_EQ(
      tie_complaint({{"head.wieght", "layers.0.weight"}}),
      "[system] tie: 'llm.head.*' has unknown parameter 'wieght' (did you mean 'weight'?); known: weight");
  EXPECT_EQ(tie_complaint({{"head.weight", "layers.0.bias"}}),
            "[system] tie: 'llm.layers.0.*' has unknown parameter 'bias'; known: weight");
  EXPECT_EQ(tie_complaint({{"head.weight", "layers.0.weight"}, {"head.weight", "layers.1.weight"}}),
            "[system] 'head.weight' is tied twice");
  Tie first{"layers.1.weight", "layers.0.weight"}, second{"head.weight", "layers.1.weight"};
  for (const auto& ties : {std::vector{first, second}, std::vector{second, first}})
    EXPECT_EQ(
        tie_complaint(ties),
        "[system] 'head.weight' is tied to 'layers.1.weight', which is tied itself; tie both to one that is "
        "not");
  EXPECT_EQ(tie_complaint({first, {"head.weight", "layers.0.weight"}}), "no error");
}

TEST(Ties, AreRefusedOnTheRankThatHoldsOneSideAlone) {
  for (const auto& tie : {Tie{"head.weight", "embedding.weight"}, Tie{"embedding.weight", "head.weight"},
                          Tie{"head.weight", "layers.0.bias"}}) {
    Toy toy;
    toy.ties = {tie};
    auto system = toy.system();
    int refused = 0;
    for (int rank : {0, 1, 2})
      refused += complaint([&] {
                   SystemModel(system, step_of(system, 3), make_cut(system.backbone(), 3), rank, in_double());
                 }) != "no error";
    EXPECT_EQ(refused, 1) << tie.parameter;
  }
}

TEST(Ties, AreOneParameterWhereverTheyStand) {
  Toy toy;
  toy.ties = {{"head.weight", "layers.0.weight"}};
  auto system = toy.system();
  auto whole = whole_model(system);
  std::vector<std::string> names;
  for (const auto& parameter : whole.parameters()) names.push_back(parameter.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"vision.weight", "painter.weight", "llm.embedding.weight",
                                      "llm.layers.1.weight", "llm.layers.2.weight", "llm.layers.0.weight"}));
  ASSERT_EQ(whole.tied_parameters().size(), 1u);
  const auto& tied = whole.tied_parameters()[0];
  ASSERT_EQ(tied.leaves.size(), 2u);
  EXPECT_EQ(tied.leaves[0].data_ptr(), tied.leaves[1].data_ptr());
  for (int rank : {0, 2}) {
    SystemModel part(system, step_of(system, 3), Cut{{0, 2, 4, 5}}, rank, in_double());
    ASSERT_EQ(part.tied_parameters().size(), 1u);
    ASSERT_EQ(part.tied_parameters()[0].leaves.size(), 1u);
    EXPECT_EQ(part.tied_parameters()[0].name, "llm.layers.0.weight");
    EXPECT_TRUE(torch::equal(part.tied_parameters()[0].leaves[0], tied.leaves[0]));
  }
}

using ByName = std::map<std::string, torch::Tensor>;

ByName parameters_of(const SystemModel& model) {
  ByName all;
  for (const auto& parameter : model.parameters()) all[parameter.name] = parameter.leaves[0].detach();
  return all;
}

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

// Ranks as threads, which share libtorch's generator.
TEST(SystemModel, StartsFromTheSameValuesInEveryCut) {
  for (bool tied : {false, true}) {
    Toy toy;
    toy.layers = 7;
    if (tied) toy.ties = {{"head.weight", "layers.0.weight"}};
    auto system = toy.system();
    auto expected = parameters_of(whole_model(system));
    EXPECT_EQ(expected.size(), tied ? 10u : 11u);
    for (auto base : {Base::interleaved, Base::zb_v})
      for (int64_t ranks : {1, 2, 3, 4})
        for (int64_t chunks : {1, 2}) {
          if (base == Base::zb_v && chunks == 1) continue;
          SCOPED_TRACE(concat(name(base), " P=", ranks, " V=", chunks));
          auto step = step_of(system, ranks, chunks, chunks == 1 ? Base::one_f_one_b : base);
          std::mutex mutex;
          std::map<std::string, int> holders;
          run_threads(int(ranks), [&](Transport& transport) {
            SystemModel model(system, step, make_cut(system.backbone(), ranks * chunks), transport.rank(),
                              in_double());
            std::lock_guard lock(mutex);
            for (const auto& [name, value] : parameters_of(model)) {
              ++holders[name];
              EXPECT_TRUE(same_bits(value, expected.at(name))) << name;
            }
          });
          EXPECT_EQ(holders.size(), expected.size());
          EXPECT_EQ(holders["vision.weight"], ranks);
          EXPECT_EQ(holders["painter.weight"], ranks);
          EXPECT_EQ(holders["llm.layers.3.weight"], 1);
        }
  }
}

TEST(SystemModel, StartsFromOtherValuesWithAnotherSeedOrName) {
  auto system = Toy().system();
  auto options = in_double();
  auto first = parameters_of(whole_model(system, options));
  EXPECT_FALSE(same_bits(first.at("llm.layers.0.weight"), first.at("llm.layers.1.weight")));
  EXPECT_FALSE(same_bits(first.at("vision.weight"), first.at("painter.weight")));
  options.seed = 2;
  auto second = parameters_of(whole_model(system, options));
  for (const auto& [name, value] : first) EXPECT_FALSE(same_bits(value, second.at(name))) << name;
}

TEST(SystemModel, LeavesLibtorchsGeneratorAsItWas) {
  auto system = Toy().system();
  torch::manual_seed(3);
  auto expected = torch::rand({4});
  torch::manual_seed(3);
  whole_model(system);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

TEST(SystemModel, InitialisesByTheSystemsFunction) {
  auto system = Toy().system();
  std::vector<std::string> prefixes;
  system.initialise([&](torch::nn::Module& module, uint64_t seed, std::string_view prefix) {
    torch::NoGradGuard no_grad;
    EXPECT_EQ(seed, 1u);
    prefixes.emplace_back(prefix);
    for (auto& parameter : module.parameters()) parameter.fill_(double(prefix.size()));
  });
  auto values = parameters_of(whole_model(system));
  EXPECT_EQ(prefixes, (std::vector<std::string>{"vision.", "painter.", "llm.embedding.", "llm.layers.0.",
                                                "llm.layers.1.", "llm.layers.2.", "llm.head."}));
  EXPECT_EQ(values.at("llm.layers.1.weight").max().item<double>(), double(std::strlen("llm.layers.1.")));
}

TEST(Trained, IsWhatNoPatternFreezesOrOneTrainsAgain) {
  EXPECT_TRUE(matches("vision.*", "vision.block.weight"));
  EXPECT_FALSE(matches("vision.*", "television.block.weight"));
  EXPECT_TRUE(matches("*.projector.*", "vision.projector.weight"));
  EXPECT_FALSE(matches("*.projector.*", "projector.weight"));
  EXPECT_TRUE(matches("llm.layers.?.weight", "llm.layers.7.weight"));
  EXPECT_FALSE(matches("llm.layers.?.weight", "llm.layers.17.weight"));
  EXPECT_FALSE(matches("llm", "llm.head.weight"));
  EXPECT_TRUE(Trained{}("anything"));
  Trained projector{{"*"}, {"*.projector.*"}};
  EXPECT_TRUE(projector("vision.projector.bias"));
  EXPECT_FALSE(projector("vision.in.bias"));
  EXPECT_FALSE(projector("llm.head.weight"));
  Trained head{{"llm.*", "vision.*"}, {"llm.head.*", "llm.layers.7.*"}};
  EXPECT_TRUE(head("llm.head.weight"));
  EXPECT_TRUE(head("llm.layers.7.weight"));
  EXPECT_FALSE(head("llm.layers.17.weight"));
  EXPECT_TRUE(head("painter.weight"));
}

TEST(Trained, DecidesWhichParametersTakeGradients) {
  Toy toy;
  toy.ties = {{"head.weight", "layers.0.weight"}};
  auto system = toy.system();
  auto trained_of = [&](Trained trained) {
    auto options = in_double();
    options.trained = std::move(trained);
    auto model = whole_model(system, options);
    std::vector<std::string> names;
    for (const auto& parameter : model.parameters())
      if (parameter.trained()) names.push_back(parameter.name);
    EXPECT_EQ(model.is_trained(0), std::count(names.begin(), names.end(), "vision.weight") > 0);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(trained_of({}).size(), 6u);
  EXPECT_EQ(
      trained_of({{"vision.*", "painter.*"}, {}}),
      (Names{"llm.embedding.weight", "llm.layers.1.weight", "llm.layers.2.weight", "llm.layers.0.weight"}));
  EXPECT_EQ(trained_of({{"*"}, {"vision.*"}}), Names{"vision.weight"});
  // A tied parameter goes by the name of what it is tied to.
  EXPECT_EQ(trained_of({{"*"}, {"llm.head.*"}}), Names{});
  EXPECT_EQ(trained_of({{"*"}, {"llm.layers.0.*"}}), Names{"llm.layers.0.weight"});
}

}  // namespace
}  // namespace bigmac
