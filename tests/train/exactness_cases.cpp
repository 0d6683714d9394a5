#include "tests/train/exactness_cases.h"

#include <algorithm>

namespace bigmac::train {
namespace {

struct Layout {
  int64_t pp, vpp, dp;
};
constexpr Layout kLayouts[] = {{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {4, 1, 1}, {4, 2, 1}, {2, 1, 2}, {2, 2, 2}};
constexpr const char* kTransports[] = {"threads", "processes"};
enum Shardings { replicated, states, full_collective, full_one_sided, shardings };
constexpr const char* kShardings[] = {"replicated", "states", "full, collective", "full, one-sided"};
enum Variants { plain, frozen_encoder, projector_only, text_only, uneven, reordered, recompute, variants };
constexpr const char* kVariants[] = {
    "plain",        "frozen encoder", "projector only", "text-only microbatches",
    "uneven items", "reordered",      "recompute"};
struct Plan {
  Base one_chunk, two_chunks;
  Arrangement arrangement;
};
// Every base with every arrangement.
constexpr Plan kPlans[] = {
    {Base::one_f_one_b, Base::interleaved, Arrangement::nested},
    {Base::zb_h1, Base::zb_v, Arrangement::nested},
    {Base::gpipe, Base::dualpipe_v, Arrangement::nested},
    {Base::one_f_one_b, Base::interleaved, Arrangement::nested_fill},
    {Base::zb_h1, Base::zb_v, Arrangement::nested_fill},
    {Base::gpipe, Base::dualpipe_v, Arrangement::nested_fill},
    {Base::one_f_one_b, Base::interleaved, Arrangement::three_phase},
    {Base::zb_h1, Base::zb_v, Arrangement::three_phase},
    {Base::gpipe, Base::dualpipe_v, Arrangement::three_phase},
    {Base::one_f_one_b, Base::interleaved, Arrangement::optimus},
    {Base::zb_h1, Base::zb_v, Arrangement::optimus},
    {Base::gpipe, Base::dualpipe_v, Arrangement::optimus},
    {Base::one_f_one_b, Base::interleaved, Arrangement::megatron},
    {Base::zb_h1, Base::zb_v, Arrangement::megatron},
    {Base::gpipe, Base::dualpipe_v, Arrangement::megatron},
};

std::array<int, kFactors> counts() {
  return {
      int(system_kinds().size()), int(std::size(kLayouts)), int(std::size(kTransports)), shardings, variants,
      int(std::size(kPlans))};
}

bool legal(const Case& c) {
  auto arrangement = kPlans[c[kSchedule]].arrangement;
  bool has_units = arrangement == Arrangement::nested || arrangement == Arrangement::three_phase;
  return c[kSharding] != full_collective || has_units;
}

std::vector<std::string> modules_of(const Case& c) {
  auto system = system_of(c);
  auto names = system.names();
  names.pop_back();
  return names;
}

bool has_vision(const Case& c) {
  return system_kinds()[size_t(c[kSystem])] != "generation";
}

// Two choices, as a number.
constexpr int kMostChoices = 16, kPairs = (kFactors + 1) * (kFactors + 1) * kMostChoices * kMostChoices;
int pair(int f, int choice_of_f, int g, int choice_of_g) {
  return ((f * (kFactors + 1) + g) * kMostChoices + choice_of_f) * kMostChoices + choice_of_g;
}
template <class Visit>
void for_each_pair(const Case& c, Visit&& visit) {
  for (int f = 0; f < kFactors; ++f)
    for (int g = f + 1; g < kFactors; ++g) visit(pair(f, c[size_t(f)], g, c[size_t(g)]));
  // Every system over every number of processes.
  if (in_processes(c)) visit(pair(kFactors, c[kSystem], kFactors, ranks_of(c)));
}

}  // namespace

std::string describe(const Case& c) {
  const auto& layout = kLayouts[c[kLayout]];
  auto options = options_of(c);
  return concat(system_kinds()[size_t(c[kSystem])], ", P=", layout.pp, " V=", layout.vpp, " DP=", layout.dp,
                ", ", kTransports[c[kTransport]], ", ", kShardings[c[kSharding]], ", ",
                kVariants[c[kVariant]], ", ", name(options.schedule), " ", name(*options.base));
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  auto limits = counts();
  Case c{};
  for (;;) {
    if (legal(c)) all.push_back(c);
    size_t f = 0;
    while (f < kFactors && ++c[f] == limits[f]) c[f++] = 0;
    if (f == kFactors) return all;
  }
}

std::vector<Case> pairwise_cases() {
  auto all = all_cases();
  std::vector<bool> open(kPairs, false);
  for (const auto& c : all) for_each_pair(c, [&](int pair) { open[size_t(pair)] = true; });
  std::vector<Case> chosen;
  for (auto left = std::count(open.begin(), open.end(), true); left > 0;) {
    const Case* best = nullptr;
    int64_t most = 0;
    for (const auto& c : all) {
      int64_t gained = 0;
      for_each_pair(c, [&](int pair) { gained += open[size_t(pair)]; });
      if (gained > most) {
        most = gained;
        best = &c;
      }
    }
    chosen.push_back(*best);
    for_each_pair(*best, [&](int pair) { open[size_t(pair)] = false; });
    left -= most;
  }
  return chosen;
}

int ranks_of(const Case& c) {
  return int(kLayouts[c[kLayout]].pp * kLayouts[c[kLayout]].dp);
}

bool in_processes(const Case& c) {
  return c[kTransport] == 1;
}

System system_of(const Case& c) {
  return make_system(system_kinds()[size_t(c[kSystem])]);
}

TrainOptions options_of(const Case& c) {
  const auto& layout = kLayouts[c[kLayout]];
  const auto& plan = kPlans[c[kSchedule]];
  TrainOptions options;
  options.pp = layout.pp;
  options.vpp = layout.vpp;
  options.dp = layout.dp;
  options.microbatches = layout.dp == 1 ? 5 : 3;
  options.dtype = "float64";
  options.schedule = plan.arrangement;
  options.base = layout.vpp == 1 ? plan.one_chunk : plan.two_chunks;
  if (c[kSharding] != replicated) {
    options.shard["llm"] = Sharding::states;
    for (const auto& module : modules_of(c))
      options.shard[module] = c[kSharding] == states ? Sharding::states : Sharding::full;
    options.gather = c[kSharding] == full_one_sided ? Gather::one_sided : Gather::collective;
  }
  bool vision = has_vision(c);
  if (c[kVariant] == frozen_encoder) options.trained.freeze = {vision ? "vision.*" : "drawing.*"};
  if (c[kVariant] == projector_only) options.trained = {{"*"}, {vision ? "*.projector.*" : "drawing.*"}};
  if (c[kVariant] == reordered) options.order = Order::balanced;
  if (c[kVariant] == recompute) {
    options.recompute = {"llm"};
    if (vision) options.recompute.push_back("vision");
  }
  return options;
}

Batches batches_of(const Case& c) {
  auto kind = system_kinds()[size_t(c[kSystem])];
  SampleOptions options{.samples = 11};
  options.text_only = c[kVariant] == text_only ? 6 : 0;
  options.uneven = c[kVariant] == uneven;
  return [=](int64_t step) { return make_samples(kind, options, step); };
}

std::string plain_key(const Case& c) {
  auto options = options_of(c);
  return concat(c[kSystem], " ", c[kVariant], " ", options.microbatches * options.dp);
}

}  // namespace bigmac::train
