#include "bigmac/system/values.h"

#include <random>

#include "tests/system/support.h"

namespace bigmac {
namespace {

torch::Tensor number(double value) {
  return torch::full({}, value, torch::kFloat64);
}

TEST(Values, HoldGroupsOfNoneOneAndSeveral) {
  Values values{{"tokens", {number(1)}}, {"pictures", {number(2), number(3)}}, {"clips", {}}};
  EXPECT_EQ(values.names(), (std::vector<std::string>{"clips", "pictures", "tokens"}));
  EXPECT_EQ(values.count("clips"), 0u);
  EXPECT_EQ(values.count("pictures"), 2u);
  EXPECT_EQ(values.count("nothing"), 0u);
  EXPECT_TRUE(values.has("clips"));
  EXPECT_FALSE(values.has("nothing"));
  EXPECT_EQ(values["tokens"].item<double>(), 1);
  EXPECT_EQ(values.item("pictures", 1).item<double>(), 3);
  EXPECT_TRUE(values.group("clips").empty());
  values.set("tokens", number(7));
  EXPECT_EQ(values["tokens"].item<double>(), 7);
  values.erase("clips");
  EXPECT_FALSE(values.has("clips"));
}

TEST(Values, ComplainOfWhatIsNotThereOrNotOne) {
  Values values{{"tokens", {number(1)}}, {"pictures", {number(2), number(3)}}, {"clips", {}}};
  EXPECT_EQ(complaint([&] { values.at("token"); }),
            "[values] unknown value 'token' (did you mean 'tokens'?); known: clips, pictures, tokens");
  EXPECT_EQ(complaint([&] { values.group("spectrograms"); }),
            "[values] unknown value 'spectrograms'; known: clips, pictures, tokens");
  EXPECT_EQ(complaint([&] { values.at("pictures"); }),
            "[values] 'pictures' has 2 tensors, not one; ask for its group");
  EXPECT_EQ(complaint([&] { values.at("clips"); }),
            "[values] 'clips' has 0 tensors, not one; ask for its group");
  EXPECT_EQ(complaint([&] { values.item("pictures", 2); }),
            "[values] 'pictures' has 2 tensors, none with number 2");
  EXPECT_EQ(complaint([&] { values.set("x", torch::Tensor()); }),
            "[values] 'x' is set to an undefined tensor");
  EXPECT_EQ(complaint([&] { values.set("a\tb", number(1)); }),
            "[values] 'a\tb' is no name for a value; it must not be empty or hold a tab or a line end");
  EXPECT_EQ(complaint([&] { values.set_later("", 1, {}); }),
            "[values] '' is no name for a value; it must not be empty or hold a tab or a line end");
}

TEST(Values, LoadLaterOnceAndOnlyWhatIsAskedFor) {
  int loads = 0;
  Values values;
  values.set_later("pictures", 2, [&] {
    ++loads;
    return Tensors{number(2), number(3)};
  });
  EXPECT_EQ(values.count("pictures"), 2u);
  EXPECT_EQ(values.names(), std::vector<std::string>{"pictures"});
  EXPECT_TRUE(values.has("pictures"));
  EXPECT_EQ(loads, 0);
  EXPECT_EQ(values.item("pictures", 1).item<double>(), 3);
  EXPECT_EQ(values.group("pictures").size(), 2u);
  EXPECT_EQ(loads, 1);
}

TEST(Values, LoadEachByItsNumberAndKeepNothing) {
  std::vector<size_t> asked;
  Values values;
  values.set_each_later("pictures", 3, [&](size_t i) {
    asked.push_back(i);
    return number(double(i) + 10);
  });
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(values.item("pictures", 2).item<double>(), 12);
  EXPECT_EQ(values.item("pictures", 0).item<double>(), 10);
  EXPECT_EQ(values.item("pictures", 2).item<double>(), 12);
  EXPECT_EQ(asked, (std::vector<size_t>{2, 0, 2}));
  EXPECT_EQ(complaint([&] { values.item("pictures", 3); }),
            "[values] 'pictures' has 3 tensors, none with number 3");
  asked.clear();
  EXPECT_EQ(values.group("pictures").size(), 3u);
  EXPECT_EQ(values.item("pictures", 1).item<double>(), 11);
  EXPECT_EQ(asked, (std::vector<size_t>{0, 1, 2}));
}

// A load that fails fails again: nothing is left half loaded.
TEST(Values, ComplainEveryTimeOfWhatWasLoadedWrongly) {
  Values values;
  values.set_later("pictures", 3, [] { return Tensors{number(1)}; });
  values.set_later("clips", 1, [] { return Tensors{torch::Tensor()}; });
  values.set_later("torn", 1, []() -> Tensors { throw Failure("torn.png is truncated"); });
  values.set_each_later("each", 2, [](size_t i) -> torch::Tensor {
    if (i == 1) throw Failure("1.png is truncated");
    return number(0);
  });
  auto failure = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Failure& error) {
      return error.what();
    }
    return "no error";
  };
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(failure([&] { values.group("pictures"); }),
              "[values] 'pictures' was said to have 3 tensors, 1 were loaded");
    EXPECT_EQ(failure([&] { values.at("torn"); }), "torn.png is truncated");
    EXPECT_EQ(failure([&] { values.group("each"); }), "1.png is truncated");
    EXPECT_EQ(complaint([&] { values.at("clips"); }), "[values] 'clips' is set to an undefined tensor");
  }
}

TEST(Values, OfSeveralItemsAreTakenByName) {
  std::vector<Values> items{{{"x", {number(1)}}, {"y", {number(3), number(4)}}},
                            {{"x", {number(2)}}, {"y", {}}}};
  auto each = each_of(items, "x");
  ASSERT_EQ(each.size(), 2u);
  EXPECT_EQ(each[1].item<double>(), 2);
  auto groups = groups_of(items, "y");
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].size(), 2u);
  EXPECT_TRUE(groups[1].empty());
  EXPECT_EQ(complaint([&] { each_of(items, "y"); }),
            "[values] 'y' has 2 tensors, not one; ask for its group");
  auto again = values_of("x", each);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[1]["x"].item<double>(), 2);
}

TEST(Values, ComeBackFromBundles) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    Values values;
    int names = int(random() % 5);
    for (int n = 0; n < names; ++n) {
      Tensors group;
      for (int k = int(random() % 4); k > 0; --k)
        group.push_back(random() % 2 ? number(double(random())) : whole_numbers({int64_t(random() % 7), 1}));
      values.set(concat("value ", random() % 1000, " of ", n), group);
    }
    auto back = values_of(bundle_of(values, [](const auto&) { return true; }));
    ASSERT_EQ(back.names(), values.names());
    for (const auto& name : values.names()) {
      ASSERT_EQ(back.count(name), values.count(name));
      for (size_t k = 0; k < values.count(name); ++k)
        EXPECT_TRUE(back.group(name)[k].is_same(values.group(name)[k]));
    }
  }
}

TEST(Values, ArePutIntoABundleByChoice) {
  Values values{{"hidden", {number(1)}}, {"mask", {number(2)}}};
  bool loaded = false;
  values.set_later("pictures", 1, [&] {
    loaded = true;
    return Tensors{number(3)};
  });
  auto bundle = bundle_of(values, [](const std::string& name) { return name == "mask"; });
  ASSERT_EQ(bundle.size(), 1u);
  EXPECT_EQ(values_of(bundle).names(), std::vector<std::string>{"mask"});
  EXPECT_FALSE(loaded);
}

}  // namespace
}  // namespace bigmac
