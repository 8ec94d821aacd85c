#include "moe/Import/Counts.h"

#include "dialects/Moe/MoeOps.h"
#include "moe/Support/Phase.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Where a parameter is declared, and for which indices.
struct Declared {
  ParamOp op;
  SmallVector<std::pair<int64_t, int64_t>> ranges;
};

} // namespace

/// Number of indices in the union of the ranges.
static int64_t countIndices(SmallVector<std::pair<int64_t, int64_t>> &ranges) {
  llvm::sort(ranges);
  int64_t count = 0, end = 0;
  for (auto [lower, upper] : ranges) {
    lower = std::max(lower, end);
    if (upper > lower)
      count += upper - lower;
    end = std::max(end, upper);
  }
  return count;
}

/// Elements of the parameter on all ranks.
static std::optional<int64_t> countElements(ParamOp op, LayoutAttr layout) {
  SmallVector<int64_t> factors(op.getType().getShape());
  if (DistAttr dist = getDist(op.getType()))
    for (const AxisDist &axis : dist.getAxes()) {
      if (axis.kind != DistKind::Sharded)
        continue;
      StringRef name = axis.axis.getValue();
      factors.push_back(name == "dp"   ? layout.getDp()
                        : name == "ep" ? layout.getEp()
                                       : layout.getEdp());
    }
  int64_t count = 1;
  for (int64_t factor : factors) {
    std::optional<int64_t> next = llvm::checkedMul(count, factor);
    if (!next)
      return std::nullopt;
    count = *next;
  }
  return count;
}

static LayerOp layerOf(ApplyOp apply) {
  return SymbolTable::lookupNearestSymbolFrom<LayerOp>(apply,
                                                       apply.getLayerAttr());
}

FailureOr<int64_t> mlir::moe::parameterCount(ModuleOp module) {
  FailureOr<LayoutAttr> layout = getLayout(module);
  if (failed(layout))
    return failure();
  llvm::MapVector<ArrayAttr, Declared> parameters;
  WalkResult result = module.walk([&](ApplyOp apply) {
    auto walked = layerOf(apply).walk([&](ParamOp op) {
      Declared &declared = parameters[op.getPatterns()];
      if (!declared.op)
        declared.op = op;
      if (declared.op.getType() != op.getType()) {
        InFlightDiagnostic diag = op.emitOpError()
                                  << "has type " << op.getType()
                                  << ", but a parameter of the same name has "
                                  << declared.op.getType();
        diag.attachNote(declared.op.getLoc()) << "declared here";
        return WalkResult::interrupt();
      }
      if (op.getKey().contains("{i}"))
        declared.ranges.emplace_back(apply.getLower(), apply.getUpper());
      else if (apply.getLower() < apply.getUpper())
        declared.ranges.emplace_back(0, 1);
      return WalkResult::advance();
    });
    return walked;
  });
  if (result.wasInterrupted())
    return failure();
  int64_t sum = 0;
  for (auto &[patterns, declared] : parameters) {
    std::optional<int64_t> elements = countElements(declared.op, *layout), all;
    if (elements)
      all = llvm::checkedMul(*elements, countIndices(declared.ranges));
    if (all)
      all = llvm::checkedAdd(sum, *all);
    if (!all)
      return declared.op.emitOpError("makes the model too large to be counted");
    sum = *all;
  }
  return sum;
}

FailureOr<double> mlir::moe::modelFlopsPerToken(ModuleOp module,
                                                int64_t sequence) {
  FailureOr<LayoutAttr> layout = getLayout(module);
  if (failed(layout))
    return failure();
  double forward = 0;
  module.walk([&](ApplyOp apply) {
    double flops = 0;
    layerOf(apply).walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<BackwardOp>(op))
        return WalkResult::skip();
      if (auto attention = dyn_cast<AttentionOp>(op))
        flops += attention.getFlops() / attention.getSequence() * sequence;
      else if (auto linear = dyn_cast<LinearOp>(op))
        flops +=
            linear.getModule() == Module::MoeRouter ? 0 : linear.getFlops();
      else if (auto grouped = dyn_cast<GroupedLinearOp>(op))
        flops += grouped.getFlops();
      return WalkResult::advance();
    });
    forward += flops * (apply.getUpper() - apply.getLower());
  });
  return 3 * forward / layout->getTokens();
}
