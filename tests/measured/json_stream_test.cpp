#include "bigmac/measured/json_stream.h"

#include <sys/resource.h>

#include <chrono>

#include "tests/measured/support.h"

namespace bigmac {
namespace {

using json::Level;
using json::Limits;
using json::Token;

// Builds the value again.
class Builder : public json::Visitor {
 public:
  void value(const std::vector<Level>& levels, const Token& token) override {
    Json value;
    if (token.kind == Token::Kind::boolean) value = token.truth;
    if (token.kind == Token::Kind::number) value = token.number;
    if (token.kind == Token::Kind::text) value = std::string(token.text);
    put(levels, value);
  }
  void opened(const std::vector<Level>& levels, bool is_object) override {
    put(levels, is_object ? Json::object() : Json::array());
  }
  void closed(const std::vector<Level>&) override { ++closed_; }

  Json root;
  int closed_ = 0;

 private:
  void put(const std::vector<Level>& levels, Json value) {
    Json* at = &root;
    for (size_t n = 0; n < levels.size(); ++n) {
      if (levels[n].is_object)
        at = &(*at)[levels[n].key];
      else
        at = &(*at)[size_t(levels[n].index)];
    }
    *at = std::move(value);
  }
};

class Ignore : public json::Visitor {
 public:
  void value(const std::vector<Level>&, const Token&) override { ++values; }
  void opened(const std::vector<Level>&, bool) override {}
  void closed(const std::vector<Level>&) override {}
  int64_t values = 0;
};

class JsonStream : public InFolder {
 protected:
  static std::string refused(const std::string& path, const Limits& limits = {}) {
    Ignore ignore;
    return refusal([&] { json::walk_file(path, ignore, limits); }).value_or("");
  }
};

Json random_json(Random& random, int depth) {
  switch (integer(random, 0, depth > 4 ? 3 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return integer(random, 0, 1) == 1;
    case 2:
      return uniform(random, -1e6, 1e6);
    case 3:
      return std::string(size_t(integer(random, 0, 30)), 'x') + "\"\\\n\xc3\xa4";
    case 4: {
      auto list = Json::array();
      for (int64_t n = integer(random, 0, 5); n > 0; --n) list.push_back(random_json(random, depth + 1));
      return list;
    }
    default: {
      auto object = Json::object();
      for (int64_t n = integer(random, 0, 5); n > 0; --n)
        object[concat("key ", n)] = random_json(random, depth + 1);
      return object;
    }
  }
}

TEST_F(JsonStream, GivesEveryValueAtItsPlacePlainAndGzip) {
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    auto value = random_json(random, 0);
    auto text = value.dump(integer(random, -1, 2) == 0 ? 2 : -1);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round));
    for (const auto& file : {write("a.json", text), write_gzip("a.json.gz", text)}) {
      Builder built;
      json::walk_file(file, built);
      EXPECT_EQ(built.root, value);
    }
  }
}

TEST_F(JsonStream, RefusesEveryPieceOfAText) {
  std::string text = R"({"a":[1,2.5,{"b":"cd"}],"e":null,"f":true})";
  EXPECT_EQ(refused(write("whole.json", text)), "");
  for (size_t length = 1; length < text.size(); ++length)
    expect_parts(refused(write("part.json", text.substr(0, length))),
                 {"[json]", "part.json:1:", "too early"});
  expect_parts(refused(write("more.json", text + ",")), {"more.json:1:", "is no JSON at the end of"});
}

TEST_F(JsonStream, RefusesEveryPieceOfAGzipFile) {
  auto whole = write_gzip("whole.gz", R"([1,2,3,"some text that is worth packing, worth packing"])");
  EXPECT_EQ(refused(whole), "");
  auto size = std::filesystem::file_size(whole);
  std::string bytes(size, '\0');
  std::ifstream(whole, std::ios::binary).read(bytes.data(), std::streamsize(size));
  for (size_t length = 1; length < size; ++length)
    EXPECT_NE(refused(write("part.gz", bytes.substr(0, length))), "") << length;
  expect_parts(refused(write("part.gz", bytes.substr(0, size - 1))), {"[gzip]", "part.gz", "ends too early"});
}

TEST_F(JsonStream, FindsDamageInAGzipFile) {
  Random random(kSeed);
  std::string text = "[0";
  for (int n = 0; n < 4000; ++n) text += concat(",", integer(random, 0, 1000000));
  auto whole = write_gzip("whole.gz", text + "]");
  std::string bytes(std::filesystem::file_size(whole), '\0');
  std::ifstream(whole, std::ios::binary).read(bytes.data(), std::streamsize(bytes.size()));
  for (size_t at : {bytes.size() / 3, bytes.size() / 2, bytes.size() - 6}) {
    auto damaged = bytes;
    damaged[at] = char(damaged[at] ^ 0x55);
    expect_parts(refused(write("damaged.gz", damaged)), {"damaged.gz"});
  }
}

TEST_F(JsonStream, NamesLineAndColumn) {
  expect_parts(refused(write("nan.json", "{\"a\":1,\n \"b\":NaN}")),
               {"nan.json:2:6", "'\"b\":N'", "JSON has no NaN"});
  expect_parts(refused(write("inf.json", "[Infinity]")), {"inf.json:1:2", "no Infinity"});
  expect_parts(refused(write("huge.json", "[1e999]")), {"huge.json:1:", "too large a number: '1e999'"});
  expect_parts(refused(write("text.json", "hello")), {"text.json:1:1", "'h'"});
  expect_parts(refused(write("utf8.json", "[\"\xff\"]")), {"utf8.json:1:3"});
  auto far = concat("[", std::string(600000, ' '), "\n\n", std::string(400000, '\n'), "  x]");
  expect_parts(refused(write("far.json", far)), {"far.json:400003:3"});
}

TEST_F(JsonStream, RefusesWhatIsNoFile) {
  expect_parts(refused(path("nothing.json")), {"nothing.json", "No such file"});
  expect_parts(refused(folder()), {folder(), "it is a folder"});
  expect_parts(refused(write("empty.json", "")), {"empty.json", "it is empty"});
}

TEST_F(JsonStream, KeepsItsLimits) {
  Limits limits;
  limits.bytes = 1 << 20;
  std::string zeros = "[0";
  for (int n = 0; n < (1 << 20); ++n) zeros += ",0";
  zeros += "]";
  expect_parts(refused(write_gzip("bomb.json.gz", zeros), limits),
               {"bomb.json.gz", "more than 1048576 bytes"});
  EXPECT_LT(std::filesystem::file_size(path("bomb.json.gz")), 64u << 10);
  EXPECT_EQ(refused(path("bomb.json.gz")), "");
  limits = {};
  limits.token = 1 << 20;
  auto long_text = "[1,\"" + std::string(4 << 20, 'a') + "\"]";
  expect_parts(refused(write_gzip("token.json.gz", long_text), limits),
               {"token.json.gz:1:", "one value has more"});
  expect_parts(refused(write_gzip("blank.json.gz", "[1," + std::string(4 << 20, ' ') + "1]"), limits),
               {"blank.json.gz:1:", "one value has more"});
  EXPECT_EQ(refused(path("token.json.gz")), "");
  EXPECT_EQ(refused(write("deep.json", std::string(512, '[') + std::string(512, ']'))), "");
  expect_parts(refused(write("deeper.json", std::string(513, '[') + std::string(513, ']'))),
               {"deeper.json:1:513", "more than 512"});
  expect_parts(refused(write("endless.json", std::string(1 << 20, '['))), {"more than 512"});
}

int64_t kilobytes_used() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// The trace of a run with all its kernels is hundreds of megabytes, its operators a handful.
TEST_F(JsonStream, Reads100MegabytesInSecondsAndHoldsNothingOfIt) {
  {
    std::ofstream out(path("large.json"));
    out << "{\"traceEvents\":[{}";
    std::string event =
        R"(,{"ph":"X","cat":"cpu_op","name":"aten::linear","pid":4711,"tid":4711,"ts":1700000000000.125,)"
        R"("dur":12.5,"args":{"External id":77,"Input Dims":[[1,4096],[4096,4096]],"Input type":["c10::BFloat16"]}})";
    for (size_t bytes = 0; bytes < (size_t{100} << 20); bytes += event.size()) out << event;
    out << "]}";
  }
  auto before = kilobytes_used();
  auto began = std::chrono::steady_clock::now();
  Ignore ignore;
  json::walk_file(path("large.json"), ignore);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  EXPECT_GT(ignore.values, 5000000);
  EXPECT_LT(kilobytes_used() - before, 16 << 10);
  EXPECT_LT(seconds.count(), 60) << "takes 1 s on one idle core";
}

}  // namespace
}  // namespace bigmac
