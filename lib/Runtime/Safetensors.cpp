//===- Safetensors.cpp - Tensors in .safetensors files --------------------===//

#include "moe/Runtime/Safetensors.h"
#include "Ranks.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <tuple>
#include <unistd.h>

using namespace moert;
using nlohmann::json;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "The data is copied as it is: little endian.");

namespace {

/// The format's own limit; it also bounds what a corrupt length can allocate.
constexpr uint64_t maxHeaderBytes = 100'000'000;
constexpr const char *metadataKey = "__metadata__";

/// Where one tensor lies, as the header says.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

/// Carries the reason to the public functions, which add the path.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(const std::string &name, const std::string &reason) {
  throw Failure("tensor '" + name + "': " + reason);
}

/// Elements of the shape; false on a negative size or overflow.
bool countElements(const std::vector<int64_t> &shape, uint64_t &count) {
  count = 1;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, uint64_t(size), &count))
      return false;
  return true;
}

/// Bytes of an element, 0 if the dtype is not read here.
uint64_t elementBytes(const std::string &dtype) {
  if (dtype == "I64")
    return 8;
  if (dtype == "F32" || dtype == "I32")
    return 4;
  return dtype == "BF16" || dtype == "F16" ? 2 : 0;
}

Entry parseEntry(const std::string &name, const json &fields) {
  auto isCount = [](const json &value) { return value.is_number_unsigned(); };
  auto isCounts = [&](const json &value) {
    return value.is_array() && std::all_of(value.begin(), value.end(), isCount);
  };
  for (const char *key : {"dtype", "shape", "data_offsets"})
    if (!fields.contains(key))
      fail(name, std::string("has no '") + key + "'");
  const json &shape = fields["shape"], &offsets = fields["data_offsets"];
  if (!fields["dtype"].is_string())
    fail(name, "'dtype' is not a string");
  if (!isCounts(shape))
    fail(name, "'shape' is not a list of sizes");
  if (!isCounts(offsets) || offsets.size() != 2)
    fail(name, "'data_offsets' is not a pair of offsets");

  Entry entry{name, fields["dtype"], shape, offsets[0], offsets[1]};
  uint64_t bytes = elementBytes(entry.dtype), count;
  if (!bytes)
    fail(name, "dtype " + entry.dtype + " is not supported");
  if (!countElements(entry.shape, count) ||
      __builtin_mul_overflow(count, bytes, &bytes))
    fail(name, "the shape is too large");
  if (entry.end < entry.begin || entry.end - entry.begin != bytes)
    fail(name, "the shape takes " + std::to_string(bytes) +
                   " bytes, but the offsets are [" +
                   std::to_string(entry.begin) + ", " +
                   std::to_string(entry.end) + ")");
  return entry;
}

/// The entries of the header's JSON, each taken out as it is parsed: of a name
/// that occurs twice the object would keep the last, and the parser looks
/// through all members so far at the end of each.
std::vector<Entry> parseHeader(const std::string &text) {
  std::vector<Entry> entries;
  std::set<std::string> names;
  std::string name;
  auto take = [&](int depth, json::parse_event_t event, json &value) {
    if (depth != 1)
      return true;
    if (event == json::parse_event_t::key) {
      name = value.get<std::string>();
      if (!names.insert(name).second)
        fail(name, "occurs twice");
    } else if (event == json::parse_event_t::object_end && !names.empty()) {
      if (name != metadataKey)
        entries.push_back(parseEntry(name, value));
      return false;
    }
    return true;
  };
  json rest;
  try {
    rest = json::parse(text, take);
  } catch (const json::exception &exception) {
    throw Failure(std::string("the header is not JSON: ") + exception.what());
  }
  if (!rest.is_object())
    throw Failure("the header is not a JSON object");
  for (const auto &[other, value] : rest.items())
    if (other != metadataKey)
      fail(other, "is not described by an object");
  return entries;
}

/// Checks that the entries, in order, tile the data exactly.
void checkTiling(const std::vector<Entry> &entries, uint64_t dataBytes) {
  uint64_t position = 0;
  for (const Entry &entry : entries) {
    if (entry.end > dataBytes)
      fail(entry.name, "ends at byte " + std::to_string(entry.end) + " of " +
                           std::to_string(dataBytes) + " bytes of data");
    if (entry.begin < position)
      fail(entry.name, "overlaps the tensor before it");
    if (entry.begin > position)
      fail(entry.name, "bytes before it belong to no tensor");
    position = entry.end;
  }
  if (position != dataBytes)
    throw Failure("the data has " + std::to_string(dataBytes) +
                  " bytes, but the tensors end at byte " +
                  std::to_string(position));
}

/// Reads and checks the header; leaves the file at the start of the data.
std::vector<Entry> readEntries(std::ifstream &file) {
  file.seekg(0, std::ios::end);
  std::streamoff size = file.tellg();
  file.seekg(0);
  if (!file || size < 0)
    throw Failure("cannot be read");
  uint64_t fileBytes = size, headerBytes;
  if (fileBytes < sizeof(headerBytes))
    throw Failure("is too short for the length of a header");
  if (!file.read(reinterpret_cast<char *>(&headerBytes), sizeof(headerBytes)))
    throw Failure("cannot be read");
  fileBytes -= sizeof(headerBytes);
  if (headerBytes > fileBytes)
    throw Failure("the header of " + std::to_string(headerBytes) +
                  " bytes exceeds the file");
  if (headerBytes > maxHeaderBytes)
    throw Failure("the header of " + std::to_string(headerBytes) +
                  " bytes is too large");
  std::string text(headerBytes, '\0');
  if (!file.read(text.data(), headerBytes))
    throw Failure("cannot be read");

  std::vector<Entry> entries = parseHeader(text);
  // Ends break ties, so that an empty tensor comes before what follows it.
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  checkTiling(entries, fileBytes - headerBytes);
  return entries;
}

template <typename T>
std::vector<T> readElements(std::ifstream &file, const Entry &entry) {
  std::vector<T> elements((entry.end - entry.begin) / sizeof(T));
  if (!file.read(reinterpret_cast<char *>(elements.data()),
                 entry.end - entry.begin))
    fail(entry.name, "cannot be read");
  return elements;
}

float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

float fromHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0x1f) // Infinity or NaN.
    return fromBits(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) // Zero or subnormal: fraction * 2^-24.
    return std::copysign(std::ldexp(float(fraction), -24), fromBits(sign));
  return fromBits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

void readValues(std::ifstream &file, const Entry &entry,
                std::vector<float> &values) {
  if (entry.dtype == "F32") {
    values = readElements<float>(file, entry);
    return;
  }
  auto convert = entry.dtype == "BF16"  ? fromBfloat16
                 : entry.dtype == "F16" ? fromHalf
                                        : nullptr;
  if (!convert)
    fail(entry.name, "is " + entry.dtype + ", not of real numbers");
  std::vector<uint16_t> bits = readElements<uint16_t>(file, entry);
  values.resize(bits.size());
  std::transform(bits.begin(), bits.end(), values.begin(), convert);
}

void readValues(std::ifstream &file, const Entry &entry,
                std::vector<int64_t> &values) {
  if (entry.dtype == "I64") {
    values = readElements<int64_t>(file, entry);
  } else if (entry.dtype == "I32") {
    std::vector<int32_t> narrow = readElements<int32_t>(file, entry);
    values.assign(narrow.begin(), narrow.end());
  } else {
    fail(entry.name, "is " + entry.dtype + ", not of integers");
  }
}

/// Runs `body`, which may throw a Failure.
template <typename F>
bool attempt(const std::string &path, std::string &error, F body) {
  try {
    body();
    return true;
  } catch (const Failure &failure) {
    error = path + ": " + failure.what();
    return false;
  }
}

/// What `check` or `take` says ends the reading.
void expectNothing(const std::string &problem) {
  if (!problem.empty())
    throw Failure(problem);
}

template <typename Tensor, typename Check, typename Take>
void readFile(const std::string &path, Check check, Take take) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Failure(std::strerror(errno));
  std::vector<Entry> entries = readEntries(file);
  std::vector<Tensor> tensors;
  for (const Entry &entry : entries)
    tensors.push_back({entry.name, entry.shape, {}});
  expectNothing(check(tensors));
  for (size_t i = 0; i < entries.size(); ++i) {
    readValues(file, entries[i], tensors[i].values);
    expectNothing(take(std::move(tensors[i])));
  }
}

template <typename Tensor>
bool readAll(const std::string &path, std::vector<Tensor> &tensors,
             std::string &error) {
  return attempt(path, error, [&] {
    std::vector<Tensor> result;
    readFile<Tensor>(
        path, [](const std::vector<Tensor> &) { return std::string(); },
        [&](Tensor &&tensor) {
          result.push_back(std::move(tensor));
          return std::string();
        });
    tensors = std::move(result);
  });
}

[[noreturn]] void failToFill(const NamedTensor &tensor, size_t values) {
  fail(tensor.name, "has " + std::to_string(values) +
                        " values, which do not fill its shape");
}

std::string makeHeader(const std::vector<NamedTensor> &tensors) {
  // Readers of checkpoints ask for the framework whose layout the data has.
  json header = {{metadataKey, {{"format", "pt"}}}};
  uint64_t position = 0;
  for (const NamedTensor &tensor : tensors) {
    uint64_t count;
    if (tensor.name == metadataKey)
      fail(tensor.name, "the name is reserved");
    if (header.contains(tensor.name))
      fail(tensor.name, "occurs twice");
    if (!countElements(tensor.shape, count))
      fail(tensor.name, "the shape is too large");
    uint64_t end = position + count * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {position, end}}};
    position = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception &exception) {
    throw Failure(std::string("a name cannot be written: ") + exception.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' '); // Aligns the data.
  if (text.size() > maxHeaderBytes)
    throw Failure("the header is too large");
  return text;
}

/// A file under another name until all of it is written.
class NewFile {
public:
  explicit NewFile(const std::string &path)
      : path(path), temporary(path + "." + std::to_string(getpid()) + ".tmp") {
    std::error_code ignored;
    // A device would be replaced by the file.
    if (std::filesystem::exists(path, ignored) &&
        !std::filesystem::is_regular_file(path, ignored))
      throw Failure("is there and is no file");
    file.open(temporary, std::ios::binary);
    if (!file)
      throw Failure(std::strerror(errno));
  }
  ~NewFile() {
    if (!done)
      std::remove(temporary.c_str());
  }

  void write(const void *data, size_t bytes) {
    file.write(static_cast<const char *>(data), bytes);
  }
  void finish() {
    file.close();
    done = file && std::rename(temporary.c_str(), path.c_str()) == 0;
    if (!done)
      throw Failure(std::string("cannot be written: ") + std::strerror(errno));
  }

private:
  std::string path, temporary;
  std::ofstream file;
  bool done = false;
};

void writeFile(const std::string &path, const std::vector<NamedTensor> &tensors,
               const std::function<std::vector<float>(size_t)> &values) {
  std::string header = makeHeader(tensors);
  NewFile file(path);
  uint64_t headerBytes = header.size();
  file.write(&headerBytes, sizeof(headerBytes));
  file.write(header.data(), header.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<float> data = values(i);
    uint64_t count = 0;
    countElements(tensors[i].shape, count);
    if (data.size() != count)
      failToFill(tensors[i], data.size());
    file.write(data.data(), data.size() * sizeof(float));
  }
  file.finish();
}

} // namespace

bool moert::readSafetensors(const std::string &path,
                            std::vector<NamedTensor> &tensors,
                            std::string &error) {
  return readAll(path, tensors, error);
}

bool moert::readSafetensors(const std::string &path,
                            std::vector<NamedIntegers> &tensors,
                            std::string &error) {
  return readAll(path, tensors, error);
}

bool moert::readSafetensors(
    const std::string &path,
    const std::function<std::string(const std::vector<NamedTensor> &)> &check,
    const std::function<std::string(const NamedTensor &)> &take,
    std::string &error) {
  return attempt(path, error,
                 [&] { readFile<NamedTensor>(path, check, take); });
}

bool moert::writeSafetensors(const std::string &path,
                             const std::vector<NamedTensor> &tensors,
                             std::string &error) {
  return attempt(path, error, [&] {
    // Before anything is written.
    for (const NamedTensor &tensor : tensors) {
      uint64_t count;
      if (!countElements(tensor.shape, count) || count != tensor.values.size())
        failToFill(tensor, tensor.values.size());
    }
    writeFile(path, tensors, [&](size_t i) { return tensors[i].values; });
  });
}

bool moert::writeSafetensors(
    const std::string &path, const std::vector<NamedTensor> &tensors,
    const std::function<std::vector<float>(size_t)> &values,
    std::string &error) {
  return attempt(path, error, [&] { writeFile(path, tensors, values); });
}
