#include "bigmac/formats/yaml_section.h"

#include <gtest/gtest.h>

#include "bigmac/formats/units.h"

namespace bigmac {
namespace {

YamlSection section_of(const std::string& yaml) {
  return {load_yaml(yaml, "f.yaml"), "f.yaml", ""};
}

template <class Run>
std::string error_of(const std::string& yaml, Run run) {
  try {
    auto section = section_of(yaml);
    run(section);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(YamlSection, ReadsValuesListsSectionsAndListsOfMappings) {
  auto root = section_of("a: 3\nb: [1, 2K]\nc: {d: x}\ne:\n  - d: y\n  - d: z\nf: 8K\n");
  int64_t a = 0;
  std::vector<int64_t> b, f;
  root.read("a", a);
  root.read_list("b", b, count_from);
  root.read_list("f", f, count_from);
  EXPECT_EQ(a, 3);
  EXPECT_EQ(b, (std::vector<int64_t>{1, 2048}));
  EXPECT_EQ(f, std::vector<int64_t>{8192});  // one value stands for a list of it
  std::string d;
  root.section("c").read("d", d);
  EXPECT_EQ(d, "x");
  auto all = root.sections("e");
  ASSERT_EQ(all.size(), 2u);
  all[1].read("d", d);
  EXPECT_EQ(d, "z");
  EXPECT_EQ(all[1].name(), "e[1]");
  root.need("a").done();
}

TEST(YamlSection, LeavesWhatIsMissingAlone) {
  auto root = section_of("{}");
  std::vector<int64_t> b{7};
  root.read_list("b", b, count_from);
  EXPECT_EQ(b, std::vector<int64_t>{7});
  EXPECT_TRUE(root.sections("e").empty());
  EXPECT_TRUE(root.elements("x").empty());
  EXPECT_FALSE(root.has("b"));
  root.done();
}

TEST(YamlSection, NamesThePlaceOfWhatItRefuses) {
  auto list = [](YamlSection& root) {
    std::vector<int64_t> b;
    root.read_list("b", b, count_from);
  };
  EXPECT_EQ(error_of("b: []\n", list), "f.yaml:1:4: b must name at least one value, got an empty list");
  EXPECT_EQ(error_of("b: {c: 1}\n", list), "f.yaml:1:4: b must be a list");
  EXPECT_EQ(error_of("b:\n  - 1\n  - x\n", list),
            "f.yaml:3:5: b: must be a whole number such as 8192, 8K or 1M, got 'x'");
  EXPECT_EQ(error_of("b: [1, 2, 1]\n", list), "f.yaml:1:11: b has '1' twice");
  EXPECT_EQ(error_of("b: [[1]]\n", list), "f.yaml:1:5: b must be a text, got a list or mapping");
  auto sections = [](YamlSection& root) { root.sections("e"); };
  EXPECT_EQ(error_of("e: {d: 1}\n", sections), "f.yaml:1:4: e must be a list of mappings");
  EXPECT_EQ(error_of("e:\n  - {d: 1}\n  - 2\n", sections), "f.yaml:3:5: e[1] must be a mapping");
  EXPECT_EQ(error_of("- 1\n", [](YamlSection&) {}), "f.yaml:1:1: the file must be a mapping");
  auto number = [](YamlSection& root) {
    double a = 0;
    root.read("a", a);
  };
  EXPECT_EQ(error_of("a:\n", number).substr(0, 7), "f.yaml:");
  EXPECT_NE(error_of("a:\n", number).find("a must be a number, got nothing"), std::string::npos);
}

TEST(YamlSection, AsksForEveryKeyOnceAndForAllThatAreNeeded) {
  auto done = [](YamlSection& root) {
    root.need("model");
    root.done();
  };
  EXPECT_EQ(error_of("model: 1\n", done), "no error");
  EXPECT_EQ(error_of("{}", done), "f.yaml:1:1: the file needs the key 'model'");
  EXPECT_EQ(error_of("model:\n", done), "f.yaml:1:1: the file needs the key 'model'");
  // A slip is named as such, and not as what it makes missing.
  EXPECT_EQ(error_of("modle: 1\n", done),
            "f.yaml:1:1: unknown key 'modle' (did you mean 'model'?); known: model");
  EXPECT_EQ(error_of("model: 1\nmodel: 2\n", done), "f.yaml:2:1: the key 'model' stands there twice");
  EXPECT_EQ(error_of("model: 1\n? [a]\n: 2\n", done), "f.yaml:2:3: a key must be a text");
}

TEST(LoadYaml, NamesThePlaceOfWhatIsMalformed) {
  EXPECT_EQ(error_of("a: [1, 2\n", [](YamlSection&) {}).substr(0, 9), "f.yaml:2:");
  EXPECT_EQ(error_of("a: b: c\n", [](YamlSection&) {}).substr(0, 11), "f.yaml:1:5:");
  EXPECT_EQ(error_of("a: *b\n", [](YamlSection&) {}).substr(0, 9), "f.yaml:1:");
  EXPECT_NE(error_of(std::string(100000, '['), [](YamlSection&) {}), "no error");
}

}  // namespace
}  // namespace bigmac
