#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Strict reading of JSON whose form is known, without holding more of it than the value that comes next: a
// tree of rules says what may stand where, and what is done with it.
namespace bigmac::json {

class Value;
using Rule = std::shared_ptr<Value>;

// A number without fraction or exponent; a finite number; true or false; a string.
Rule whole(int64_t least, int64_t most, std::function<void(int64_t)> take);
Rule number(std::function<void(double)> take);
Rule boolean(std::function<void(bool)> take);
Rule text(std::function<void(const std::string&)> take);

struct Field {
  std::string key;
  Rule rule;
  bool required = true;
};
// Keys in any order, each once; no others.
Rule object(std::vector<Field> fields, std::function<void()> begin = {}, std::function<void()> end = {});
Rule array(Rule element, std::function<void()> begin = {}, std::function<void()> end = {});

// Where a text comes from, for errors.
struct Source {
  std::string name;        // "[json] table.json"
  int64_t first_line = 1;  // of the text in its file
  int64_t margin = 0;      // bytes in front of each of its lines there
};

// Throws InvalidInput: "[json] table.json:3:17: ..." for what is no JSON, and for what is not as the rules
// say
// "[json] table.json: /rows/3/17/chunk: must be a whole number from 0 to 65535, got 'x'". What an action of a
// rule throws as InvalidInput gets such a place too.
void read(std::string_view text, const Rule& rule, const Source& source);

// As a JSON string, in quotes. Throws InvalidInput where the text is no UTF-8.
std::string quoted(const std::string& text);

}  // namespace bigmac::json
