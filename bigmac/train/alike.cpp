#include "bigmac/train/alike.h"

#include <sstream>

#include "bigmac/system/random.h"
#include "bigmac/train/options_file.h"

namespace bigmac::train {
namespace {

std::string ports(const Ports& list) {
  std::string text;
  for (const auto& port : list) text += concat(text.empty() ? "" : ", ", port.name, " ", describe(port));
  return text;
}

}  // namespace

std::string lines_of(const TrainOptions& options, const System& system) {
  TrainOptions same = options;
  same.device = TrainOptions{}.device;
  same.threads_per_rank = TrainOptions{}.threads_per_rank;
  if (!same.profile.folder.empty()) same.profile.folder = "a folder";
  std::string text = to_yaml(same);
  for (double cost : options.cut.costs) text += concat("cost ", cost, "\n");
  for (const auto& module : system.modules())
    text += concat(name(module.kind), " ", module.name, ": ", ports(module.consumes), " -> ",
                   ports(module.produces), "\n");
  for (const auto* part : system.backbone().all())
    text += concat(system.backbone().name, ".", part->name, " costs ", part->cost, "\n");
  for (const auto& tie : system.backbone().ties) text += concat("tie ", tie.parameter, " to ", tie.to, "\n");
  for (const auto& loss : system.losses()) text += concat("loss ", loss.name, " weight ", loss.weight, "\n");
  return text;
}

std::vector<int64_t> numbers_of(Group& group, int64_t number) {
  auto numbers = torch::zeros({group.size()}, torch::kInt64);
  numbers[group.index()] = number;
  group.start_all_reduce(numbers)->wait();
  return {numbers.data_ptr<int64_t>(), numbers.data_ptr<int64_t>() + numbers.numel()};
}

int find_other(Group& group, uint64_t number) {
  auto all = numbers_of(group, int64_t(number));
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i] != all[0]) return group.ranks()[i];
  return -1;
}

void expect_alike(Transport& world, Group& everyone, const std::string& lines) {
  int other = find_other(everyone, hash_of(0, lines));
  if (other < 0) return;
  auto all = all_gather(world, message_of(lines));
  std::istringstream first(text_of(all[0])), second(text_of(all[size_t(other)]));
  std::string a, b;
  bool more_a = true, more_b = true;
  while (a == b && (more_a || more_b)) {
    more_a = bool(std::getline(first, a));
    more_b = bool(std::getline(second, b));
    if (!more_a) a = "nothing more";
    if (!more_b) b = "nothing more";
  }
  auto trimmed = [](const std::string& line) {
    return line.substr(std::min(line.size(), line.find_first_not_of(' ')));
  };
  throw InvalidInput(concat("[train] rank ", other, " has '", trimmed(b), "' where rank 0 has '", trimmed(a),
                            "'; start all ranks with the same program, options and files"));
}

}  // namespace bigmac::train
