#include "bigmac/schedule/step.h"

#include <algorithm>
#include <cmath>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac {
namespace {

constexpr std::string_view kBaseNames[] = {"gpipe", "1f1b",       "interleaved", "zb-h1",
                                           "zb-v",  "dualpipe-v", "custom"};
constexpr std::string_view kArrangementNames[] = {"llm-only", "nested",   "nested-fill", "three-phase",
                                                  "optimus",  "megatron", "disttrain"};

template <class Enum, size_t n>
Enum named(const char* what, std::string_view text, const std::string_view (&names)[n]) {
  for (size_t i = 0; i < n; ++i)
    if (text == names[i]) return Enum(i);
  throw InvalidInput(unknown_name(what, text, std::vector<std::string>(names, names + n)));
}

void check_count(const char* what, int64_t value) {
  if (value < 1) throw InvalidInput(concat("[schedule] ", what, " must be at least 1, got ", value));
  if (value > kMostOperators)
    throw InvalidInput(concat("[schedule] ", what, " must be at most ", kMostOperators, ", got ", value));
}

void check_module(const Step& step, const NestedModule& module) {
  auto where = concat("[schedule] module '", module.name, "'");
  if (module.kind == Module::backbone)
    throw InvalidInput(where + " must be an encoder or a generator; the backbone is the step's own");
  if (module.kind == Module::generator && !module.trained)
    throw InvalidInput(where +
                       " is a generator and cannot be frozen (trained = false): its forward and backward are "
                       "one operator, because gradients pass through it to the backbone");
  if (module.warmup_units < 0)
    throw InvalidInput(concat(where,
                              ": warm-up units (W) must be at least 1, or 0 for as many as it takes, got ",
                              module.warmup_units));
  if (int64_t(module.items.size()) > kMostOperators)
    throw InvalidInput(concat(where, " has ", module.items.size(), " items, more than ", kMostOperators));
  for (size_t i = 0; i < module.items.size(); ++i) {
    const Item& item = module.items[i];
    auto which = [&] { return concat(where, ": item ", i); };
    if (item.microbatch >= step.microbatches)
      throw InvalidInput(
          concat(which(), " is of microbatch ", item.microbatch, ", the step has ", step.microbatches));
    if (i > 0 && item.microbatch < module.items[i - 1].microbatch)
      throw InvalidInput(concat(which(), " is of microbatch ", item.microbatch, " and stands behind one of ",
                                module.items[i - 1].microbatch, "; items must be in order of microbatch"));
    if (!std::isfinite(item.size) || item.size <= 0)
      throw InvalidInput(concat(which(), " (microbatch ", item.microbatch, ") has size ", item.size,
                                "; a size must be a finite number above 0"));
  }
}

void check_modules(const Step& step) {
  for (size_t i = 0; i < step.modules.size(); ++i) {
    check_module(step, step.modules[i]);
    for (size_t j = 0; j < i; ++j)
      if (step.modules[j].name == step.modules[i].name)
        throw InvalidInput(concat("[schedule] two modules are named '", step.modules[i].name, "'"));
  }
  if (step.generator_unit < 0 || step.generator_unit > step.ranks)
    throw InvalidInput(concat("[schedule] the generator's unit (k) must be from 1 to P microbatches, got ",
                              step.generator_unit, " with ", shape(step)));
}

void check_order(const Step& step) {
  if (step.order.empty()) return;
  if (int64_t(step.order.size()) != step.microbatches)
    throw InvalidInput(
        concat("[order] has ", step.order.size(), " microbatches, the step has ", step.microbatches));
  std::vector<int64_t> position(size_t(step.microbatches), -1);
  for (int64_t p = 0; p < step.microbatches; ++p) {
    uint32_t m = step.order[p];
    if (m >= step.microbatches)
      throw InvalidInput(concat("[order] has microbatch ", m, " at position ", p, ", the step has 0 to ",
                                step.microbatches - 1));
    if (position[m] >= 0)
      throw InvalidInput(
          concat("[order] has microbatch ", m, " twice, at positions ", position[m], " and ", p));
    position[m] = p;
  }
}

void check_placement(const Step& step) {
  std::vector<int64_t> held(size_t(step.ranks), 0);
  for (size_t s = 0; s < step.stage_ranks.size(); ++s) {
    int64_t rank = step.stage_ranks[s];
    if (rank < 0 || rank >= step.ranks)
      throw InvalidInput(
          concat("[schedule] stage ", s, " is on rank ", rank, ", the step has ranks 0 to ", step.ranks - 1));
    if (++held[rank] > step.chunks)
      throw InvalidInput(concat("[schedule] rank ", rank, " holds more than V=", step.chunks, " stages"));
  }
}

void check_base(const Step& step) {
  auto needs_chunks = [&](bool legal, const char* needs, const char* instead) {
    if (!legal)
      throw InvalidInput(
          concat("[", name(step.base), "] ", needs, " a rank, got ", shape(step), "; take ", instead));
  };
  switch (step.base) {
    case Base::one_f_one_b:
      needs_chunks(step.chunks == 1, "holds one chunk", "V=1 or the base 'interleaved'");
      break;
    case Base::zb_h1:
      needs_chunks(step.chunks == 1, "holds one chunk", "V=1 or the base 'zb-v'");
      break;
    case Base::zb_v:
    case Base::dualpipe_v:
      needs_chunks(step.chunks == 2, "holds two chunks", "V=2");
      break;
    case Base::interleaved:
      needs_chunks(step.chunks > 1, "needs at least 2 chunks", "V=2 or more, or the base '1f1b'");
      break;
    case Base::gpipe:
    case Base::custom:
      break;
  }
  if (step.base != Base::interleaved) {
    if (step.group != 0)
      throw InvalidInput(concat("[", name(step.base), "] has no groups, got G=", step.group, " with ",
                                shape(step), "; leave the group size out or take the base 'interleaved'"));
    return;
  }
  int64_t most = std::max(step.ranks, step.microbatches), group = step.group_size();
  if (group < step.ranks || group > most)
    throw InvalidInput(concat("[interleaved] ", shape(step), " G=", group, " is not legal: P <= G <= M",
                              step.microbatches < step.ranks ? ", or G=P where M is smaller" : "",
                              "; nearest legal G: ", std::clamp(group, step.ranks, most)));
}

}  // namespace

std::string_view name(Base base) {
  return kBaseNames[size_t(base)];
}

std::string_view name(Arrangement arrangement) {
  return kArrangementNames[size_t(arrangement)];
}

Base base_from_name(std::string_view text) {
  return named<Base>("base schedule", text, kBaseNames);
}

Base made_base_from_name(std::string_view text) {
  std::vector<std::string> names;
  for (auto base :
       {Base::gpipe, Base::one_f_one_b, Base::interleaved, Base::zb_h1, Base::zb_v, Base::dualpipe_v}) {
    if (text == name(base)) return base;
    names.emplace_back(name(base));
  }
  throw InvalidInput(unknown_name("base schedule", text, names));
}

Arrangement arrangement_from_name(std::string_view text) {
  return named<Arrangement>("schedule", text, kArrangementNames);
}

bool Step::has(Module kind) const {
  return std::any_of(modules.begin(), modules.end(), [&](const auto& module) { return module.kind == kind; });
}

NestedModule one_item_each(std::string name, Module kind, int64_t microbatches) {
  NestedModule module{std::move(name), kind, {}};
  for (int64_t m = 0; m < microbatches; ++m) module.items.push_back({uint32_t(m), 1});
  return module;
}

int rank_of_stage(const Step& step, int64_t stage) {
  if (!step.stage_ranks.empty()) return step.stage_ranks[stage];
  bool folds = step.base == Base::zb_v || step.base == Base::dualpipe_v;
  return int(folds && stage >= step.ranks ? 2 * step.ranks - 1 - stage : stage % step.ranks);
}

void check_counts(const Step& step) {
  check_count("ranks (P)", step.ranks);
  check_count("chunks (V)", step.chunks);
  check_count("microbatches (M)", step.microbatches);
  // Bounded factors first, so that the product cannot overflow.
  int64_t limit = kMostOperators / (step.splits_backward() ? 3 : 2);
  if (step.ranks > limit / step.chunks || step.ranks * step.chunks > limit / step.microbatches)
    throw InvalidInput(concat("[schedule] ", shape(step), " make more than ", kMostOperators,
                              " operators; take fewer ",
                              step.microbatches > 1 ? "microbatches" : "ranks or chunks"));
  if (step.chunks > UINT16_MAX)
    throw InvalidInput(concat("[schedule] chunks (V) must be at most ", UINT16_MAX, ", got ", step.chunks));
}

void check_step(const Step& step) {
  check_counts(step);
  check_base(step);
  check_placement(step);
  check_order(step);
  check_modules(step);
}

std::string shape(const Step& step) {
  return concat("P=", step.ranks, " V=", step.chunks, " M=", step.microbatches);
}

}  // namespace bigmac
