#include "bigmac/schedule/step.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac {
namespace {

bool group_is_legal(int64_t ranks, int64_t microbatches, int64_t group) {
  return ranks <= group && group <= microbatches &&
         (microbatches % group == 0 || microbatches % group >= ranks);
}

// Values around `from` that satisfy `legal`, nearest first below and above: "8 or 12".
template <class Legal>
std::string nearest_legal(int64_t from, int64_t low, int64_t high, Legal legal) {
  int64_t below = from <= low ? low - 1 : std::min(from - 1, high);
  while (below >= low && !legal(below)) --below;
  int64_t above = from >= high ? high + 1 : std::max(from + 1, low);
  while (above <= high && !legal(above)) ++above;
  if (below >= low && above <= high) return concat(below, " or ", above);
  if (below >= low) return concat(below);
  return above <= high ? concat(above) : std::string("none");
}

void check_count(const char* what, int64_t value) {
  if (value < 1) throw InvalidInput(concat("[schedule] ", what, " must be at least 1, got ", value));
  if (value > kMostOperators)
    throw InvalidInput(concat("[schedule] ", what, " must be at most ", kMostOperators, ", got ", value));
}

void check_flags(const char* what, const std::vector<uint8_t>& flags, int64_t microbatches) {
  if (!flags.empty() && int64_t(flags.size()) != microbatches)
    throw InvalidInput(concat("[schedule] ", what, " has flags for ", flags.size(),
                              " microbatches, the step has ", microbatches));
}

}  // namespace

std::string_view name(Base base) {
  return base == Base::one_f_one_b ? "1f1b" : "interleaved";
}

std::string_view name(Arrangement arrangement) {
  switch (arrangement) {
    case Arrangement::llm_only:
      return "llm-only";
    case Arrangement::nested:
      return "nested";
    case Arrangement::three_phase:
      return "three-phase";
  }
  throw InvalidInput("[schedule] arrangement out of range");
}

Base base_from_name(std::string_view text) {
  for (auto base : {Base::one_f_one_b, Base::interleaved})
    if (text == name(base)) return base;
  throw InvalidInput(unknown_name("base schedule", text, {"1f1b", "interleaved"}));
}

Arrangement arrangement_from_name(std::string_view text) {
  for (auto arrangement : {Arrangement::llm_only, Arrangement::nested, Arrangement::three_phase})
    if (text == name(arrangement)) return arrangement;
  throw InvalidInput(unknown_name("schedule", text, {"llm-only", "nested", "three-phase"}));
}

void check_counts(const Step& step) {
  check_count("ranks (P)", step.ranks);
  check_count("chunks (V)", step.chunks);
  check_count("microbatches (M)", step.microbatches);
  // Bounded factors first, so that the product cannot overflow.
  int64_t limit = kMostOperators / 2;
  if (step.ranks > limit / step.chunks || step.stages() > limit / step.microbatches)
    throw InvalidInput(concat("[schedule] P=", step.ranks, " V=", step.chunks, " M=", step.microbatches,
                              " make more than ", kMostOperators, " operators; take fewer microbatches"));
  if (step.chunks > UINT16_MAX)
    throw InvalidInput(concat("[schedule] chunks (V) must be at most ", UINT16_MAX, ", got ", step.chunks));
}

void check_step(const Step& step) {
  check_counts(step);
  check_flags("encoder", step.encoder, step.microbatches);
  check_flags("generator", step.generator, step.microbatches);

  bool nests = step.arrangement != Arrangement::llm_only && (step.has_encoder() || step.has_generator());
  auto shape = concat("P=", step.ranks, " V=", step.chunks, " M=", step.microbatches);
  if (step.base == Base::one_f_one_b) {
    if (step.chunks != 1)
      throw InvalidInput(
          concat("[1f1b] holds one chunk a rank, got ", shape, "; take V=1 or the base 'interleaved'"));
    if (step.group != 0)
      throw InvalidInput(concat("[1f1b] has no groups, got G=", step.group, " with ", shape,
                                "; leave the group size out or take the base 'interleaved'"));
  } else {
    if (step.chunks == 1)
      throw InvalidInput(concat("[interleaved] needs at least 2 chunks a rank, got ", shape,
                                "; take V=2 or more, or the base '1f1b'"));
    int64_t group = step.group_size();
    auto legal = [&](int64_t m, int64_t g) {
      return group_is_legal(step.ranks, m, g) && (!nests || (m % step.ranks == 0 && g % step.ranks == 0));
    };
    if (!legal(step.microbatches, group)) {
      // Some M of at least G is legal if the smallest is, and then one of any 2P in a row.
      std::string for_group = "none";
      if (group <= kMostOperators && legal(group, group))
        for_group = nearest_legal(step.microbatches, group, group + step.microbatches + 2 * step.ranks,
                                  [&](int64_t m) { return legal(m, group); });
      auto for_count = nearest_legal(group, step.ranks, step.microbatches,
                                     [&](int64_t g) { return legal(step.microbatches, g); });
      throw InvalidInput(concat(nests ? "[nest] " : "[interleaved] ", shape, " G=", group,
                                " is not legal: P <= G <= M, and M mod G must be 0 or at least P",
                                nests ? "; nested, M and G must be multiples of P" : "",
                                ". Nearest legal M for this G: ", for_group,
                                "; nearest legal G for this M: ", for_count));
    }
  }

  if (!nests) return;
  if (step.microbatches % step.ranks != 0) {
    auto nearest = nearest_legal(step.microbatches, step.ranks, step.microbatches + step.ranks,
                                 [&](int64_t m) { return m % step.ranks == 0; });
    throw InvalidInput(
        concat("[nest] M must be a multiple of P, got ", shape, "; nearest legal M: ", nearest));
  }
  if (step.has_encoder() && step.arrangement == Arrangement::nested && step.warmup_units < 1)
    throw InvalidInput(
        concat("[nest] encoder warm-up units (W) must be at least 1, got ", step.warmup_units));
}

Ids::Placed Ids::at(int64_t id) const {
  auto backbone = [&](int64_t index, auto make) {
    int64_t s = index / microbatches;
    return Placed{int(s % ranks), make(int(s / ranks), int(index % microbatches))};
  };
  if (id < backward) return backbone(id, backbone_forward);
  if (id < encoder) return backbone(id - backward, backbone_backward);
  int64_t m = (id - encoder) % microbatches;
  int rank = int(m % ranks);
  if (id >= generator) return {rank, generate(int(m))};
  return {rank, id < encoder + microbatches ? encoder_forward(int(m)) : encoder_backward(int(m))};
}

}  // namespace bigmac
