#include "bigmac/runtime/group.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "tests/runtime/group_values.h"

namespace bigmac {
namespace {

constexpr torch::ScalarType kSummed[] = {torch::kFloat64, torch::kFloat32, torch::kBFloat16,
                                         torch::kHalf,    torch::kInt64,   torch::kInt32};

void require_same_bits_on_all(Group& group, const torch::Tensor& values, const std::string& what) {
  auto all = torch::empty({group.size() * values.numel()}, values.options());
  group.start_all_gather(values, all)->wait();
  for (int member = 0; member < group.size(); ++member)
    require(has_same_bits(all.narrow(0, member * values.numel(), values.numel()), values), what);
}

void check_collectives(Group& group, torch::ScalarType dtype, int64_t count, bool sums, bool gathers) {
  int64_t members = group.size(), index = group.index();
  auto of_member = [&](int64_t member, int64_t number) {
    return whole_numbers(number, dtype, uint64_t(1000 * group.ranks()[size_t(member)] + number));
  };
  auto sum_of = [&](int64_t number) {
    auto sum = of_member(0, number).to(torch::kFloat64);
    for (int64_t member = 1; member < members; ++member) sum += of_member(member, number).to(torch::kFloat64);
    return sum.to(dtype);
  };
  auto where = concat(" of ", count, " x ", dtype, " over ", members, " members");
  if (sums) {
    auto values = of_member(index, count);
    group.start_all_reduce(values)->wait();
    require(torch::equal(values, sum_of(count)), "the sum" + where);

    auto parts = of_member(index, members * count);
    auto shard = torch::full({count}, 77).to(dtype);
    group.start_reduce_scatter(parts, shard)->wait();
    require(torch::equal(shard, sum_of(members * count).narrow(0, index * count, count)),
            "this member's part of the sum" + where);

    auto inside = of_member(index, members * count);
    auto own = inside.narrow(0, index * count, count);
    group.start_reduce_scatter(inside, own)->wait();
    require(torch::equal(own, shard), "the same where the shard is part of the values");
  }
  if (gathers) {
    auto values = torch::zeros({members * count}, dtype);
    group.start_all_gather(of_member(index, count), values)->wait();
    for (int64_t member = 0; member < members; ++member)
      require(torch::equal(values.narrow(0, member * count, count), of_member(member, count)),
              concat("the shard of member ", member, where));
  }
}

void shapes(Transport& transport) {
  auto group = transport.make_group(all_of(transport));
  int64_t members = group->size();
  auto values = torch::full({2, 3}, 1.0, torch::requires_grad());
  group->start_all_reduce(values)->wait();
  require(torch::equal(values, torch::full({2, 3}, double(members))), "a matrix that requires a gradient");
  auto shard = torch::full({3, 2}, double(group->index())), all = torch::empty({members, 2, 3});
  group->start_all_gather(shard, all)->wait();
  require(torch::equal(all.sum({1, 2}), 6 * torch::arange(members)), "shards of any shape");
}

void subsets(Transport& transport) {
  for (const auto& ranks : subsets_with(transport)) {
    auto group = transport.make_group(ranks);
    require(group->ranks() == ranks, "the ranks it was made of");
    require(ranks.at(size_t(group->index())) == transport.rank(), "this rank at its index");
    for (int64_t count : {0, 1, 7, 1000}) {
      for (auto dtype : kSummed) check_collectives(*group, dtype, count, true, false);
      for (auto dtype : kGathered) check_collectives(*group, dtype, count, false, true);
    }
    check_collectives(*group, torch::kFloat32, 300'001, true, true);
  }
  shapes(transport);
}

void bits(Transport& transport) {
  for (const auto& ranks : subsets_with(transport)) {
    auto group = transport.make_group(ranks);
    int64_t members = group->size();
    for (auto dtype : kFloats) {
      auto of_rank = [&](int rank) { return normal(members * 999, dtype, uint64_t(100 + rank)); };
      auto exact = torch::zeros({members * 999}, torch::kFloat64);
      for (int rank : ranks) exact += of_rank(rank).to(torch::kFloat64);
      // bf16 has 8 significant bits; the sum itself has fp32's error.
      double rounding = dtype == torch::kBFloat16 ? std::ldexp(1.001, -8) : 0;
      double error = dtype == torch::kFloat64 ? 1e-13 : 1e-5;
      auto close = [&](const torch::Tensor& sum, const torch::Tensor& expected) {
        auto wide = sum.to(torch::kFloat64);
        return ((wide - expected).abs() <= rounding * expected.abs() + error).all().item<bool>();
      };
      torch::Tensor first, first_shard;
      for (int repeat = 0; repeat < 3; ++repeat) {
        auto values = of_rank(transport.rank());
        group->start_all_reduce(values)->wait();
        require(close(values, exact), concat("the sum of ", dtype));
        require_same_bits_on_all(*group, values, "the same bits on every member");
        auto shard = torch::empty({999}, dtype);
        group->start_reduce_scatter(of_rank(transport.rank()), shard)->wait();
        require(close(shard, exact.narrow(0, group->index() * 999, 999)), concat("the part of ", dtype));
        if (repeat == 0) {
          first = values;
          first_shard = shard;
        }
        require(has_same_bits(values, first) && has_same_bits(shard, first_shard), "the same bits again");
      }
    }
  }
}

// Each rank starts the collectives of its groups in an order of its own, and waits in another.
void overlap(Transport& transport) {
  const std::vector<std::vector<int>> made_of{{0, 1, 2, 3}, {0, 1},    {2, 3},    {0, 2},
                                              {1, 3},       {0, 1, 2}, {1, 2, 3}, {0, 2}};
  struct Mine {
    std::unique_ptr<Group> group;
    std::vector<torch::Tensor> values;
    std::vector<std::unique_ptr<Pending>> pending;
    size_t which;
  };
  std::vector<Mine> mine;
  for (size_t which = 0; which < made_of.size(); ++which)
    if (std::count(made_of[which].begin(), made_of[which].end(), transport.rank()))
      mine.push_back({transport.make_group(made_of[which]), {}, {}, which});
  std::mt19937 random{uint32_t(transport.rank())};
  auto value = [](size_t which, int rank, int round) {
    return torch::full({1000 * (round + 1)}, double(which * 100 + size_t(rank * 10 + round)));
  };
  for (int turn = 0; turn < 3; ++turn) {
    std::shuffle(mine.begin(), mine.end(), random);
    for (auto& [group, values, pending, which] : mine)
      for (int round = 0; round < 3; ++round) {
        values.push_back(value(which, transport.rank(), round));
        pending.push_back(group->start_all_reduce(values.back()));
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      }
    std::shuffle(mine.begin(), mine.end(), random);
    for (auto& [group, values, pending, which] : mine) {
      for (int round : {2, 0, 1}) {
        pending[size_t(round)]->wait();
        auto sum = torch::zeros_like(values[size_t(round)]);
        for (int rank : made_of[which]) sum += value(which, rank, round);
        require(torch::equal(values[size_t(round)], sum), concat("the sum of group ", which));
      }
      values.clear();
      pending.clear();
    }
  }
}

void made_and_dropped(Transport& transport) {
  for (int round = 0; round < 30; ++round) {
    std::vector<int> ranks{round % 3, round % 3 + 1};
    if (!std::count(ranks.begin(), ranks.end(), transport.rank())) continue;
    auto values = torch::full({100'000}, double(transport.rank()));
    transport.make_group(ranks)->start_all_reduce(values)->wait();
    require(torch::equal(values, torch::full({100'000}, double(2 * (round % 3) + 1))), "the sum");
  }
}

void refuse(Transport& transport) {
  int rank = transport.rank(), other = 1 - rank;
  require_refusal(
      [&] {
        transport.make_group({1, 0});
      },
      "[group] ranks must be ascending and of 0..1, got [1, 0]");
  require_refusal([&] { transport.make_group({0, 0}); }, "[group] ranks must be ascending");
  require_refusal([&] { transport.make_group({0, 2}); }, "[group] ranks must be ascending and of 0..1");
  require_refusal([&] { transport.make_group({-1, 0}); }, "[group] ranks must be ascending and of 0..1");
  require_refusal([&] { transport.make_group({}); },
                  concat("[group] rank ", rank, " makes a group that it is not in"));
  require_refusal([&] { transport.make_group({other}); }, concat("[group] rank ", rank, " makes a group"));

  auto group = transport.make_group({0, 1});
  auto two = torch::zeros({2}), three = torch::zeros({3}), matrix = torch::zeros({2, 2});
  require_refusal([&] { group->start_all_reduce({}); }, "[group] values is undefined");
  require_refusal([&] { group->start_all_reduce(matrix.t()); },
                  "[group] values must be contiguous, got sizes [2, 2]");
  for (auto dtype : {torch::kBool, torch::kInt16})
    require_refusal([&] { group->start_all_reduce(two.to(dtype)); },
                    "[group] sums are of Double, Float, BFloat16, Half");
  require_refusal([&] { group->start_all_gather(two, three); },
                  "[group] values must be 2 shards of 2 elements, got 3");
  require_refusal([&] { group->start_reduce_scatter(three, two); },
                  "[group] values must be 2 shards of 2 elements");
  require_refusal(
      [&] { group->start_all_gather(two, matrix.to(torch::kFloat64)); },
      "[group] values and shard must be of one dtype and device, got Double on cpu and Float on cpu");
}

void unlike_collectives(Transport& transport) {
  auto group = transport.make_group(all_of(transport));
  group->start_all_reduce(torch::zeros({transport.rank() == 1 ? 3 : 2}))->wait();
}
const Bodies kBodies{{"subsets", subsets},
                     {"bits", bits},
                     {"overlap", overlap},
                     {"made_and_dropped", made_and_dropped},
                     {"refuse", refuse}};
const bool added = add_bodies("group.", kBodies);

class Groups : public OverBoth {
 protected:
  void run(const std::string& body, int ranks) { run_body(GetParam(), "group.", kBodies, body, ranks); }
};

TEST_P(Groups, OfAnySubsetSumScatterAndGatherEveryDtype) {
  for (int ranks : sizes({1, 2, 3, 4})) run("subsets", ranks);
}

TEST_P(Groups, SumToTheSameBitsOnAllMembersAndAgainWith16BitFloatsRoundedOnce) {
  run("bits", 4);
}

TEST_P(Groups, OverlapInAnyOrder) {
  run("overlap", 4);
}

TEST_P(Groups, AreMadeAndDroppedAtWill) {
  run("made_and_dropped", 4);
}

TEST_P(Groups, RefuseWhatDoesNotFitAndGoOn) {
  run("refuse", 2);
}

INSTANTIATE_TEST_SUITE_P(Over, Groups, testing::Values(RanksAs::threads, RanksAs::processes), name_of);

TEST(ThreadsGroup, NamesBothSidesOfCollectivesThatDiffer) {
  try {
    run_threads(2, unlike_collectives);
    FAIL() << "summed";
  } catch (const RankFailure& failure) {
    std::string text = failure.what();
    EXPECT_NE(text.find("all_reduce of 2 elements of Float on rank 0"), std::string::npos) << text;
    EXPECT_NE(text.find("all_reduce of 3 elements of Float on rank 1"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace bigmac
