//===- ConfigReader.h - A configuration's keys, checked -------------------===//
//
// Reads a JSON object key by key. Every message names the key and points at
// its line; a key that nobody asked for is a warning.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_IMPORT_CONFIGREADER_H
#define MOE_LIB_IMPORT_CONFIGREADER_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace mlir::moe {

/// Largest size that a configuration may name.
inline constexpr int64_t kLargestSize = 1 << 24;

class ConfigReader {
public:
  /// `file` is the name that messages show.
  ConfigReader(MLIRContext *context, StringRef file)
      : context(context), file(file) {}

  /// Parses one JSON object. Error, with its line, for wrong syntax, a key
  /// given twice, or nesting deeper than 64.
  LogicalResult parse(StringRef text);

  /// The value of a key, null if it is absent or JSON's null. Here and below,
  /// asking for a key makes it a known one.
  const nlohmann::json *find(StringRef key);
  /// Whether the key is there, with the value null.
  bool isNull(StringRef key);

  /// Values of their type and in their range. Otherwise, or if the key is
  /// absent and has no fallback, an error, and a value that is safe to use.
  int64_t size(StringRef key, std::optional<int64_t> fallback = std::nullopt);
  /// Finite and larger than 0.
  double positive(StringRef key, std::optional<double> fallback = std::nullopt);
  bool boolean(StringRef key, bool fallback);
  std::string string(StringRef key, StringRef fallback);

  /// Error unless the key is absent, null or equal to `value`; `why` says what
  /// other values would need.
  void require(StringRef key, const nlohmann::json &value, StringRef why);

  /// A key that changes nothing here, whatever its value.
  void inert(StringRef key) { find(key); }

  /// A warning for each key that nobody asked for.
  void warnUnknown();

  /// An error at a key (or the file).
  InFlightDiagnostic error(StringRef key = "");
  bool hasErrors() const { return errors; }

private:
  Location locationOf(StringRef key) const;
  Location locationAt(size_t offset) const;
  void wrongType(StringRef key, StringRef expected,
                 const nlohmann::json *value);

  struct Key {
    std::string name;
    size_t offset;
    bool known = false;
  };
  MLIRContext *context;
  std::string file;
  StringRef text;
  nlohmann::json object;
  /// In the file's order.
  std::vector<Key> keys;
  llvm::StringMap<unsigned> indices;
  bool errors = false;
};

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_CONFIGREADER_H
