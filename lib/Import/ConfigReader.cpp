#include "ConfigReader.h"

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;
using nlohmann::json;

namespace {

/// Nothing in a configuration nests as deep as this.
constexpr size_t kDeepest = 64;

/// The text's characters, with a note of how far the parser has read: its
/// events have no places of their own.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  const char *at;
  const char **read;

  reference operator*() const { return *at; }
  Cursor &operator++() {
    *read = ++at;
    return *this;
  }
  Cursor operator++(int) {
    Cursor old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Cursor &other) const { return at == other.at; }
  bool operator!=(const Cursor &other) const { return at != other.at; }
};

/// A value as messages show it: on one line, and short.
std::string show(const json &value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true,
                                json::error_handler_t::replace);
  if (text.size() > 60)
    text = text.substr(0, 57) + "...";
  return text;
}

/// Finds what a parsed value no longer tells: places, keys given twice, and
/// what is wrong with the syntax.
struct Scan : nlohmann::json_sax<json> {
  const char *begin;
  const char *read;
  /// Keys of the outermost object with their offsets.
  std::vector<std::pair<std::string, size_t>> keys;
  /// Keys seen in each open object; an array has an empty set.
  std::vector<llvm::StringSet<>> open;
  std::string message;
  size_t messageOffset = 0;

  explicit Scan(StringRef text) : begin(text.begin()), read(text.begin()) {}

  bool fail(std::string text, size_t offset) {
    message = std::move(text);
    messageOffset = offset;
    return false;
  }
  size_t offset() const { return read > begin ? read - begin - 1 : 0; }
  bool enter() {
    if (open.size() == kDeepest)
      return fail("nested deeper than " + std::to_string(kDeepest) + " levels",
                  offset());
    open.emplace_back();
    return true;
  }
  bool leave() {
    open.pop_back();
    return true;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string &) override {
    return true;
  }
  bool string(std::string &) override { return true; }
  bool binary(json::binary_t &) override { return true; }
  bool start_object(size_t) override { return enter(); }
  bool start_array(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(std::string &name) override {
    // The parser has just read the closing quote; the opening one is the last
    // that no odd run of backslashes escapes.
    size_t at = offset();
    auto escaped = [&](size_t quote) {
      size_t slashes = 0;
      while (slashes < quote && begin[quote - slashes - 1] == '\\')
        ++slashes;
      return slashes % 2 == 1;
    };
    do
      --at;
    while (begin[at] != '"' || escaped(at));
    if (!open.back().insert(name).second)
      return fail("key " + show(name) + " is given twice", at);
    if (open.size() == 1)
      keys.emplace_back(name, at);
    return true;
  }

  bool parse_error(size_t, const std::string &,
                   const json::exception &exception) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    StringRef what = exception.what();
    what = what.substr(what.find("] ") + 2);
    if (what.starts_with("parse error at"))
      what = what.substr(what.find(": ") + 2);
    return fail(("not JSON: " + what.take_front(200)).str(), offset());
  }
};

} // namespace

LogicalResult ConfigReader::parse(StringRef input) {
  text = input;
  Scan scan(text);
  Cursor begin{text.begin(), &scan.read}, end{text.end(), &scan.read};
  if (!json::sax_parse(begin, end, &scan)) {
    errors = true;
    return emitError(locationAt(scan.messageOffset)) << scan.message;
  }
  object = json::parse(text.begin(), text.end(), nullptr,
                       /*allow_exceptions=*/false);
  if (!object.is_object())
    return error() << "expected a JSON object";
  for (auto &[name, offset] : scan.keys) {
    indices[name] = keys.size();
    keys.push_back({name, offset});
  }
  return success();
}

Location ConfigReader::locationAt(size_t offset) const {
  StringRef before = text.take_front(offset);
  size_t line = before.count('\n') + 1;
  size_t column = offset - (before.rfind('\n') + 1) + 1;
  return FileLineColLoc::get(context, file, line, column);
}

Location ConfigReader::locationOf(StringRef key) const {
  auto it = indices.find(key);
  return locationAt(it == indices.end() ? 0 : keys[it->second].offset);
}

InFlightDiagnostic ConfigReader::error(StringRef key) {
  errors = true;
  return emitError(locationOf(key));
}

void ConfigReader::wrongType(StringRef key, StringRef expected,
                             const json *value) {
  if (value)
    error(key) << "'" << key << "' must be " << expected << ", but is "
               << show(*value);
  else
    error(key) << "'" << key << "' is missing; it must be " << expected;
}

const json *ConfigReader::find(StringRef key) {
  auto it = indices.find(key);
  if (it == indices.end())
    return nullptr;
  keys[it->second].known = true;
  const json &value = object.at(key.str());
  return value.is_null() ? nullptr : &value;
}

bool ConfigReader::isNull(StringRef key) {
  return !find(key) && indices.contains(key);
}

int64_t ConfigReader::size(StringRef key, std::optional<int64_t> fallback) {
  const json *value = find(key);
  if (!value && fallback)
    return *fallback;
  if (value && value->is_number_unsigned() &&
      value->get<uint64_t>() - 1 < static_cast<uint64_t>(kLargestSize))
    return value->get<int64_t>();
  wrongType(key, "an integer from 1 to " + std::to_string(kLargestSize), value);
  return 1;
}

double ConfigReader::positive(StringRef key, std::optional<double> fallback) {
  const json *value = find(key);
  if (!value && fallback)
    return *fallback;
  if (value && value->is_number() && value->get<double>() > 0 &&
      std::isfinite(value->get<double>()))
    return value->get<double>();
  wrongType(key, "a number larger than 0", value);
  return 1;
}

bool ConfigReader::boolean(StringRef key, bool fallback) {
  const json *value = find(key);
  if (!value)
    return fallback;
  if (value->is_boolean())
    return value->get<bool>();
  wrongType(key, "true or false", value);
  return fallback;
}

std::string ConfigReader::string(StringRef key, StringRef fallback) {
  const json *value = find(key);
  if (!value)
    return fallback.str();
  if (value->is_string())
    return value->get<std::string>();
  wrongType(key, "a string", value);
  return fallback.str();
}

void ConfigReader::require(StringRef key, const json &expected, StringRef why) {
  const json *value = find(key);
  if (value && *value != expected)
    error(key) << "'" << key << "' must be " << show(expected) << ", but is "
               << show(*value) << ": " << why;
}

void ConfigReader::warnUnknown() {
  for (const Key &key : keys)
    if (!key.known)
      emitWarning(locationAt(key.offset))
          << "unknown key " << show(key.name) << " is ignored";
}
