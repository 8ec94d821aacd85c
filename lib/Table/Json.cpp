//===- Json.cpp - The table as JSON ---------------------------------------===//
//
// Each struct lists its fields once; the reader and the writer share the list.
// Keys are the names of the fields, enumerations are strings.
//
//===----------------------------------------------------------------------===//

#include "moe/Table/Table.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

using namespace moert;

namespace {

using InJson = nlohmann::json;
using OutJson = nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

/// Spellings of an enumeration's values, in order.
template <typename T> struct Names;
template <> struct Names<ElementType> {
  static constexpr const char *all[] = {"f32", "bf16", "i32"};
};
template <> struct Names<Provider> {
  static constexpr const char *all[] = {"library", "generated"};
};
template <> struct Names<NumericClass> {
  static constexpr const char *all[] = {"non_deterministic", "deterministic",
                                        "row_invariant"};
};
template <> struct Names<Effect> {
  static constexpr const char *all[] = {"read", "write", "read_write"};
};
template <> struct Names<FrameKind> {
  static constexpr const char *all[] = {"weights",   "gradients", "saved",
                                        "temporary", "carried",   "host",
                                        "global"};
};
template <> struct Names<OpKind> {
  static constexpr const char *all[] = {"launch", "collective", "send", "recv",
                                        "host_read"};
};
template <> struct Names<CollectiveKind> {
  static constexpr const char *all[] = {"exchange_counts", "all_to_all",
                                        "all_reduce_sum",  "all_reduce_max",
                                        "reduce_scatter",  "all_gather"};
};

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

template <typename A> void fields(A &a, Stream &x) {
  a("name", x.name);
  a("priority", x.priority);
}

template <typename A> void fields(A &a, Communicator &x) {
  a("name", x.name);
  a("size", x.size);
  a("stride", x.stride);
  a("smBudget", x.smBudget);
}

template <typename A> void fields(A &a, Kernel &x) {
  a("name", x.name);
  a("op", x.op);
  a("provider", x.provider);
  a("numericClass", x.numericClass);
  a("effects", x.effects);
  a("attributes", x.attributes);
  a("flops", x.flops);
  a("bytes", x.bytes);
}

template <typename A> void fields(A &a, Frame &x) {
  a("name", x.name);
  a("kind", x.kind);
  a("bytes", x.bytes);
}

template <typename A> void fields(A &a, Operand &x) {
  a("frame", x.frame);
  a("offset", x.offset);
  a("type", x.type);
  a("shape", x.shape);
  a("effect", x.effect);
}

template <typename A> void fields(A &a, Wait &x) {
  a("isImport", x.isImport);
  a("index", x.index);
}

template <typename A> void fields(A &a, Op &x) {
  a("kind", x.kind);
  a("stream", x.stream);
  a("kernel", x.kernel);
  a("communicator", x.communicator);
  a("collective", x.collective);
  a("peer", x.peer);
  a("operands", x.operands);
  a("waits", x.waits);
  a("capture", x.capture);
  a("location", x.location);
  a("half", x.half);
  a("module", x.module);
  a("bytes", x.bytes);
}

template <typename A> void fields(A &a, Capture &x) { a("name", x.name); }

template <typename A> void fields(A &a, Template &x) {
  a("name", x.name);
  a("frames", x.frames);
  a("imports", x.imports);
  a("ops", x.ops);
  a("captures", x.captures);
}

template <typename A> void fields(A &a, EventRef &x) {
  a("call", x.call);
  a("op", x.op);
}

template <typename A> void fields(A &a, Call &x) {
  a("template", x.tmpl);
  a("bases", x.bases);
  a("imports", x.imports);
  a("layer", x.layer);
  a("backwardLayer", x.backwardLayer);
  a("microBatch", x.microBatch);
  a("backwardMicroBatch", x.backwardMicroBatch);
}

template <typename A> void fields(A &a, Parameter &x) {
  a("names", x.names);
  a("type", x.type);
  a("shape", x.shape);
  a("storedShape", x.storedShape);
  a("shardedOver", x.shardedOver);
  a("address", x.address);
  a("gradient", x.gradient);
  a("init", x.init);
}

template <typename A> void fields(A &a, Bucket &x) {
  a("name", x.name);
  a("communicator", x.communicator);
  a("elements", x.elements);
  a("weights", x.weights);
  a("gradients", x.gradients);
  a("master", x.master);
  a("moment1", x.moment1);
  a("moment2", x.moment2);
}

template <typename A> void fields(A &a, Program &x) {
  a("name", x.name);
  a("firstRank", x.firstRank);
  a("rankCount", x.rankCount);
  a("calls", x.calls);
  a("arenaBytes", x.arenaBytes);
  a("parameters", x.parameters);
  a("buckets", x.buckets);
  a("tokens", x.tokens);
  a("labels", x.labels);
  a("loss", x.loss);
  a("gradNorm", x.gradNorm);
  a("flag", x.flag);
  a("step", x.step);
}

template <typename A> void fields(A &a, Table &x) {
  a("version", x.version);
  a("model", x.model);
  a("target", x.target);
  a("ranks", x.ranks);
  a("microBatches", x.microBatches);
  a("microBatchSamples", x.microBatchSamples);
  a("sequence", x.sequence);
  a("dataParallel", x.dataParallel);
  a("vocabulary", x.vocabulary);
  a("initStd", x.initStd);
  a("memoryLimit", x.memoryLimit);
  a("streams", x.streams);
  a("communicators", x.communicators);
  a("kernels", x.kernels);
  a("templates", x.templates);
  a("programs", x.programs);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

struct Writer {
  OutJson object = OutJson::object();

  template <typename T> void operator()(const char *key, T &value) {
    object[key] = toJson(value);
  }

private:
  template <typename T> static OutJson toJson(T &value) {
    if constexpr (std::is_enum_v<T>) {
      return Names<T>::all[size_t(value)];
    } else if constexpr (std::is_class_v<T> &&
                         !std::is_same_v<T, std::string>) {
      Writer writer;
      fields(writer, value);
      return std::move(writer.object);
    } else {
      return value;
    }
  }
  template <typename T> static OutJson toJson(std::vector<T> &values) {
    OutJson array = OutJson::array();
    for (T &value : values)
      array.push_back(toJson(value));
    return array;
  }
  static OutJson toJson(std::map<std::string, double> &values) {
    return values;
  }
};

/// Is it, or does it hold, an array of objects?
bool isList(const OutJson &value) {
  if (value.is_array())
    return !value.empty() && value[0].is_object();
  if (value.is_object())
    for (const OutJson &item : value)
      if (item.is_array() && isList(item))
        return true;
  return false;
}

/// Lists down to ops and calls get a line for each item: a table reads, and
/// compares, by line.
void print(std::string &out, const OutJson &value, int depth) {
  if (depth >= 4 || !isList(value)) {
    out += value.dump(-1, ' ', false, OutJson::error_handler_t::replace);
    return;
  }
  out += value.is_array() ? '[' : '{';
  bool first = true;
  for (auto &item : value.items()) {
    out += first ? "\n" : ",\n";
    first = false;
    out.append(depth + 1, ' ');
    if (value.is_object())
      out += '"' + item.key() + "\": ";
    print(out, item.value(), depth + 1);
  }
  out += '\n';
  out.append(depth, ' ');
  out += value.is_array() ? ']' : '}';
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Where the reader is; spelled only when there is an error.
struct Path {
  const Path *parent;
  const char *key;
  size_t index;

  std::string str() const {
    std::string head = parent ? parent->str() : "";
    if (!key)
      return head + "[" + std::to_string(index) + "]";
    return head.empty() ? key : head + "." + key;
  }
};

/// Reads the fields of one object. After the first error nothing is read.
struct Reader {
  Reader(const InJson &object, const Path *path, std::string &error)
      : object(object), path(path), error(error) {
    if (!object.is_object())
      fail(path, "must be an object");
  }

  template <typename T> void operator()(const char *key, T &value) {
    if (!error.empty())
      return;
    Path here{path, key, 0};
    auto found = object.find(key);
    if (found == object.end())
      return fail(&here, "is missing");
    known.push_back(key);
    read(*found, here, value);
  }

  /// Every key must have been read.
  void finish() {
    if (!error.empty() || known.size() == object.size())
      return;
    for (auto &item : object.items())
      if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
        Path here{path, item.key().c_str(), 0};
        return fail(&here, "is unknown");
      }
  }

private:
  void fail(const Path *where, const std::string &reason) {
    if (error.empty())
      error = (where ? "'" + where->str() + "' " : "the table ") + reason;
  }

  void read(const InJson &in, const Path &here, std::string &value) {
    if (!in.is_string())
      return fail(&here, "must be a string");
    value = in.get_ref<const std::string &>();
  }
  void read(const InJson &in, const Path &here, double &value) {
    if (!in.is_number())
      return fail(&here, "must be a number");
    value = in.get<double>();
    if (!std::isfinite(value))
      fail(&here, "is out of range");
  }
  void read(const InJson &in, const Path &here, bool &value) {
    if (!in.is_boolean())
      return fail(&here, "must be true or false");
    value = in.get<bool>();
  }
  template <typename T>
  void read(const InJson &in, const Path &here, std::vector<T> &values) {
    if (!in.is_array())
      return fail(&here, "must be an array");
    values.resize(in.size());
    for (size_t i = 0; i < values.size() && error.empty(); ++i)
      read(in[i], Path{&here, nullptr, i}, values[i]);
  }
  void read(const InJson &in, const Path &here,
            std::map<std::string, double> &values) {
    if (!in.is_object())
      return fail(&here, "must be an object");
    values.clear();
    for (auto &item : in.items())
      read(item.value(), Path{&here, item.key().c_str(), 0},
           values[item.key()]);
  }
  template <typename T>
  void read(const InJson &in, const Path &here, T &value) {
    if constexpr (std::is_enum_v<T>) {
      size_t index = 0;
      std::string spelling, choices;
      read(in, here, spelling);
      for (const char *name : Names<T>::all) {
        if (spelling == name) {
          value = T(index);
          return;
        }
        choices += (index++ ? ", " : "") + std::string(name);
      }
      fail(&here, "is '" + spelling + "', must be one of " + choices);
    } else if constexpr (std::is_integral_v<T>) {
      if (!in.is_number_integer())
        return fail(&here, "must be an integer");
      // Numbers above the signed range are unsigned in the parser.
      constexpr auto max = std::numeric_limits<T>::max();
      if (in.is_number_unsigned()
              ? in.get<uint64_t>() > uint64_t(max)
              : in.get<int64_t>() < int64_t(std::numeric_limits<T>::min()))
        return fail(&here, "is out of range");
      value = in.get<T>();
    } else {
      Reader reader(in, &here, error);
      fields(reader, value);
      reader.finish();
    }
  }

  const InJson &object;
  const Path *path;
  std::string &error;
  std::vector<std::string> known;
};

} // namespace

std::string moert::toJson(const Table &table) {
  Writer writer;
  // The list of fields is shared with the reader; the writer only reads.
  fields(writer, const_cast<Table &>(table));
  std::string out;
  print(out, writer.object, 0);
  out += '\n';
  return out;
}

bool moert::fromJson(const std::string &text, Table &table,
                     std::string &error) {
  error.clear();
  table = {};
  Table result;
  try {
    InJson json = InJson::parse(text);
    // Another version may have other keys: tell before anything else.
    if (json.is_object() && json.contains("version") &&
        json["version"] != kTableVersion)
      error = "'version' is " + json["version"].dump() +
              ", this reader knows " + std::to_string(kTableVersion);
    Reader reader(json, nullptr, error);
    fields(reader, result);
    reader.finish();
  } catch (const std::exception &e) {
    error = std::string("malformed JSON: ") + e.what();
  }
  if (!error.empty())
    return false;
  table = std::move(result);
  return true;
}
