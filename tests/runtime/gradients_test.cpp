#include "bigmac/runtime/gradients.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "bigmac/runtime/threads_transport.h"

namespace bigmac {
namespace {

constexpr int kRanks = 4;

torch::Tensor parameter(std::vector<int64_t> sizes, double value, torch::ScalarType dtype = torch::kFloat64) {
  return torch::full(sizes, value, torch::dtype(dtype)).requires_grad_();
}

torch::Tensor gradient_of(int rank, const torch::Tensor& parameter, int seed) {
  auto generator = at::detail::createCPUGenerator(uint64_t(100 * seed + rank));
  return torch::randint(-1000, 1000, parameter.sizes(), generator).to(parameter.scalar_type());
}

// "all" on every rank, "tied" on ranks 0 and 3, "middle" on 1, 2 and 3 in float, "own<r>" on rank r.
struct Held {
  explicit Held(int rank) {
    named.emplace_back("all", parameter({3, 2}, 1));
    if (rank == 0 || rank == 3) named.emplace_back("tied", parameter({5}, 2));
    if (rank >= 1) named.emplace_back("middle", parameter({2, 2}, 3, torch::kFloat32));
    named.emplace_back(concat("own", rank), parameter({4}, 4));
  }
  NamedParameters named;
};

std::vector<int> holders_of(const std::string& name) {
  if (name == "all") return {0, 1, 2, 3};
  if (name == "tied") return {0, 3};
  if (name == "middle") return {1, 2, 3};
  return {name.back() - '0'};
}

int seed_of(const std::string& name) {
  return int(name.size()) + name[0];
}

TEST(SharedGradients, AreSummedOverTheRanksThatHoldAParameter) {
  run_threads(kRanks, [](Transport& transport) {
    Held held(transport.rank());
    SharedGradients gradients(transport, held.named);
    for (int step = 0; step < 2; ++step) {
      for (auto& [name, value] : held.named)
        value.mutable_grad() = gradient_of(transport.rank(), value, seed_of(name));
      gradients.sum();
      for (auto& [name, value] : held.named) {
        auto expected = torch::zeros_like(value);
        for (int holder : holders_of(name)) expected += gradient_of(holder, value, seed_of(name));
        EXPECT_TRUE(torch::equal(value.grad(), expected)) << name << " on rank " << transport.rank();
      }
    }
  });
}

TEST(SharedGradients, ThatAreMissingCountAsZero) {
  run_threads(kRanks, [](Transport& transport) {
    Held held(transport.rank());
    SharedGradients gradients(transport, held.named);
    if (transport.rank() == 3)
      for (auto& [name, value] : held.named)
        if (name == "all" || name == "tied") value.mutable_grad() = torch::ones_like(value);
    gradients.sum();
    for (auto& [name, value] : held.named) {
      ASSERT_TRUE(value.grad().defined()) << name;
      bool given = name == "all" || name == "tied";
      EXPECT_TRUE(torch::equal(value.grad(), torch::full_like(value, given))) << name;
    }
  });
}

TEST(SharedGradients, LeaveFrozenParametersAlone) {
  run_threads(2, [](Transport& transport) {
    NamedParameters named{{"frozen", torch::ones({2})}, {"trained", parameter({3}, 1)}};
    SharedGradients gradients(transport, named);
    named[1].second.mutable_grad() = torch::ones_like(named[1].second);
    gradients.sum();
    EXPECT_FALSE(named[0].second.grad().defined());
    EXPECT_TRUE(torch::equal(named[1].second.grad(), torch::full_like(named[1].second, 2)));
    EXPECT_DOUBLE_EQ(gradients.clip_norm(1), std::sqrt(12.0));
  });
}

void expect_refusal(const std::function<torch::Tensor(int)>& of_rank, const std::string& text) {
  try {
    run_threads(3, [&](Transport& transport) {
      SharedGradients(transport, {{"same", parameter({2}, 1)}, {"weight", of_rank(transport.rank())}});
    });
    ADD_FAILURE() << "accepted; expected " << text;
  } catch (const RankFailure& failure) {
    EXPECT_NE(std::string(failure.what()).find(text), std::string::npos) << failure.what();
  }
}

TEST(SharedGradients, NameTheParameterAndTheRanksThatDifferInShapeDtypeOrTraining) {
  expect_refusal(
      [](int rank) {
        return parameter(rank == 2 ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{3, 2}, 1);
      },
      "parameter 'weight' is [3, 2] Double on rank 0 and [2, 3] Double on rank 2");
  expect_refusal([](int rank) { return parameter({2}, 1, rank == 1 ? torch::kFloat32 : torch::kFloat64); },
                 "parameter 'weight' is [2] Double on rank 0 and [2] Float on rank 1");
  expect_refusal([](int rank) { return parameter({2}, 1).detach().requires_grad_(rank == 0); },
                 "parameter 'weight' is [2] Double on rank 0 and [2] Double (frozen) on rank 1");
}

TEST(SharedGradients, HaveTheNormOfTheWholeModelInWhichEachParameterCountsOnce) {
  run_threads(kRanks, [](Transport& transport) {
    Held held(transport.rank());
    SharedGradients gradients(transport, held.named);
    auto set = [&] {
      for (auto& [name, value] : held.named) value.mutable_grad() = gradient_of(0, value, seed_of(name));
    };
    // The plain norm, over every name once.
    double squares = 0;
    std::set<std::string> seen;
    for (int rank = 0; rank < kRanks; ++rank)
      for (auto& [name, value] : Held(rank).named)
        if (seen.insert(name).second)
          squares += gradient_of(0, value, seed_of(name)).to(torch::kFloat64).square().sum().item<double>();
    double norm = std::sqrt(squares);

    set();
    EXPECT_NEAR(gradients.clip_norm(norm * 1.01), norm, 1e-9 * norm);
    for (auto& [name, value] : held.named)
      EXPECT_TRUE(torch::equal(value.grad(), gradient_of(0, value, seed_of(name))))
          << "not above, not scaled";
    set();
    EXPECT_NEAR(gradients.clip_norm(norm / 4), norm, 1e-9 * norm);
    for (auto& [name, value] : held.named)
      EXPECT_TRUE(torch::allclose(value.grad(), gradient_of(0, value, seed_of(name)) / 4, 1e-6)) << name;
    EXPECT_NEAR(gradients.clip_norm(INFINITY), norm / 4, 1e-6 * norm) << "the norm after clipping";
  });
}

TEST(SharedGradients, OwnEachParameterOnExactlyOneRank) {
  std::mutex mutex;
  std::multiset<std::string> owned;
  run_threads(kRanks, [&](Transport& transport) {
    SharedGradients gradients(transport, Held(transport.rank()).named);
    std::lock_guard lock(mutex);
    for (const auto& [name, value] : gradients.owned()) {
      owned.insert(name);
      EXPECT_EQ(holders_of(name)[0], transport.rank()) << name;
    }
  });
  EXPECT_EQ(owned, (std::multiset<std::string>{"all", "middle", "own0", "own1", "own2", "own3", "tied"}));
}

}  // namespace
}  // namespace bigmac
