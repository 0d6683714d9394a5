#include "bigmac/train/checkpoint.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "bigmac/runtime/safetensors.h"
#include "bigmac/train/checkpoint_files.h"
#include "tests/train/checkpoint_support.h"

namespace bigmac::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST_F(CheckpointTest, EveryDtypeComesBackBitByBitFromAnyNumberOfRanks) {
  for (int64_t ranks : {1, 2, 3, 5, 20}) {  // of 20, some give nothing
    SCOPED_TRACE(ranks);
    write_one(ranks * 10, int(ranks), uint64_t(ranks));
    auto checkpoint = Checkpoint::open(folder());
    EXPECT_EQ(checkpoint.step(), ranks * 10);
    EXPECT_EQ(checkpoint.path(), path(ranks * 10));
    EXPECT_EQ(checkpoint.facts(), (Facts{{"step", std::to_string(ranks * 10)}}));
    EXPECT_EQ(wrong_with(checkpoint), "");
    EXPECT_EQ(names_in(path(ranks * 10)).size(), size_t(ranks) + 1)
        << "files other than shards and the index";
  }
}

TEST_F(CheckpointTest, RanksMayBeSavesAheadOfEachOther) {
  std::mt19937 random(5);
  for (int64_t round = 0; round < 6; ++round) {
    int ranks = 2 + int(round % 3);
    Writers writers(options(uint64_t(round) + 1, 0), ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank, delay = int64_t(random() % 60)] {
        for (int64_t step = 0; step < 4; ++step) {
          std::this_thread::sleep_for(std::chrono::milliseconds((delay * 17 + step * 13) % 60));
          writers.save_on(rank, round * 10 + step);
        }
        writers[rank].wait();
      });
    for (auto& thread : threads) thread.join();
    for (int64_t step = 0; step < 4; ++step)
      EXPECT_EQ(wrong_with(Checkpoint::open(path(round * 10 + step))), "") << round;
  }
}

uint32_t bitwise_crc(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (char byte : bytes) {
    crc ^= uint8_t(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

// Reads the files with nothing of ours.
TEST_F(CheckpointTest, AReaderOfHuggingFaceFilesFindsEveryTensor) {
  write_one(7, 3);
  auto index = json::parse(read_bytes(path(7, "model.safetensors.index.json")));
  auto right = contents(7);
  EXPECT_EQ(index["weight_map"].size(), right.size());
  size_t total = 0;
  for (const auto& [name, file] : index["weight_map"].items()) {
    auto bytes = read_bytes(path(7, file));
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    auto header = json::parse(bytes.substr(8, length));
    EXPECT_EQ(header["__metadata__"]["format"], "pt");
    size_t begin = header[name]["data_offsets"][0], end = header[name]["data_offsets"][1];
    auto data = bytes.substr(8 + length + begin, end - begin);
    EXPECT_EQ(data, bytes_of(right.at(name))) << name;
    const auto& own = index["bigmac"]["tensors"][name];
    EXPECT_EQ(own["shape"], header[name]["shape"]);
    EXPECT_EQ(own["dtype"], header[name]["dtype"]);
    EXPECT_EQ(own["checksum"], bitwise_crc(data)) << name;
    total += data.size();
  }
  EXPECT_EQ(index["metadata"]["total_size"], total);
  EXPECT_EQ(index["bigmac"]["step"], 7);
  EXPECT_EQ(index["bigmac"]["ranks"], 3);
}

TEST_F(CheckpointTest, NamesAndFactsMayBeAnyUtf8) {
  NamedTensors tensors;
  std::mt19937 random(3);
  const std::string pieces[] = {"ñ", "猫", "🙂", "\"",  "\\", "\n", std::string("\0", 1),
                                "/", "..", "a",    "\x7f"};
  for (int i = 0; i < 50; ++i) {
    std::string name;
    for (unsigned j = 0; j <= random() % 6; ++j) name += pieces[random() % std::size(pieces)];
    tensors[name] = torch::full({2}, i, torch::kInt32);
  }
  tensors[""] = torch::ones({1});
  Facts facts{{"猫", "\"\n\\"}, {"", ""}};
  CheckpointWriter writer(options(), 0, 1);
  writer.save(1, tensors, facts);
  writer.wait();
  auto checkpoint = Checkpoint::open(folder());
  EXPECT_EQ(difference(checkpoint.load(checkpoint.names()), tensors), "");
  EXPECT_EQ(checkpoint.facts(), facts);

  expect_parts(thrown<InvalidInput>([&] {
                 writer.save(2, {{"\xff", torch::ones({1})}}, {});
               }),
               {"not UTF-8"});
  expect_parts(thrown<InvalidInput>([&] { writer.save(3, {}, {{"a", "\xff"}}); }), {"not UTF-8"});
  expect_parts(thrown<InvalidInput>([&] {
                 writer.save(4, {{"a", torch::Tensor()}}, {});
               }),
               {"'a'", "undefined"});
  writer.wait();
  EXPECT_EQ(names_in(folder()), std::vector<std::string>{"step-00000001"});
}

TEST_F(CheckpointTest, OneNameOnTwoRanksIsAFailureThatNamesBoth) {
  Writers writers(options(), 3);
  writers.save(1);
  writers.wait();
  writers[0].save(2, {{"a", torch::ones({1})}}, {});
  writers[1].save(2, {{"b", torch::ones({1})}}, {});
  writers[2].save(2, {{"c", torch::ones({1})}, {"b", torch::ones({1})}}, {});
  expect_parts(thrown<Failure>([&] { writers[0].wait(); }), {"step 2", "ranks 1 and 2", "'b'"});
  writers[0].wait();  // once is enough
  EXPECT_EQ(names_in(folder()), std::vector<std::string>{"step-00000001"});
  writers.save(3);
  writers.wait();
  EXPECT_EQ(wrong_with(*Checkpoint::newest(folder())), "");
}

TEST_F(CheckpointTest, FilesOfAStartThatDiedAreNeverTaken) {
  for (int died = 1; died <= 4; ++died)
    for (int ranks = 1; ranks <= 3; ++ranks) {
      SCOPED_TRACE(concat(died, " ranks, then ", ranks));
      fs::remove_all(folder());
      {  // all but the first write their part of the step's contents, and then some
        Writers dead(options(1), died);
        for (int rank = 1; rank < died; ++rank) {
          dead[rank].save(8, {{concat("stale ", rank), torch::ones({3})}}, {});
          dead[rank].wait();
        }
      }
      Writers writers(options(2), ranks);
      for (int rank = ranks - 1; rank >= 0; --rank) writers.save_on(rank, 8);
      writers.wait();
      EXPECT_EQ(wrong_with(Checkpoint::open(folder())), "");
      EXPECT_EQ(names_in(folder()), std::vector<std::string>{"step-00000008"});
    }
}

TEST_F(CheckpointTest, TheNewestAreKept) {
  for (int keep : {1, 2, 3, 0}) {
    SCOPED_TRACE(keep);
    fs::remove_all(folder());
    Writers writers(options(1, keep), 2);
    for (int64_t step = 1; step <= 5; ++step) {
      writers.save(step * 1000000000);  // more digits than the names have at least
      writers.wait();
      EXPECT_EQ(Checkpoint::newest(folder())->step(), step * 1000000000);
      EXPECT_EQ(int64_t(names_in(folder()).size()), keep == 0 ? step : std::min<int64_t>(keep, step));
    }
  }
}

TEST_F(CheckpointTest, ARunThatWentBackIsTheNewestAgain) {
  {
    Writers first(options(1, 3), 1);
    for (int64_t step : {10, 20, 30}) first.save(step);
    first.wait();
  }
  Writers second(options(2, 3), 2);
  second.save(10);  // once more, by more ranks
  second.wait();
  EXPECT_EQ(Checkpoint::newest(folder())->step(), 10);
  EXPECT_EQ(names_in(path(10)).size(), 3u);
  second.save(20);
  second.wait();
  EXPECT_EQ(Checkpoint::newest(folder())->step(), 20);
  EXPECT_EQ(wrong_with(*Checkpoint::newest(folder())), "");
  auto names = names_in(folder());
  ASSERT_EQ(names.size(), 4u);
  for (const auto& name : names) {
    if (!name.ends_with(".aside")) continue;
    auto aside = Checkpoint::open(folder() + "/" + name);
    EXPECT_EQ(wrong_with(aside), "") << name;
  }
}

TEST_F(CheckpointTest, ARankThatFailsIsNamedByTheFirstAndTheNextSaveWorks) {
  Writers writers(options(), 3);
  writers.save(1);
  writers.wait();
  auto part = part_folder(folder(), 2, {1, 1});
  fs::create_directories(part + "/rank-002.safetensors/in the way");
  writers.save(2);
  writers[1].wait();
  expect_parts(thrown<Failure>([&] { writers[0].wait(); }),
               {"step 2", "rank 2 failed", "rank-002.safetensors"});
  EXPECT_FALSE(fs::exists(part));
  // Rank 2 hears of it at its next save, which is begun all the same.
  writers.save_on(0, 3);
  writers.save_on(1, 3);
  expect_parts(thrown<Failure>([&] { writers.save_on(2, 3); }), {"rank-002.safetensors", "directory"});
  writers.wait();
  EXPECT_EQ(Checkpoint::newest(folder())->step(), 3);
  EXPECT_EQ(wrong_with(*Checkpoint::newest(folder())), "");

  // A tensor that cannot be stored is the rank's own InvalidInput at once, and the first rank's failure.
  writers.save_on(0, 4);
  writers.save_on(1, 4);
  EXPECT_NE(thrown<InvalidInput>([&] { writers[2].save(4, {{"u", torch::Tensor()}}, {}); }), "");
  expect_parts(thrown<Failure>([&] { writers[0].wait(); }), {"rank 2 failed", "'u'", "undefined"});
}

TEST_F(CheckpointTest, WaitingForARankThatNeverComesEnds) {
  auto impatient = options();
  impatient.patience = 1s;
  auto begin = Clock::now();
  {
    Writers writers(impatient, 2);
    writers.save_on(0, 1);
    expect_parts(thrown<Failure>([&] { writers[0].wait(); }), {"step 1", "rank 1", "after 1 s"});
  }
  {
    Writers writers(options(2), 2);
    writers.save_on(0, 1);
    int asked = 0;
    expect_parts(thrown<Failure>([&] { writers[0].wait([&] { return ++asked == 3; }); }), {"given up"});
    EXPECT_EQ(asked, 3);
    auto rank_failed = []() {
      if (true) throw Failure("rank 1: killed");
      return false;
    };
    writers.save_on(0, 2);
    EXPECT_EQ(thrown<Failure>([&] { writers[0].save(3, {}, {}, rank_failed); }), "rank 1: killed");
    writers.save_on(0, 4);
  }  // and the destructor does not wait either
  EXPECT_LT(seconds_since(begin), 10);
  EXPECT_TRUE(names_in(folder()).empty());
}

TEST_F(CheckpointTest, SaveReturnsOnceItHasCopied) {
  constexpr int64_t kElements = 16 << 20;  // 64 MiB
  CheckpointWriter writer(options(), 0, 1);
  NamedTensors tensors{{"large", torch::full({kElements}, 1.0f)}};
  double saving = 1e9, waiting = 0, writing = 1e9;
  for (int64_t step = 1; step <= 3; ++step) {
    tensors["large"].fill_(step);
    auto begin = Clock::now();
    writer.save(step, tensors, {});
    saving = std::min(saving, seconds_since(begin));
    tensors["large"].fill_(-1);
    writer.wait();
    waiting = std::max(waiting, seconds_since(begin));
    auto loaded = Checkpoint::newest(folder())->load({"large"}).at("large");
    EXPECT_TRUE(torch::equal(loaded, torch::full({kElements}, float(step))));
    begin = Clock::now();
    save_safetensors(folder() + "/synchronous", tensors);
    writing = std::min(writing, seconds_since(begin));
  }
  std::cout << "64 MiB: save() " << saving * 1e3 << " ms, whole after " << waiting * 1e3
            << " ms, a synchronous file " << writing * 1e3 << " ms\n";
  EXPECT_LT(saving, writing * 0.8);
  EXPECT_LT(saving, waiting * 0.8);
}

}  // namespace
}  // namespace bigmac::train
