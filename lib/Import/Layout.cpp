#include "moe/Import/Layout.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Counts of tokens and ranks are i32 in tables.
constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

/// The pairs of the text.
struct LayoutText {
  MLIRContext *context;
  /// Value of each key given.
  llvm::StringMap<StringRef> values;
  SmallVector<StringRef> layers;

  InFlightDiagnostic error() {
    return emitError(UnknownLoc::get(context)) << "--layout: ";
  }

  LogicalResult parse(StringRef text);
  /// An integer from 1 to kLargest; `value` is left alone if the key is absent.
  LogicalResult integer(StringRef key, int64_t &value);
  /// Error if the key's value is a factor other than 1.
  LogicalResult onlyOne(StringRef key);
  /// Error if `sp` is anything but off.
  LogicalResult onlyOff();
};

LogicalResult LayoutText::parse(StringRef text) {
  static const StringRef known[] = {
      "tp",  "sp",     "cp",       "dp",          "pp",           "vpp", "ep",
      "etp", "layers", "capacity", "micro_batch", "global_batch", "seq"};
  if (text.trim().empty())
    return success();
  SmallVector<StringRef> items;
  text.split(items, ',');
  StringRef key;
  for (StringRef item : items) {
    item = item.trim();
    size_t equal = item.find('=');
    if (equal == StringRef::npos) {
      if (key != "layers" || item.empty())
        return error() << "expected key=value, but got '" << item << "'";
      layers.push_back(item);
      continue;
    }
    key = item.take_front(equal).rtrim();
    StringRef value = item.drop_front(equal + 1).ltrim();
    if (!llvm::is_contained(known, key))
      return error() << "unknown key '" << key << "', expected one of "
                     << llvm::join(ArrayRef(known), ", ");
    if (!values.try_emplace(key, value).second)
      return error() << "key '" << key << "' is given twice";
    if (key == "layers")
      layers.push_back(value);
  }
  return success();
}

LogicalResult LayoutText::integer(StringRef key, int64_t &value) {
  auto it = values.find(key);
  if (it == values.end())
    return success();
  if (it->second.getAsInteger(10, value) || value < 1 || value > kLargest)
    return error() << key << " must be an integer from 1 to " << kLargest
                   << ", but is '" << it->second << "'";
  return success();
}

LogicalResult LayoutText::onlyOne(StringRef key) {
  int64_t value = 1;
  if (failed(integer(key, value)))
    return failure();
  if (value != 1)
    return error() << key << "=" << value << " is not supported yet, only "
                   << key << "=1";
  return success();
}

LogicalResult LayoutText::onlyOff() {
  auto it = values.find("sp");
  if (it == values.end() || it->second == "off")
    return success();
  if (it->second == "on")
    return error() << "sp=on is not supported yet, only sp=off";
  return error() << "sp must be on or off, but is '" << it->second << "'";
}

} // namespace

SmallVector<int64_t> mlir::moe::spreadLayers(int64_t layers, int64_t stages) {
  if (stages == 1)
    return {layers};
  SmallVector<int64_t> result(stages, (layers + 2) / stages);
  for (int64_t i = 0, rest = (layers + 2) % stages; i < rest; ++i)
    ++result[i == 0 ? 0 : stages - i];
  --result.front();
  --result.back();
  return result;
}

FailureOr<LayoutAttr> mlir::moe::parseLayout(MLIRContext *context,
                                             StringRef text, int64_t gpus,
                                             int64_t layers, int64_t experts) {
  LayoutText in{context, {}, {}};
  if (failed(in.parse(text)) || failed(in.onlyOne("tp")) ||
      failed(in.onlyOff()) || failed(in.onlyOne("cp")) ||
      failed(in.onlyOne("vpp")) || failed(in.onlyOne("etp")))
    return failure();

  int64_t pp = 1, ep = 1, microBatch = 1, sequence = 4096;
  if (failed(in.integer("pp", pp)) || failed(in.integer("ep", ep)) ||
      failed(in.integer("micro_batch", microBatch)) ||
      failed(in.integer("seq", sequence)))
    return failure();
  if (gpus % pp != 0)
    return in.error() << "pp=" << pp << " must divide the " << gpus
                      << " GPUs of the target";
  int64_t dp = gpus / pp;
  if (failed(in.integer("dp", dp)))
    return failure();
  if (dp != gpus / pp)
    return in.error() << "dp=" << dp << " times pp=" << pp << " must be the "
                      << gpus << " GPUs of the target";
  if (dp % ep != 0)
    return in.error() << "ep=" << ep << " must divide dp=" << dp;
  if (experts % ep != 0)
    return in.error() << "ep=" << ep << " must divide the model's " << experts
                      << " experts";

  if (microBatch > kLargest / sequence)
    return in.error() << "micro_batch=" << microBatch << " of seq=" << sequence
                      << " is more than " << kLargest << " tokens";
  // Both factors are below 2^31, so that the product can't overflow.
  int64_t perStep = dp * microBatch, globalBatch = 0;
  if (failed(in.integer("global_batch", globalBatch)))
    return failure();
  if (!in.values.contains("global_batch")) {
    globalBatch = perStep <= kLargest / 64 ? 64 * perStep : 0;
    if (globalBatch == 0)
      return in.error() << "the default global_batch, 64 * dp * micro_batch, "
                           "is more than "
                        << kLargest << "; give global_batch";
  }
  if (globalBatch % perStep != 0)
    return in.error() << "global_batch=" << globalBatch
                      << " must be a multiple of dp * micro_batch = "
                      << perStep;

  double capacity = 2;
  if (auto it = in.values.find("capacity"); it != in.values.end()) {
    if (it->second == "worst")
      capacity = 0;
    else if (it->second.getAsDouble(capacity) || !std::isfinite(capacity) ||
             capacity < 1)
      return in.error()
             << "capacity must be 'worst' or a number from 1, but is '"
             << it->second << "'";
  }

  if (pp > layers + 2)
    return in.error() << "pp=" << pp << " stages can't share " << layers
                      << " layers, the embedding and the loss";
  SmallVector<int64_t> stages;
  if (in.layers.empty()) {
    stages = spreadLayers(layers, pp);
  } else {
    int64_t sum = 0;
    for (StringRef item : in.layers) {
      int64_t count = 0;
      if (item.getAsInteger(10, count) || count < 0 || count > layers)
        return in.error() << "layers must list integers from 0 to " << layers
                          << ", the model's layers, but lists '" << item << "'";
      stages.push_back(count);
      sum += count;
    }
    if (static_cast<int64_t>(stages.size()) != pp)
      return in.error() << "layers lists " << stages.size()
                        << " stages, but pp=" << pp;
    if (sum != layers)
      return in.error() << "layers sum to " << sum << ", but the model has "
                        << layers;
    for (int64_t i = 1; i + 1 < pp; ++i)
      if (stages[i] == 0)
        return in.error() << "layers leaves a stage with nothing to do";
  }

  return LayoutAttr::get(context, dp, ep, pp, microBatch, globalBatch, sequence,
                         Builder(context).getF64FloatAttr(capacity), stages);
}
