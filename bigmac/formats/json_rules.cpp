#include "bigmac/formats/json_rules.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac::json {

// Takes one value of the text, or one after the other. What it cannot take is an error.
class Value {
 public:
  explicit Value(std::string legal) : legal_(std::move(legal)) {}
  virtual ~Value() = default;

  virtual void null() { refuse("null"); }
  virtual void boolean(bool value) { refuse(value ? "true" : "false"); }
  virtual void whole(int64_t value) { refuse(std::to_string(value)); }
  // `written` as it stands in the text.
  virtual void real(double value, const std::string& written) { refuse(written); }
  virtual void text(const std::string& value) { refuse(in_quotes(value)); }
  virtual void begin_object() { refuse("an object"); }
  virtual void begin_array() { refuse("an array"); }

  // Of an object or array that has begun.
  virtual Value& at(const std::string& key) { return *this; }
  virtual Value& element() { return *this; }
  virtual void end() {}

 protected:
  [[noreturn]] void refuse(std::string_view found) const {
    throw InvalidInput(concat("must be ", legal_, ", got ", found.substr(0, 60)));
  }

 private:
  std::string legal_;
};

namespace {

class Whole : public Value {
 public:
  Whole(int64_t least, int64_t most, std::function<void(int64_t)> take)
      : Value(concat("a whole number from ", least, " to ", most)),
        least_(least),
        most_(most),
        take_(std::move(take)) {}
  void whole(int64_t value) override {
    if (value < least_ || value > most_) refuse(std::to_string(value));
    take_(value);
  }

 private:
  int64_t least_, most_;
  std::function<void(int64_t)> take_;
};

class Number : public Value {
 public:
  explicit Number(std::function<void(double)> take) : Value("a number"), take_(std::move(take)) {}
  void whole(int64_t value) override { take_(double(value)); }
  void real(double value, const std::string&) override { take_(value); }

 private:
  std::function<void(double)> take_;
};

class Boolean : public Value {
 public:
  explicit Boolean(std::function<void(bool)> take) : Value("true or false"), take_(std::move(take)) {}
  void boolean(bool value) override { take_(value); }

 private:
  std::function<void(bool)> take_;
};

class Text : public Value {
 public:
  explicit Text(std::function<void(const std::string&)> take) : Value("a string"), take_(std::move(take)) {}
  void text(const std::string& value) override { take_(value); }

 private:
  std::function<void(const std::string&)> take_;
};

class Object : public Value {
 public:
  Object(std::vector<Field> fields, std::function<void()> begin, std::function<void()> end)
      : Value("an object"),
        fields_(std::move(fields)),
        seen_(fields_.size()),
        begin_(std::move(begin)),
        end_(std::move(end)) {}

  void begin_object() override {
    std::fill(seen_.begin(), seen_.end(), 0);
    if (begin_) begin_();
  }
  Value& at(const std::string& key) override {
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].key != key) continue;
      if (seen_[i]) throw InvalidInput(concat("has the key '", key, "' twice"));
      seen_[i] = 1;
      return *fields_[i].rule;
    }
    std::vector<std::string> known;
    for (const auto& field : fields_) known.push_back(field.key);
    throw InvalidInput(unknown_name("key", escaped(key), known));
  }
  void end() override {
    for (size_t i = 0; i < fields_.size(); ++i)
      if (fields_[i].required && !seen_[i])
        throw InvalidInput(concat("lacks the key '", fields_[i].key, "'"));
    if (end_) end_();
  }

 private:
  std::vector<Field> fields_;
  std::vector<uint8_t> seen_;
  std::function<void()> begin_, end_;
};

class Array : public Value {
 public:
  Array(Rule element, std::function<void()> begin, std::function<void()> end)
      : Value("an array"), element_(std::move(element)), begin_(std::move(begin)), end_(std::move(end)) {}

  void begin_array() override {
    if (begin_) begin_();
  }
  Value& element() override { return *element_; }
  void end() override {
    if (end_) end_();
  }

 private:
  Rule element_;
  std::function<void()> begin_, end_;
};

// nlohmann's parser calls this for every token.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Reader(std::string_view text, Value& root, const Source& source)
      : text_(text), root_(root), source_(source) {}

  bool null() override {
    return take([](Value& value) { value.null(); });
  }
  bool boolean(bool found) override {
    return take([&](Value& value) { value.boolean(found); });
  }
  bool number_integer(int64_t found) override {
    return take([&](Value& value) { value.whole(found); });
  }
  bool number_unsigned(uint64_t found) override {
    if (found > uint64_t(INT64_MAX)) return number_float(double(found), std::to_string(found));
    return number_integer(int64_t(found));
  }
  bool number_float(double found, const std::string& written) override {
    return take([&](Value& value) { value.real(found, written); });
  }
  bool string(std::string& found) override {
    return take([&](Value& value) { value.text(found); });
  }
  bool binary(nlohmann::json::binary_t&) override { return false; }

  bool start_object(size_t) override {
    return open([](Value& value) { value.begin_object(); }, true);
  }
  bool start_array(size_t) override {
    return open([](Value& value) { value.begin_array(); }, false);
  }
  bool key(std::string& found) override {
    Level& level = levels_.back();
    level.key.clear();
    with_place([&] { level.next = &level.value->at(found); });
    level.key = found;
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::json::exception& error) override {
    constexpr int kNumberOverflow = 406;
    size_t at = std::min(position > 0 ? position - 1 : 0, text_.size());
    auto before = text_.substr(0, at);
    auto line = source_.first_line + std::count(before.begin(), before.end(), '\n');
    auto column = source_.margin + int64_t(at - (before.rfind('\n') + 1)) + 1;
    constexpr size_t kShown = 24;
    auto begin = std::max(before.rfind('\n') + 1, at < kShown ? 0 : at - kShown);
    std::string what = "is no JSON at the end of " + in_quotes(text_.substr(begin, at + 1 - begin));
    if (error.id == kNumberOverflow) what = "has too large a number: " + in_quotes(token);
    if (at == text_.size()) what = "the JSON ends too early";
    throw InvalidInput(concat(source_.name, ":", line, ":", column, ": ", what));
  }

 private:
  // An object or array that has begun, and where in it the text is.
  struct Level {
    Value* value;
    bool is_object;
    int64_t index = -1;
    std::string key;
    Value* next = nullptr;
  };

  Value& expected() {
    if (levels_.empty()) return root_;
    Level& level = levels_.back();
    if (level.is_object) return *level.next;
    ++level.index;
    return level.value->element();
  }

  template <class Take>
  bool take(Take&& into) {
    Value& value = expected();
    with_place([&] { into(value); });
    return true;
  }

  template <class Begin>
  bool open(Begin&& begin, bool is_object) {
    Value& value = expected();
    with_place([&] { begin(value); });
    levels_.push_back({&value, is_object, -1, {}, nullptr});
    return true;
  }

  bool close() {
    Value* value = levels_.back().value;
    levels_.pop_back();
    with_place([&] { value->end(); });
    return true;
  }

  template <class Action>
  void with_place(Action&& action) const {
    try {
      action();
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat(source_.name, ": ", pointer(), error.what()));
    }
  }

  std::string pointer() const {
    std::string path;
    for (const auto& level : levels_) {
      if (level.is_object && level.key.empty()) continue;
      if (!level.is_object && level.index < 0) continue;
      path += level.is_object ? concat("/", level.key) : concat("/", level.index);
    }
    return path.empty() ? path : path + ": ";
  }

  std::string_view text_;
  Value& root_;
  const Source& source_;
  std::vector<Level> levels_;
};

}  // namespace

Rule whole(int64_t least, int64_t most, std::function<void(int64_t)> take) {
  return std::make_shared<Whole>(least, most, std::move(take));
}
Rule number(std::function<void(double)> take) {
  return std::make_shared<Number>(std::move(take));
}
Rule boolean(std::function<void(bool)> take) {
  return std::make_shared<Boolean>(std::move(take));
}
Rule text(std::function<void(const std::string&)> take) {
  return std::make_shared<Text>(std::move(take));
}
Rule object(std::vector<Field> fields, std::function<void()> begin, std::function<void()> end) {
  return std::make_shared<Object>(std::move(fields), std::move(begin), std::move(end));
}
Rule array(Rule element, std::function<void()> begin, std::function<void()> end) {
  return std::make_shared<Array>(std::move(element), std::move(begin), std::move(end));
}

void read(std::string_view text, const Rule& rule, const Source& source) {
  Reader reader(text, *rule, source);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
}

std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw InvalidInput(concat("[json] ", in_quotes(text), " is not UTF-8"));
  }
}

}  // namespace bigmac::json
