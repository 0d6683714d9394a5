#include "bigmac/formats/table_header.h"

#include <algorithm>
#include <charconv>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac {
namespace {

constexpr int64_t kAlwaysRead = int64_t{1} << 16;
constexpr int64_t kMostCellsAnOperator = 16;

void append_number(std::string& text, double number) {
  char digits[32];  // the shortest that reads back as the same
  text.append(digits, std::to_chars(digits, std::end(digits), number).ptr);
}

template <class Number>
void append_list(std::string& text, const std::vector<Number>& numbers) {
  text += '[';
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += ',';
    bigmac::append_number(text, int64_t(numbers[i]));
  }
  text += ']';
}

void append_key(std::string& text, std::string_view key) {
  if (text.back() != '{') text += ',';
  text += '"';
  text += key;
  text += "\":";
}

void append_field(std::string& text, std::string_view key, int64_t number) {
  append_key(text, key);
  append_number(text, number);
}

void append_field(std::string& text, std::string_view key, std::string_view value) {
  append_key(text, key);
  text += json::quoted(std::string(value));
}

void append_module(std::string& text, const NestedModule& module) {
  text += '{';
  append_field(text, "name", module.name);
  append_field(text, "kind", name(module.kind));
  append_field(text, "warmup_units", module.warmup_units);
  if (!module.trained) {
    append_key(text, "trained");
    text += "false";
  }
  append_key(text, "items");
  text += '[';
  for (const auto& item : module.items) {
    if (text.back() == '}') text += ',';
    text += '{';
    append_field(text, "microbatch", int64_t(item.microbatch));
    append_key(text, "size");
    append_number(text, item.size);
    text += '}';
  }
  text += "]}";
}

void append_step(std::string& text, const Step& step) {
  text += "\"step\":{";
  append_field(text, "ranks", step.ranks);
  append_field(text, "chunks", step.chunks);
  append_field(text, "microbatches", step.microbatches);
  append_field(text, "base", name(step.base));
  append_field(text, "group", step.group);
  append_field(text, "schedule", name(step.arrangement));
  append_field(text, "generator_unit", step.generator_unit);
  append_key(text, "spread");
  text += step.spread ? "true" : "false";
  append_key(text, "order");
  append_list(text, step.order);
  append_key(text, "stage_ranks");
  append_list(text, step.stage_ranks);
  append_key(text, "modules");
  text += '[';
  for (size_t i = 0; i < step.modules.size(); ++i) {
    text += i > 0 ? ",\n" : "\n";
    append_module(text, step.modules[i]);
  }
  text += "]}";
}

json::Rule step_rule(Step& step) {
  auto count = [](int64_t& into, int64_t least) {
    return json::whole(least, kMostOperators, [&into](int64_t value) { into = value; });
  };
  auto item = json::object(
      {{"microbatch", json::whole(0, UINT32_MAX,
                                  [&step](int64_t value) {
                                    auto& items = step.modules.back().items;
                                    items.back().microbatch = uint32_t(value);
                                  })},
       {"size", json::number([&step](double value) { step.modules.back().items.back().size = value; })}},
      [&step] { step.modules.back().items.emplace_back(); });
  auto module = json::object(
      {{"name", json::text([&step](const std::string& value) { step.modules.back().name = value; })},
       {"kind", json::text([&step](const std::string& value) {
          if (value != "encoder" && value != "generator")
            throw InvalidInput(concat("must be 'encoder' or 'generator', got ", in_quotes(value)));
          step.modules.back().kind = module_from_name(value);
        })},
       {"warmup_units",
        json::whole(0, kMostOperators, [&step](int64_t value) { step.modules.back().warmup_units = value; })},
       {"trained", json::boolean([&step](bool value) { step.modules.back().trained = value; }), false},
       {"items", json::array(item)}},
      [&step] {
        if (int64_t(step.modules.size()) == kMostModules)
          throw InvalidInput(concat("the most is ", kMostModules, " modules"));
        step.modules.emplace_back();
      });
  return json::object(
      {{"ranks", count(step.ranks, 1)},
       {"chunks", count(step.chunks, 1)},
       {"microbatches", count(step.microbatches, 1)},
       {"base",
        json::text([&step](const std::string& value) { step.base = base_from_name(escaped(value)); })},
       {"group", count(step.group, 0)},
       {"schedule", json::text([&step](const std::string& value) {
          step.arrangement = arrangement_from_name(escaped(value));
        })},
       {"generator_unit", count(step.generator_unit, 0)},
       {"spread", json::boolean([&step](bool value) { step.spread = value; })},
       {"order", json::array(json::whole(0, UINT32_MAX,
                                         [&step](int64_t value) { step.order.push_back(uint32_t(value)); }))},
       {"stage_ranks",
        json::array(json::whole(0, INT32_MAX,
                                [&step](int64_t value) { step.stage_ranks.push_back(int32_t(value)); }))},
       {"modules", json::array(module)}});
}

}  // namespace

void append_number(std::string& text, int64_t number) {
  char digits[24];
  text.append(digits, std::to_chars(digits, std::end(digits), number).ptr);
}

std::string header_text(const Schedule& schedule) {
  std::string text;
  append_step(text, schedule.step);
  text += ",\n\"units\":[";
  for (const auto& unit : schedule.units) {
    text += text.back() == '[' ? "\n{" : ",\n{";
    append_field(text, "module", schedule.step.modules.at(size_t(unit.module)).name);
    append_field(text, "operator", letter(unit.phase));
    append_field(text, "unit", unit.index);
    append_key(text, "place");
    append_list(text, unit.place);
    text += '}';
  }
  return text + "]";
}

HeaderReader::HeaderReader() {
  auto unit = json::object(
      {{"module", json::text([this](const std::string& value) { unit_.module = module_number(value); })},
       {"operator", json::text([this](const std::string& value) { unit_.phase = phase_from_letter(value); })},
       {"unit", json::whole(0, kMostOperators, [this](int64_t value) { unit_.index = value; })},
       {"place", json::array(json::whole(0, kMostOperators,
                                         [this](int64_t value) { unit_.place.push_back(value); }))}},
      [this] { unit_ = {}; }, [this] { units_.push_back(std::move(unit_)); });
  fields_ = {{"step", step_rule(step_)}, {"units", json::array(unit)}};
}

int32_t HeaderReader::module_number(const std::string& name) {
  auto found = std::find(names_.rbegin(), names_.rend(), name);  // mostly the last
  if (found != names_.rend()) return int32_t(names_.rend() - found - 1);
  if (int64_t(names_.size()) == kMostModules)
    throw InvalidInput(concat("more than ", kMostModules, " modules are named"));
  names_.push_back(name);
  return int32_t(names_.size()) - 1;
}

std::vector<int32_t> HeaderReader::modules(const Step& step) const {
  std::vector<std::string> known;
  for (const auto& module : step.modules) known.push_back(module.name);
  std::vector<int32_t> modules;
  for (const auto& name : names_) {
    auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) throw InvalidInput(unknown_name("module", escaped(name), known));
    modules.push_back(int32_t(found - known.begin()));
  }
  return modules;
}

void HeaderReader::take(int64_t operators, Schedule& schedule) {
  check_step_fits(step_, operators);
  check_step(step_);
  auto module = modules(step_);
  for (auto& unit : units_) unit.module = module[size_t(unit.module)];
  schedule.step = std::move(step_);
  schedule.units = std::move(units_);
}

void check_step_fits(const Step& step, int64_t operators) {
  check_counts(step);
  int64_t stages = std::max(step.ranks * step.chunks, int64_t(step.stage_ranks.size()));
  int64_t most = kAlwaysRead + kMostCellsAnOperator * operators;
  if (stages > most || stages > most / step.microbatches)
    throw InvalidInput(concat("has ", operators, " operators, far fewer than a step of ", shape(step)));
}

Phase phase_from_letter(const std::string& text) {
  for (auto phase : {Phase::forward, Phase::backward, Phase::input, Phase::weight, Phase::generate})
    if (text == letter(phase)) return phase;
  throw InvalidInput(concat("must be one of F, B, I, W, G, got ", in_quotes(text)));
}

int64_t find_bad_overlap(const Schedule& schedule) {
  const auto& operators = schedule.operators;
  for (int64_t offset : schedule.overlapped) {
    if (offset < 0 || offset + 1 >= int64_t(operators.size())) return offset;
    const Operator& first = operators[size_t(offset)];
    const Operator& second = operators[size_t(offset) + 1];
    bool pair = first.module == Module::backbone && first.phase == Phase::forward &&
                second.module == Module::backbone && gives_input_gradient(second.phase);
    if (!pair || placement_of(schedule, offset).rank != placement_of(schedule, offset + 1).rank)
      return offset;
  }
  return -1;
}

Placement placement_of(const Schedule& schedule, int64_t offset) {
  const auto& begin = schedule.row_begin;
  auto row = std::upper_bound(begin.begin(), begin.end(), offset) - begin.begin() - 1;
  return {int(row), offset - begin[size_t(row)]};
}

}  // namespace bigmac
