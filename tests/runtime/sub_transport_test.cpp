#include "bigmac/runtime/sub_transport.h"

#include "bigmac/runtime/gather.h"
#include "tests/runtime/both_transports.h"

namespace bigmac {
namespace {

// Ranks 0, 2 and ranks 1, 3 at once: nothing of one part comes to the other.
void parts(Transport& whole) {
  int parity = whole.rank() % 2;
  auto part = make_sub_transport(whole, {parity, parity + 2});
  require(part->size() == 2 && part->rank() == whole.rank() / 2, "rank and size within the part");
  int peer = 1 - part->rank();
  part->post_receives(peer, 10);
  for (int i = 0; i < 10; ++i) part->send(peer, message_of(concat(parity, " ", part->rank(), " ", i)));
  for (int i = 0; i < 10; ++i)
    require(text_of(part->receive(peer)) == concat(parity, " ", peer, " ", i),
            "the part's messages in order");
  require(!part->has_message(peer), "no other message");

  for (auto dtype : {torch::kFloat32, torch::kFloat64}) {
    auto values = torch::full({10, 10}, whole.rank(), dtype);
    part->all_reduce(values);
    require(torch::equal(values, torch::full({10, 10}, 2 * parity + 2, dtype)), "the sum over the part");
  }
  auto all = all_gather(*part, message_of(concat("rank ", whole.rank())));
  for (int rank : {0, 1})
    require(text_of(all.at(size_t(rank))) == concat("rank ", 2 * rank + parity),
            "the part's messages by rank");
  whole.barrier();
}

// Ranks 2 and 3 do not start before 0 and 1 are done.
void barriers(Transport& whole) {
  auto part = make_sub_transport(whole, whole.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3});
  bool first = whole.rank() < 2;
  int peer = first ? whole.rank() + 2 : whole.rank() - 2;
  if (!first) {
    whole.post_receives(peer, 1);
    whole.receive(peer);
  }
  for (int i = 0; i < 20; ++i) part->barrier();
  if (first) whole.send(peer, message_of(std::string("done")));
  whole.barrier();
}

void parts_of_parts(Transport& whole) {
  if (whole.rank() == 0) return whole.barrier();
  auto part = make_sub_transport(whole, {1, 2, 3});
  auto group = part->make_group({0, 1, 2});
  require(group->ranks() == std::vector{0, 1, 2} && group->index() == part->rank(), "the part's ranks");
  auto values = torch::full({3}, double(whole.rank())), shard = torch::empty({1}), all = torch::empty({3});
  group->start_reduce_scatter(values, shard)->wait();
  require(shard.item<double>() == 6, "the sum over the part");
  group->start_all_gather(torch::full({1}, double(part->rank())), all)->wait();
  require(torch::equal(all, torch::arange(3).to(torch::kFloat32)), "shards in the order of the part");
  auto window = group->make_window(torch::full({1}, double(whole.rank())));
  window->start_gather(all)->wait();
  require(torch::equal(all, torch::arange(1, 4).to(torch::kFloat32)), "shards of the part's window");
  if (part->rank() > 0) {
    auto inner = make_sub_transport(*part, {1, 2});
    require(inner->rank() == whole.rank() - 2, "the rank within the part of the part");
    auto sum = torch::full({1}, double(whole.rank()));
    inner->all_reduce(sum);
    require(sum.item<double>() == 5, "the sum over ranks 2 and 3 of the whole");
    int peer = 1 - inner->rank();
    inner->post_receives(peer, 1);
    inner->send(peer, message_of(concat(whole.rank())));
    require(text_of(inner->receive(peer)) == concat(5 - whole.rank()), "a message between them");
  }
  whole.barrier();
}

void refuse(Transport& whole) {
  auto refused = [&](std::vector<int> ranks, const std::string& beginning) {
    try {
      make_sub_transport(whole, ranks);
    } catch (const InvalidInput& error) {
      require(std::string(error.what()).starts_with(beginning), beginning + ", got " + error.what());
      return;
    }
    throw Failure("accepted; expected " + beginning);
  };
  refused({1, 0}, "[group] ranks must be ascending and of 0..1, got [1, 0]");
  refused({0, 1, 2}, "[group] ranks must be ascending and of 0..1, got [0, 1, 2]");
  refused({1 - whole.rank()}, concat("[group] rank ", whole.rank(), " makes a group that it is not in: ["));
  auto lone = make_sub_transport(whole, {whole.rank()});
  require(lone->size() == 1 && lone->rank() == 0, "a part of one rank");
  lone->barrier();
  whole.barrier();
}

void fail_in_a_part(Transport& whole) {
  auto part = make_sub_transport(whole, whole.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3});
  if (whole.rank() == 1) throw std::runtime_error("the picture is torn");
  for (;;) part->barrier();
}

const Bodies kBodies{{"parts", parts},
                     {"barriers", barriers},
                     {"parts_of_parts", parts_of_parts},
                     {"refuse", refuse},
                     {"fail_in_a_part", fail_in_a_part}};
const bool added = add_bodies("part.", kBodies);

class SubTransports : public testing::TestWithParam<RanksAs> {
 protected:
  void SetUp() override {
    if (GetParam() == RanksAs::processes) BIGMAC_NEEDS_PROCESSES();
  }
  void run(const std::string& body, int ranks) { run_body(GetParam(), "part.", kBodies, body, ranks); }
};

TEST_P(SubTransports, CarryMessagesAndSumsAmongTheirRanksAlone) {
  run("parts", 4);
}

TEST_P(SubTransports, DoNotWaitForRanksOutside) {
  run("barriers", 4);
}

TEST_P(SubTransports, MakeGroupsAndPartsOfTheirOwn) {
  run("parts_of_parts", 4);
}

TEST_P(SubTransports, AreOfRanksThatExistAscendWithThisOneAmongThem) {
  run("refuse", 2);
}

TEST_P(SubTransports, HearOfFailuresInOtherParts) {
  try {
    run("fail_in_a_part", 4);
    FAIL() << "ended";
  } catch (const RankFailure& failure) {
    EXPECT_STREQ(failure.what(), "rank 1: the picture is torn");
  }
}

INSTANTIATE_TEST_SUITE_P(Over, SubTransports, testing::Values(RanksAs::threads, RanksAs::processes), name_of);

}  // namespace
}  // namespace bigmac
