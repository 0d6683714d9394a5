#include "bigmac/runtime/transport.h"

#include <map>
#include <random>
#include <thread>

#include "bigmac/runtime/gather.h"
#include "bigmac/runtime/recorder.h"
#include "bigmac/runtime/threads_transport.h"
#include "tests/runtime/processes.h"

namespace bigmac {
namespace {

using namespace std::chrono_literals;

// Works in processes, where no test framework listens.
void require(bool condition, const std::string& what) {
  if (!condition) throw Failure("expected " + what);
}

void require_equal(const Message& got, const Message& expected, const std::string& which) {
  require(got.needs_gradient == expected.needs_gradient, "the flags of " + which);
  require(got.tensors.size() == expected.tensors.size(), "the number of tensors of " + which);
  for (size_t i = 0; i < got.tensors.size(); ++i) {
    require(got.tensors[i].scalar_type() == expected.tensors[i].scalar_type(), "the dtype of " + which);
    require(torch::equal(got.tensors[i], expected.tensors[i]), "the values of " + which);
  }
}

// The same on both ends.
Message random_message(int from, int to, int index) {
  std::mt19937 random(uint32_t(from * 1'000'000 + to * 10'000 + index));
  auto up_to = [&](int most) { return int64_t(random() % uint32_t(most + 1)); };
  constexpr torch::ScalarType dtypes[] = {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kInt64,
                                          torch::kBool};
  Message message;
  for (int64_t count = up_to(4); count > 0; --count) {
    std::vector<int64_t> sizes;
    for (int64_t dimensions = up_to(3); dimensions > 0; --dimensions) sizes.push_back(up_to(9));
    auto generator = at::detail::createCPUGenerator(random());
    message.tensors.push_back(torch::randint(0, 100, sizes, generator).to(dtypes[up_to(4)]));
    message.needs_gradient.push_back(up_to(1) == 1);
  }
  return message;
}

std::string which(int from, int to, int index) {
  return concat("message ", index, " from rank ", from, " to rank ", to);
}

void exchange(Transport& transport) {
  constexpr int kMessages = 60;
  int rank = transport.rank();
  for (int peer = 0; peer < transport.size(); ++peer)
    if (peer != rank) transport.post_receives(peer, kMessages / 2);
  for (int index = 0; index < kMessages; ++index)
    for (int peer = 0; peer < transport.size(); ++peer)
      if (peer != rank) transport.send(peer, random_message(rank, peer, index));
  for (int peer = 0; peer < transport.size(); ++peer)
    if (peer != rank) transport.post_receives(peer, kMessages - kMessages / 2);
  for (int index = 0; index < kMessages; ++index)
    for (int peer = transport.size() - 1; peer >= 0; --peer)
      if (peer != rank)
        require_equal(transport.receive(peer), random_message(peer, rank, index), which(peer, rank, index));
}

// Rank 1 does not begin to receive before rank 0 has sent everything, of which it hears over rank 2.
void run_ahead(Transport& transport) {
  constexpr int kMessages = 1000;
  auto message = [](int index) {
    return Message{{torch::full({index % 250 == 0 ? 1'000'000 : index}, float(index))}, {false}};
  };
  if (transport.rank() == 0) {
    for (int index = 0; index < kMessages; ++index) transport.send(1, message(index));
    transport.send(2, message_of(std::string("go")));
  } else if (transport.rank() == 1) {
    transport.post_receives(2, 1);
    require(text_of(transport.receive(2)) == "go", "the word from rank 2");
    transport.post_receives(0, kMessages);
    for (int index = 0; index < kMessages; ++index) {
      if (index % 100 == 0) std::this_thread::sleep_for(5ms);
      require_equal(transport.receive(0), message(index), which(0, 1, index));
    }
  } else {
    transport.post_receives(0, 1);
    transport.send(1, transport.receive(0));
  }
  transport.barrier();
}

void reduce(Transport& transport) {
  int64_t ranks = transport.size();
  for (auto dtype : {torch::kFloat32, torch::kFloat64})
    for (int64_t size : {1, 7, 1000, 100'000}) {
      auto base = torch::arange(size).to(dtype);
      auto values = base * (transport.rank() + 1);
      transport.all_reduce(values);
      require(torch::equal(values, base * (ranks * (ranks + 1) / 2)),
              concat("the sum of ", size, " values of ", dtype));
      auto random = torch::randn({size}, torch::dtype(dtype));
      transport.all_reduce(random);
      for (const auto& other : all_gather(transport, {{random}, {false}}))
        require(torch::equal(other.tensors[0], random), "the same bits on every rank");
    }
}

void gather(Transport& transport) {
  int rank = transport.rank();
  for (int round = 0; round < 3; ++round) {
    auto all = all_gather(transport, random_message(rank, 99, round));
    require(int(all.size()) == transport.size(), "a message of every rank");
    for (int peer = 0; peer < transport.size(); ++peer)
      require_equal(all[peer], random_message(peer, 99, round), which(peer, rank, round));
  }
  std::vector<std::pair<std::string, torch::Tensor>> own;
  for (int i = 0; i < rank; ++i) own.emplace_back(concat("rank", rank, ".", i), torch::full({i}, rank));
  auto named = gather_named(transport, own);
  if (rank != 0) {
    require(named.empty(), "nothing but on rank 0");
    return;
  }
  require(int(named.size()) == transport.size() * (transport.size() - 1) / 2, "all names");
  for (int peer = 0; peer < transport.size(); ++peer)
    for (int i = 0; i < peer; ++i)
      require(torch::equal(named.at(concat("rank", peer, ".", i)), torch::full({i}, peer)),
              "the named values");
}

void gather_one_name_twice(Transport& transport) {
  gather_named(transport, {{"weight", torch::ones({1})}});
}

void meet(Transport& transport) {
  for (int late = 0; late < transport.size(); ++late) {
    if (transport.rank() == late) std::this_thread::sleep_for(50ms);
    double before = now();
    transport.barrier();
    auto times = torch::tensor({before, now()}, torch::kFloat64);
    double last_before = 0, first_after = INFINITY;
    for (const auto& other : all_gather(transport, {{times}, {false}})) {
      last_before = std::max(last_before, other.tensors[0][0].item<double>());
      first_after = std::min(first_after, other.tensors[0][1].item<double>());
    }
    require(first_after >= last_before, "no rank to leave the barrier before the last has come");
  }
}

// What is posted arrives while nobody waits for it.
void arrive(Transport& transport) {
  if (transport.rank() == 0) {
    require(!transport.has_message(1), "no message before one is sent");
    transport.post_receives(1, 2);
    transport.barrier();
    for (double start = now(); !transport.has_message(1);) {
      require(now() - start < 60, "the message to arrive by itself");
      std::this_thread::sleep_for(1ms);
    }
    require_equal(transport.receive(1), random_message(1, 0, 0), which(1, 0, 0));
    require_equal(transport.receive(1), random_message(1, 0, 1), which(1, 0, 1));
    require(!transport.has_message(1), "no third message");
  } else {
    transport.barrier();
    for (int index : {0, 1}) transport.send(0, random_message(1, 0, index));
  }
  transport.barrier();
}

// Rank 0 leaves first, at once; what it sent still arrives.
void leave_early(Transport& transport) {
  if (transport.rank() == 0) {
    for (int index = 0; index < 20; ++index) transport.send(1, random_message(0, 1, index));
    return;
  }
  std::this_thread::sleep_for(300ms);
  if (transport.rank() != 1) return;
  transport.post_receives(0, 20);
  for (int index = 0; index < 20; ++index)
    require_equal(transport.receive(0), random_message(0, 1, index), which(0, 1, index));
}

const std::map<std::string, void (*)(Transport&)> kBodies{{"exchange", exchange},
                                                          {"run_ahead", run_ahead},
                                                          {"reduce", reduce},
                                                          {"gather", gather},
                                                          {"gather_one_name_twice", gather_one_name_twice},
                                                          {"meet", meet},
                                                          {"arrive", arrive},
                                                          {"leave_early", leave_early}};
const bool added = [] {
  for (const auto& [name, body] : kBodies)
    roles::add("transport." + name, [body](Transport& transport, const std::string&) { body(transport); });
  return true;
}();

enum class Kind { threads, processes };

class Transports : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::processes) BIGMAC_NEEDS_PROCESSES();
  }
  void run(const std::string& body, int ranks) {
    if (GetParam() == Kind::threads)
      run_threads(ranks, [&](Transport& transport) { kBodies.at(body)(transport); });
    else
      roles::run("transport." + body, ranks);
  }
};

TEST_P(Transports, DeliverBetweenAllPairsInOrderAndIntact) {
  run("exchange", 4);
}

TEST_P(Transports, LetASenderRunAThousandMessagesAhead) {
  run("run_ahead", 3);
}

TEST_P(Transports, SumOverAllRanksAlikeOnEachOfThem) {
  for (int ranks : {1, 2, 3, 4}) run("reduce", ranks);
}

TEST_P(Transports, GatherMessagesByRankAndTensorsByName) {
  for (int ranks : {1, 4}) run("gather", ranks);
}

TEST_P(Transports, RefuseToGatherOneNameTwiceAndSayWhich) {
  try {
    run("gather_one_name_twice", 2);
    FAIL() << "gathered";
  } catch (const RankFailure& failure) {
    EXPECT_STREQ(failure.what(), "rank 0: [gather] two ranks hold 'weight'");
  }
}

TEST_P(Transports, LetNobodyPassABarrierBeforeAllHaveCome) {
  run("meet", 4);
}

TEST_P(Transports, BringWhatIsPostedWhileNobodyWaits) {
  run("arrive", 2);
}

TEST_P(Transports, BringWhatARankSentThatHasLeft) {
  run("leave_early", 3);
}

INSTANTIATE_TEST_SUITE_P(Over, Transports, testing::Values(Kind::threads, Kind::processes),
                         [](const auto& kind) {
                           return kind.param == Kind::threads ? "Threads" : "Processes";
                         });

TEST(ThreadsTransport, RefusesToHaveNoRanks) {
  EXPECT_THROW(make_threads_group(0), InvalidInput);
  EXPECT_THROW(run_threads(-1, [](Transport&) {}), InvalidInput);
}

}  // namespace
}  // namespace bigmac
