#include "bigmac/runtime/threads_group.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "bigmac/runtime/group_input.h"
#include "bigmac/runtime/transport.h"
#include "bigmac/runtime/turn_sum.h"

namespace bigmac {

void Hall::fail(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = reason;
    failed_ = true;
  }
  told_.notify_all();
}

void Hall::check() const {
  std::lock_guard lock(mutex_);
  if (failed_) throw RankFailure(failure_);
}

void Hall::tell() {
  {
    std::lock_guard lock(mutex_);
    ++count_;
  }
  told_.notify_all();
}

int64_t Hall::count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

void Hall::wait_past(int64_t count) const {
  std::unique_lock lock(mutex_);
  told_.wait(lock, [&] { return count_ > count || failed_; });
  if (failed_) throw RankFailure(failure_);
}

namespace {

// Of one member, in a window.
struct Lot {
  explicit Lot(torch::Tensor own) : shard(std::move(own)), sum(shard.device()) {}
  std::mutex mutex;
  torch::Tensor shard;
  TurnSum sum;
};
using Lots = std::vector<std::unique_ptr<Lot>>;

class ThreadsWindow : public Window {
 public:
  ThreadsWindow(std::shared_ptr<Hall> hall, std::shared_ptr<Lots> lots, int index)
      : hall_(std::move(hall)), lots_(std::move(lots)), own_(*lots_->at(size_t(index))) {}

  std::unique_ptr<Pending> start_gather(torch::Tensor values) override {
    struct Done : Pending {
      void wait() override {}
    };
    hall_->check();
    int64_t from = 0, count = own_.shard.numel();
    auto row = check_parts(values, own_.shard, members()).values;
    for (auto& lot : *lots_) {
      std::lock_guard lock(lot->mutex);
      row.narrow(0, from, count).copy_(lot->shard);
      from += count;
    }
    return std::make_unique<Done>();
  }

  void add(int64_t turn, torch::Tensor values) override {
    hall_->check();
    int64_t from = 0, count = own_.shard.numel();
    auto row = check_added(values, own_.shard, members());
    for (auto& lot : *lots_) {
      std::lock_guard lock(lot->mutex);
      lot->sum.add(step_, turn, row.narrow(0, from, count));
      from += count;
    }
    hall_->tell();
  }

  torch::Tensor take_sum(int64_t turns) override {
    hall_->wait_until([&] {
      std::lock_guard lock(own_.mutex);
      return own_.sum.has(turns);
    });
    ++step_;
    std::lock_guard lock(own_.mutex);
    return own_.sum.take(turns);
  }

  void set_shard(const torch::Tensor& shard) override {
    auto row = check_shard(shard, own_.shard);
    std::lock_guard lock(own_.mutex);
    own_.shard = row;
  }

 private:
  int members() const { return int(lots_->size()); }

  std::shared_ptr<Hall> hall_;
  std::shared_ptr<Lots> lots_;
  Lot& own_;
  int64_t step_ = 0;
};

enum class Kind { all_reduce, reduce_scatter, all_gather, make_window };

// What one member brings.
struct Part {
  torch::Tensor values, shard;
};

// One collective.
struct Exchange {
  Exchange(Kind of, size_t members) : kind(of), parts(members) {}
  Kind kind;
  std::vector<Part> parts;
  std::string first;  // what the first to come came for
  int first_rank = 0;
  size_t present = 0;
  std::shared_ptr<Lots> lots;
  std::atomic<bool> done{false};
};

// The first member's values are summed into, unless they are of too few bits.
torch::Tensor sum_over(const std::vector<Part>& parts, int64_t from, int64_t count) {
  auto sum = parts[0].values.narrow(0, from, count);
  sum = sum.to(sum_type(sum.scalar_type()));
  for (size_t other = 1; other < parts.size(); ++other)
    sum.add_(parts[other].values.narrow(0, from, count).to(sum.device()));
  return sum;
}

void copy_over(const torch::Tensor& from, const torch::Tensor& to) {
  if (!to.is_set_to(from)) to.copy_(from);
}

void perform(Exchange& exchange) {
  auto& parts = exchange.parts;
  if (exchange.kind == Kind::make_window) {
    exchange.lots = std::make_shared<Lots>();
    for (auto& part : parts) exchange.lots->push_back(std::make_unique<Lot>(part.shard));
  } else if (exchange.kind == Kind::all_reduce) {
    auto sum = sum_over(parts, 0, parts[0].values.numel());
    for (auto& part : parts) copy_over(sum, part.values);
  } else {
    int64_t from = 0, count = parts[0].shard.numel();
    for (auto& member : parts) {
      if (exchange.kind == Kind::reduce_scatter) {
        copy_over(sum_over(parts, from, count), member.shard);
      } else {
        for (auto& part : parts) copy_over(member.shard, part.values.narrow(0, from, count));
      }
      from += count;
    }
  }
  parts.clear();
}

class ThreadsPending : public Pending {
 public:
  ThreadsPending(std::shared_ptr<Hall> hall, std::shared_ptr<Exchange> exchange)
      : hall_(std::move(hall)), exchange_(std::move(exchange)) {}
  void wait() override {
    hall_->wait_until([&] { return exchange_->done.load(); });
  }

 private:
  std::shared_ptr<Hall> hall_;
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace

struct Circle {
  explicit Circle(std::vector<int> members) : ranks(std::move(members)), joined(ranks.size()) {}
  std::vector<int> ranks;
  std::vector<bool> joined;  // by member
  std::mutex mutex;
  std::map<int64_t, std::shared_ptr<Exchange>> exchanges;  // that not all have come to, by number
};

namespace {

class ThreadsGroup : public Group {
 public:
  ThreadsGroup(std::shared_ptr<Hall> hall, std::shared_ptr<Circle> circle, int index)
      : hall_(std::move(hall)), circle_(std::move(circle)), index_(index) {}

  const std::vector<int>& ranks() const override { return circle_->ranks; }
  int index() const override { return index_; }

  std::unique_ptr<Pending> start_all_reduce(torch::Tensor values) override {
    auto row = check_sum(values);
    return start(Kind::all_reduce, {row, {}}, describe("all_reduce", row));
  }
  std::unique_ptr<Pending> start_reduce_scatter(torch::Tensor values, torch::Tensor shard) override {
    auto rows = check_parts(check_sum(values), shard, size());
    return start(Kind::reduce_scatter, {rows.values, rows.shard}, describe("reduce_scatter", rows.values));
  }
  std::unique_ptr<Pending> start_all_gather(torch::Tensor shard, torch::Tensor values) override {
    auto rows = check_parts(values, shard, size());
    return start(Kind::all_gather, {rows.values, rows.shard}, describe("all_gather", rows.values));
  }
  std::unique_ptr<Window> make_window(torch::Tensor shard) override {
    auto row = check_shard(shard);
    auto exchange = join(Kind::make_window, {{}, row}, describe("make_window", row));
    ThreadsPending(hall_, exchange).wait();
    return std::make_unique<ThreadsWindow>(hall_, exchange->lots, index_);
  }

 private:
  static std::string describe(const char* what, const torch::Tensor& values) {
    return concat(what, " of ", values.numel(), " elements of ", values.scalar_type());
  }

  std::unique_ptr<Pending> start(Kind kind, Part part, const std::string& what) {
    return std::make_unique<ThreadsPending>(hall_, join(kind, std::move(part), what));
  }

  std::shared_ptr<Exchange> join(Kind kind, Part part, const std::string& what) {
    hall_->check();
    int rank = circle_->ranks[size_t(index_)];
    std::shared_ptr<Exchange> exchange;
    {
      std::lock_guard lock(circle_->mutex);
      auto& found = circle_->exchanges[started_];
      if (!found) {
        found = std::make_shared<Exchange>(kind, circle_->ranks.size());
        found->first = what;
        found->first_rank = rank;
      }
      if (found->first != what)
        throw InvalidInput(concat("[group] members must start the same collectives; number ", started_,
                                  " is ", found->first, " on rank ", found->first_rank, ", and ", what,
                                  " on rank ", rank));
      exchange = found;
      exchange->parts[size_t(index_)] = std::move(part);
      ++started_;
      if (++exchange->present < circle_->ranks.size()) return exchange;
      circle_->exchanges.erase(started_ - 1);
    }
    perform(*exchange);
    exchange->done = true;
    hall_->tell();
    return exchange;
  }

  std::shared_ptr<Hall> hall_;
  std::shared_ptr<Circle> circle_;
  int index_;
  int64_t started_ = 0;
};

}  // namespace

std::unique_ptr<Group> ThreadsGroups::join(std::vector<int> ranks, int rank, int size) {
  hall_->check();
  int index = check_members(ranks, rank, size);
  std::lock_guard lock(mutex_);
  auto found = std::find_if(incomplete_.begin(), incomplete_.end(), [&](const auto& circle) {
    return circle->ranks == ranks && !circle->joined[size_t(index)];
  });
  if (found == incomplete_.end())
    found = incomplete_.insert(found, std::make_shared<Circle>(std::move(ranks)));
  auto circle = *found;
  circle->joined[size_t(index)] = true;
  if (std::all_of(circle->joined.begin(), circle->joined.end(), [](bool here) { return here; }))
    incomplete_.erase(found);
  return std::make_unique<ThreadsGroup>(hall_, std::move(circle), index);
}

std::unique_ptr<Group> make_lone_group(int rank) {
  return ThreadsGroups(std::make_shared<Hall>()).join({rank}, rank, rank + 1);
}

}  // namespace bigmac
