#include "Parameters.h"

#include "moe/Runtime/Random.h"
#include <cmath>

using namespace mlir;
using namespace mlir::moe;

namespace {
/// The stored tensors that make up a local one: runs of equal size, in memory
/// order.
struct Pieces {
  std::vector<std::string> names;
  std::vector<int64_t> shape;

  int64_t size() const {
    int64_t count = 1;
    for (int64_t n : shape)
      count *= n;
    return count;
  }
};
} // namespace

static std::string replaceAll(StringRef text, StringRef from, int64_t number) {
  std::string result;
  while (true) {
    auto [head, tail] = text.split(from);
    result += head;
    if (head.size() == text.size())
      return result;
    result += std::to_string(number);
    text = tail;
  }
}

/// Expands the patterns for one rank: per expert if stacked, then per pattern.
static Pieces piecesOf(ParamOp param, int64_t index, const Grid &grid,
                       int64_t rank) {
  ArrayRef<int64_t> shape = param.getType().getShape();
  bool stacked = param.getKey().contains("{e}");
  int64_t experts = stacked ? shape.front() : 1, firstExpert = 0;
  if (DistAttr dist = getDist(param.getType()))
    for (const AxisDist &axis : dist.getAxes())
      if (axis.kind == DistKind::Sharded)
        firstExpert += experts * grid.position(axis.axis.getValue(), rank);
  Pieces pieces;
  pieces.shape.assign(shape.begin() + stacked, shape.end());
  pieces.shape.front() /= static_cast<int64_t>(param.getPatterns().size());
  for (int64_t e = 0; e < experts; ++e)
    for (auto pattern : param.getPatterns().getAsRange<StringAttr>())
      pieces.names.push_back(
          replaceAll(replaceAll(pattern.getValue(), "{i}", index), "{e}",
                     firstExpert + e));
  return pieces;
}

LogicalResult Parameters::declare(ParamOp param, int64_t index,
                                  const Grid &grid) {
  bool stacked = param.getKey().contains("{e}");
  ArrayRef<int64_t> shape = param.getType().getShape();
  int64_t count = param.getPatterns().size();
  for (auto pattern : param.getPatterns().getAsRange<StringAttr>())
    if (pattern.getValue().contains("{e}") != stacked)
      return param.emitOpError("mixes patterns with and without {e}");
  if (shape.size() < 1u + stacked || shape[stacked] % count != 0)
    return param.emitOpError() << "can't be divided into " << count
                               << " stored tensors along its rows";
  DistAttr dist = getDist(param.getType());
  for (const AxisDist &axis : dist ? dist.getAxes() : ArrayRef<AxisDist>())
    if (axis.kind != DistKind::Invariant &&
        !(stacked && axis.kind == DistKind::Sharded && axis.dim == 0))
      return param.emitOpError()
             << "can only be invariant, or sharded(0) over stacked experts, "
                "but is "
             << dist;
  for (int64_t rank = 0; rank < grid.dp; ++rank) {
    Pieces pieces = piecesOf(param, index, grid, rank);
    for (const std::string &name : pieces.names) {
      auto [it, isNew] = entries.try_emplace(name);
      Entry &entry = it->second;
      if (!isNew) {
        if (entry.value.shape != pieces.shape)
          return param.emitOpError()
                 << "stores '" << name << "' in another shape than before";
        continue;
      }
      order.push_back(name);
      std::vector<double> zeros(pieces.size(), 0);
      entry.value = entry.moment1 = entry.moment2 = {pieces.shape, zeros};
      entry.element = param.getType().getElementType();
      entry.init = param.getInit();
    }
  }
  return success();
}

const StoredTensor *Parameters::find(StringRef name) const {
  auto it = entries.find(name.str());
  return it == entries.end() ? nullptr : &it->second.value;
}

/// Type of the master copy, moments and gradients of a parameter.
static Type masterType(Type element) {
  return element.isF64() ? element : Float32Type::get(element.getContext());
}

void Parameters::set(StringRef name, ArrayRef<double> values) {
  Entry &entry = entries.at(name.str());
  for (auto [to, from] : llvm::zip_equal(entry.value.values, values))
    to = roundTo(masterType(entry.element), from);
  entry.isSet = true;
}

std::string Parameters::unset() const {
  for (const std::string &name : order)
    if (!entries.at(name).isSet)
      return name;
  return "";
}

void Parameters::initialize(uint64_t seed, double deviation) {
  for (const std::string &name : order) {
    Entry &entry = entries.at(name);
    std::vector<double> values(entry.value.values.size(), 1);
    if (entry.init == Init::Normal) {
      uint64_t key = moert::randomKey(seed, name);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = float(deviation * moert::randomNormal(key, i));
    }
    set(name, values);
  }
}

RankTensors Parameters::local(ParamOp param, int64_t index,
                              const Grid &grid) const {
  RankTensors result;
  for (int64_t rank = 0; rank < grid.dp; ++rank) {
    Tensor &tensor = result.emplace_back();
    tensor.shape = param.getType().getShape().vec();
    for (const std::string &name : piecesOf(param, index, grid, rank).names)
      llvm::append_range(tensor.values, entries.at(name).value.values);
    roundTensor(param.getType(), tensor);
  }
  return result;
}

void Parameters::zeroGradients() {
  for (const std::string &name : order) {
    const StoredTensor &value = entries.at(name).value;
    grads[name] = {value.shape, std::vector<double>(value.values.size(), 0)};
  }
}

void Parameters::addGradient(ParamOp param, Value sum,
                             const RankTensors &values, int64_t index,
                             const Grid &grid) {
  DistAttr dist = getDist(sum);
  for (int64_t rank = 0; rank < grid.dp; ++rank) {
    // Ranks that hold the same sum count once.
    bool repeated = false;
    for (const AxisDist &axis : dist ? dist.getAxes() : ArrayRef<AxisDist>())
      repeated |= axis.kind == DistKind::Invariant &&
                  grid.position(axis.axis.getValue(), rank) != 0;
    if (repeated)
      continue;
    Pieces pieces = piecesOf(param, index, grid, rank);
    for (auto [i, name] : llvm::enumerate(pieces.names)) {
      auto from = values[rank].values.begin() + i * pieces.size();
      for (double &value : grads.at(name).values)
        value += *from++;
    }
  }
}

double Parameters::gradNorm() const {
  double squares = 0;
  for (auto &[name, grad] : grads)
    for (double value : grad.values)
      squares += value * value;
  return std::sqrt(squares);
}

void Parameters::update(OptimizerOp optimizer) {
  double lr = optimizer.getLr().convertToDouble();
  double beta1 = optimizer.getBeta1().convertToDouble();
  double beta2 = optimizer.getBeta2().convertToDouble();
  double eps = optimizer.getEps().convertToDouble();
  double decay = optimizer.getWeightDecay().convertToDouble();
  double clip = optimizer.getClip().convertToDouble();
  double scale = clip > 0 ? std::min(1.0, clip / (gradNorm() + 1e-6)) : 1;
  ++steps;
  double correction1 = 1 - std::pow(beta1, steps);
  double correction2 = 1 - std::pow(beta2, steps);
  for (auto &[name, entry] : entries) {
    Type type = masterType(entry.element);
    for (auto [value, m, v, g] :
         llvm::zip_equal(entry.value.values, entry.moment1.values,
                         entry.moment2.values, grads.at(name).values)) {
      double grad = g * scale;
      m = roundTo(type, beta1 * m + (1 - beta1) * grad);
      v = roundTo(type, beta2 * v + (1 - beta2) * grad * grad);
      double step = m / correction1 / (std::sqrt(v / correction2) + eps);
      value = roundTo(type, value * (1 - lr * decay) - lr * step);
    }
  }
}
