#include "bigmac/cost/config_text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/cost/layers.h"
#include "tests/cost/models.h"

namespace bigmac {
namespace {

using nlohmann::json;

json parse(const std::string& text) {
  return cost::parse_config(text, "model.yaml");
}

// Block YAML of what JSON says, strings in double quotes as JSON has them.
std::string to_yaml(const json& value, int indent = 0) {
  std::string text, margin(size_t(indent), ' ');
  for (const auto& [key, element] : value.items()) {
    text += margin + (value.is_array() ? "-" : concat(key, ":"));
    bool nested = element.is_structured() && !element.empty();
    text += nested ? concat("\n", to_yaml(element, indent + 2)) : concat(" ", element.dump(), "\n");
  }
  return text;
}

TEST(ConfigText, ReadsTheSameModelFromYamlAsFromJson) {
  for (const auto& name : shape_names()) {
    auto config = json::parse(shape_text(name));
    auto yaml = to_yaml(config);
    EXPECT_EQ(parse(yaml), config) << yaml;
    auto model = cost::read_model(yaml, name + ".yaml");
    EXPECT_EQ(describe(model), describe(shape_model(name))) << yaml;
  }
}

TEST(ConfigText, KeepsTheTypesOfYamlScalars) {
  auto config = parse(R"(
a: 12
b: -3
c: 1e6
d: 2.5
e: true
f: False
g: "12"
h: '7'
i: silu
j: ~
k: null
l:
m: "true"
n: !!str 5
o: [1, "2", three]
p: {q: 1}
r: qwen2.5
s: 99999999999999999999
t: .5
u: 0x10
v: +4
)");
  json expected = {{"a", 12},         {"b", -3},        {"c", 1e6},
                   {"d", 2.5},        {"e", true},      {"f", false},
                   {"g", "12"},       {"h", "7"},       {"i", "silu"},
                   {"j", nullptr},    {"k", nullptr},   {"l", nullptr},
                   {"m", "true"},     {"n", "5"},       {"o", {1, "2", "three"}},
                   {"p", {{"q", 1}}}, {"r", "qwen2.5"}, {"s", 99999999999999999999.0},
                   {"t", 0.5},        {"u", "0x10"},    {"v", 4}};
  EXPECT_EQ(config, expected);
  EXPECT_TRUE(config.at("a").is_number_integer());
  EXPECT_TRUE(config.at("c").is_number_float());
}

TEST(ConfigText, NamesTheLineAndColumnOfWhatIsNoJsonOrYaml) {
  expect_told([] { parse("{\"a\": 1,\n \"b\": }"); }, {"[model] model.yaml:2:7: is no JSON at the end of "});
  expect_told([] { parse("{\"a\": 1,\n \"b\": 2"); }, {"model.yaml:2:8: the JSON ends too early"});
  expect_told([] { parse("{\"a\": 1e999}"); }, {"too large a number"});
  expect_told([] { parse("{} x"); }, {"model.yaml:1:4: is no JSON"});
  expect_told([] { parse("a: 1\nb: [1, 2\n"); }, {"[model] model.yaml:", "is no YAML"});
  expect_told([] { parse("a: 1\na: 2\n"); }, {"model.yaml:2:1: has the key 'a' twice"});
  expect_told([] { parse("[1, 2]: 3\n"); }, {"model.yaml:1:"});
  expect_told([] { parse("? [1, 2]\n: 3\n"); }, {"model.yaml:1:3: has a key that is no text"});
  for (const std::string text : {"[1]", "hello", "- 1\n- 2\n", "3"})
    expect_told([&] { parse(text); }, {"must be a JSON object or a YAML mapping, begins with '"});
  for (const std::string text : {"", " \n\t\r\n", "\xef\xbb\xbf"})
    expect_told([&] { parse(text); }, {"[model] model.yaml: is empty"});
  EXPECT_EQ(parse("\xef\xbb\xbf{\"a\": 1}"), json({{"a", 1}}));
}

TEST(ConfigText, RefusesAKeyThatStandsInAJsonObjectTwice) {
  expect_told([] { parse(R"({"a": 1, "b": {"a": 2}, "a": 3})"); },
              {"[model] model.yaml: the key 'a' stands there twice"});
  expect_told([] { parse(R"({"a": [{"b": 1}, {"b": 1, "b": 1}]})"); }, {"the key 'b' stands there twice"});
  EXPECT_EQ(parse(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})").size(), 2u);
}

TEST(ConfigText, RefusesWhatIsNotUtf8) {
  for (const std::string bad : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80",
                                "\xf0\x80\x80\x80", "\xc3"}) {
    expect_told([&] { parse(concat("{\"a\":\n \"", bad, "\"}")); }, {"model.yaml:2:3: is not UTF-8 at '\\x"});
    expect_told([&] { parse(concat("a: ", bad)); }, {"model.yaml:1:4: is not UTF-8 at '\\x"});
  }
  EXPECT_EQ(parse("a: \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\n").at("a"),
            "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST(ConfigText, RefusesEndlessNestingAndAliases) {
  auto begin = std::chrono::steady_clock::now();
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string deep;
    while (deep.size() < (size_t{4} << 20) - 8) deep += open;
    expect_told([&] { parse(deep); }, {"[model] model.yaml: the JSON is nested deeper than 64 levels"});
  }
  std::string flow = "a: ";
  for (int i = 0; i < 100000; ++i) flow += "[";
  expect_told([&] { parse(flow); }, {"[model] model.yaml:"});
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    auto before = std::to_string(i - 1), now = std::to_string(i);
    laughs += concat("a", now, ": &a", now, " [*a", before);
    for (int k = 1; k < 10; ++k) laughs += concat(", *a", before);
    laughs += "]\n";
  }
  expect_told([&] { parse(laughs); }, {"holds more than 1048576 values"});
  expect_told([&] { parse("a: &a [1, *a]\n"); }, {"[model] model.yaml:"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(ConfigText, RefusesEveryTruncationOfEveryShapeFile) {
  for (const auto& name : shape_names()) {
    auto text = shape_text(name);
    auto end = text.find_last_not_of(" \n");
    for (size_t length = 0; length <= end; ++length)
      expect_told([&] { cost::read_model(text.substr(0, length), "cut.json"); }, {"[model] cut.json:"});
  }
}

TEST(ConfigText, ReadsOrRefusesWhateverIsChangedInAFile) {
  const uint64_t seed = 4;
  std::mt19937_64 random(seed);
  int64_t read = 0, refused = 0;
  for (const auto& name : shape_names()) {
    auto json_text = shape_text(name);
    for (const auto& text : {json_text, to_yaml(json::parse(json_text))})
      for (int i = 0; i < 300; ++i) {
        auto changed = text;
        for (auto changes = random() % 3 + 1; changes > 0; --changes) {
          auto at = random() % changed.size();
          switch (random() % 4) {
            case 0:
              changed[at] = char(random());
              break;
            case 1:
              changed[at] = "0123456789{}[]:,\"-"[random() % 18];
              break;
            case 2:
              changed.erase(at, random() % 8);
              break;
            default:
              changed.insert(at, changed.substr(random() % changed.size(), random() % 16));
          }
          if (changed.empty()) break;
        }
        try {
          cost::read_model(changed, "changed");
          ++read;
        } catch (const InvalidInput& error) {
          EXPECT_EQ(std::string(error.what()).rfind("[model] changed:", 0), 0) << error.what();
          ++refused;
        } catch (const std::exception& error) {
          ADD_FAILURE() << "seed " << seed << ": " << error.what() << "\n" << changed;
        }
      }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

class ConfigFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text) const {
    std::ofstream(folder_ / "config.json", std::ios::binary) << text;
    return folder_ / "config.json";
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / concat("bigmac_config_", getpid());
};

TEST_F(ConfigFile, IsRefusedUnreadWhereItIsTooLarge) {
  auto path = file("{");
  std::filesystem::resize_file(path, 100 << 20);
  auto begin = std::chrono::steady_clock::now();
  expect_told([&] { cost::read_model_file(path); },
              {"[model] cannot read '" + path + "': it has more than 4194304 bytes"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(100));
  expect_told([] { cost::read_model_file("/dev/zero"); }, {"it has more than 4194304 bytes"});
  expect_told([] { cost::read_model(std::string((4 << 20) + 1, ' '), "long.json"); },
              {"[model] long.json: has 4194305 bytes, more than 4194304"});
}

TEST_F(ConfigFile, MayFillTheWholeLimit) {
  auto text = shape_text("qwen3-30b-a3b");
  text.resize(4 << 20, ' ');
  EXPECT_EQ(describe(cost::read_model_file(file(text))), describe(shape_model("qwen3-30b-a3b")));
}

TEST_F(ConfigFile, IsRefusedWhereItIsMissingAFolderOrEmpty) {
  expect_told([&] { cost::read_model_file(folder_ / "none.json"); },
              {"[model] cannot read '", "none.json': No such file"});
  expect_told([&] { cost::read_model_file(folder_); }, {"it is a folder; right would be its config.json"});
  expect_told([&] { cost::read_model_file(file("")); }, {"config.json: is empty"});
  expect_told([&] { cost::read_model_file(file(std::string("\x00\x01\x02", 3))); }, {"[model] "});
}

TEST_F(ConfigFile, NamesAModelAfterTheFolderOfItsConfigJson) {
  auto path = file(shape_text("dots-vit"));
  EXPECT_EQ(cost::read_model_file(path).name, folder_.filename().string());
}

}  // namespace
}  // namespace bigmac
