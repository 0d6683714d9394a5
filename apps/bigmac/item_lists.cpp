#include "apps/bigmac/item_lists.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "bigmac/command/arguments.h"
#include "bigmac/common/read_file.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac {
namespace {

constexpr std::string_view kRandom = "random:";
constexpr std::string_view kHeader = "microbatch,size";
constexpr double kMostMean = 1e6, kMostSigma = 10, kMostSize = 1e12;

struct RandomItems {
  double mean = 0;
  double sigma = 0;
  double empty = 0;
};

RandomItems parse_random(const std::string& text) {
  auto numbers = parse_numbers(std::string_view(text).substr(kRandom.size()));
  bool parsed = numbers.size() == 2 || numbers.size() == 3;
  numbers.resize(3, 0);
  RandomItems items{numbers[0], numbers[1], numbers[2]};
  auto within = [](double value, double least, double most) { return value >= least && value <= most; };
  if (!parsed || !within(items.mean, 1, kMostMean) || !within(items.sigma, 0, kMostSigma) ||
      !within(items.empty, 0, 1) || items.empty == 1)
    throw must_be("--items",
                  concat("random:MEAN,SIGMA[,EMPTY] with MEAN from 1 to ", kMostMean, ", SIGMA from 0 to ",
                         kMostSigma, " and EMPTY from 0 to less than 1, such as random:8,1,0.5"),
                  text);
  return items;
}

void check_total(double items) {
  if (items > double(kMostItems))
    throw InvalidInput(concat("--items makes some ", items, " items of a module, more than ", kMostItems,
                              "; take fewer items or microbatches"));
}

std::vector<Item> equal_items(int64_t count, int64_t microbatches) {
  check_total(double(count) * double(microbatches));
  std::vector<Item> items;
  items.reserve(size_t(count * microbatches));
  for (int64_t m = 0; m < microbatches; ++m)
    items.insert(items.end(), size_t(count), {uint32_t(m), 1.0 / double(count)});
  return items;
}

std::vector<Item> random_items(const RandomItems& wanted, int64_t microbatches, uint64_t seed) {
  check_total(wanted.mean * (1 - wanted.empty) * double(microbatches));
  std::mt19937_64 random(seed);
  std::vector<uint8_t> is_empty(size_t(microbatches), 0);
  auto empty =
      std::min(std::llround(wanted.empty * double(microbatches)), static_cast<long long>(microbatches - 1));
  std::fill_n(is_empty.begin(), empty, 1);
  std::shuffle(is_empty.begin(), is_empty.end(), random);
  std::normal_distribution<double> normal;
  std::vector<Item> items;
  double total = 0;
  for (int64_t m = 0; m < microbatches; ++m) {
    if (is_empty[m]) continue;
    int64_t count = 1;
    if (wanted.mean > 1) count += std::poisson_distribution<int64_t>(wanted.mean - 1)(random);
    for (int64_t i = 0; i < count; ++i) {
      items.push_back({uint32_t(m), std::exp(wanted.sigma * normal(random))});
      total += items.back().size;
    }
  }
  for (auto& item : items) item.size *= double(microbatches) / total;
  return items;
}

// Where in a file something is wrong.
struct Place {
  const char* what;
  const std::string& file;
  int64_t line = 0;

  template <class... Parts>
  InvalidInput wrong(const Parts&... parts) const {
    return InvalidInput(concat("[", what, "] ", file, ":", line, ": ", parts...));
  }
};

uint32_t parse_microbatch(std::string_view text, int64_t microbatches, const Place& place) {
  int64_t m = 0;
  if (!parse_whole(text, m) || m < 0 || m >= microbatches)
    throw place.wrong("a microbatch must be a whole number from 0 to ", microbatches - 1, ", got ",
                      in_quotes(text));
  return uint32_t(m);
}

Item parse_item(std::string_view line, int64_t microbatches, const Place& place) {
  auto comma = line.find(',');
  if (comma == line.npos || line.find(',', comma + 1) != line.npos)
    throw place.wrong(in_quotes(line), " must be a microbatch, a comma and a size, such as 3,0.25");
  Item item{parse_microbatch(line.substr(0, comma), microbatches, place), 0};
  auto size = line.substr(comma + 1);
  if (!parse_number(size, item.size) || !(item.size > 0) || item.size > kMostSize)
    throw place.wrong("a size must be a number above 0, at most ", kMostSize, ", got ", in_quotes(size));
  return item;
}

}  // namespace

std::vector<Item> parse_items(std::string_view text, const std::string& file, int64_t microbatches) {
  std::vector<Item> items;
  Place place{"items", file};
  do {
    auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (++place.line == 1) {
      if (line != kHeader) throw place.wrong("the first line must be '", kHeader, "', got ", in_quotes(line));
      continue;
    }
    if (int64_t(items.size()) == kMostItems) throw place.wrong("there are more than ", kMostItems, " items");
    items.push_back(parse_item(line, microbatches, place));
  } while (!text.empty());
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.microbatch < b.microbatch; });
  return items;
}

std::vector<uint32_t> parse_order(std::string_view text, const std::string& file, int64_t microbatches) {
  constexpr std::string_view kBetween = " \t\r\n,";
  std::vector<uint32_t> order;
  std::vector<int64_t> line_of(size_t(microbatches), 0);
  Place place{"order", file, 1};
  for (size_t at = 0; at < text.size();) {
    if (kBetween.find(text[at]) != kBetween.npos) {
      place.line += text[at++] == '\n';
      continue;
    }
    auto end = std::min(text.find_first_of(kBetween, at), text.size());
    uint32_t m = parse_microbatch(text.substr(at, end - at), microbatches, place);
    at = end;
    if (line_of[m] > 0) throw place.wrong("microbatch ", m, " stands twice, first in line ", line_of[m]);
    line_of[m] = place.line;
    order.push_back(m);
  }
  auto missing = std::find(line_of.begin(), line_of.end(), 0);
  if (missing != line_of.end())
    throw place.wrong("the file has ", order.size(), " microbatches, the step has ", microbatches,
                      "; microbatch ", missing - line_of.begin(), " is missing");
  return order;
}

bool is_random_items(std::string_view text) {
  return text.starts_with(kRandom);
}

std::vector<Item> make_items(const std::string& text, int64_t microbatches, uint64_t seed) {
  int64_t count = 0;
  bool is_count = parse_whole(text, count) || text.find_first_not_of("0123456789") == text.npos;
  if (is_count && !text.empty()) {
    if (count < 1 || count > kMostItems)
      throw must_be("--items", concat("1 to ", kMostItems, " a microbatch"), text);
    return equal_items(count, microbatches);
  }
  if (is_random_items(text)) return random_items(parse_random(text), microbatches, seed);
  std::string contents;
  try {
    contents = read_file(text, kMostListBytes);
  } catch (const InvalidInput& error) {
    throw InvalidInput(concat("--items must be N, random:MEAN,SIGMA[,EMPTY] or a file: ", error.what()));
  }
  return parse_items(contents, text, microbatches);
}

}  // namespace bigmac
