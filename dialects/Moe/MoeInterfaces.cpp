#include "dialects/Moe/MoeInterfaces.h"

#include "dialects/Moe/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;

#include "dialects/Moe/MoeInterfaces.cpp.inc"

/// Mean rows of the `!moe.rows` operand of an op, -1: it has none.
static int64_t meanRows(Operation *op) {
  for (Value operand : op->getOperands())
    if (auto rows = dyn_cast<RowsType>(operand.getType()))
      return rows.getMean();
  return -1;
}

double mlir::moe::usedBytes(Operation *op, Type type) {
  if (auto rows = dyn_cast<RowsType>(type))
    return 4.0 * rows.getGroups();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  double elements = tensor.getNumElements();
  int64_t mean = meanRows(op);
  if (mean >= 0 && tensor.getRank() <= 2 && tensor.getRank() >= 1 &&
      tensor.getDimSize(0) > mean)
    elements = elements / tensor.getDimSize(0) * mean;
  return elements * tensor.getElementTypeBitWidth() / 8;
}

double mlir::moe::bytesMoved(Operation *op) {
  double bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += usedBytes(op, type);
  for (Type type : op->getResultTypes())
    bytes += usedBytes(op, type);
  return bytes;
}

double mlir::moe::inputBytes(Operation *op) {
  double bytes = 0;
  for (Type type : op->getOperandTypes())
    if (isa<RankedTensorType>(type))
      bytes += usedBytes(op, type);
  return bytes;
}

LogicalResult mlir::moe::inferRankwise(Operation *op,
                                       ArrayRef<DistAttr> operands,
                                       SmallVectorImpl<DistAttr> &results) {
  DistAttr joined;
  for (auto [i, dist] : llvm::enumerate(operands)) {
    if (!dist)
      continue;
    if (dist.has(DistKind::PartialSum) || dist.has(DistKind::PartialMax))
      return op->emitOpError() << "uses operand #" << i
                               << " as a whole value, but it is partial ("
                               << dist << "); reduce it first (moe.all_reduce)";
    if (dist.has(DistKind::Flat))
      return op->emitOpError() << "can't use operand #" << i
                               << ", a shard of a flat bucket (" << dist << ")";
    if (!joined) {
      joined = dist;
      continue;
    }
    if (joined.getGrid() != dist.getGrid())
      return op->emitOpError()
             << "mixes grid '" << joined.getGrid().getValue() << "' and grid '"
             << dist.getGrid().getValue() << "' (operand #" << i << ")";
  }
  // A result is each rank's own along an axis if any operand is; the sharded
  // weight of an expert meets that rank's rows.
  if (joined)
    for (DistAttr dist : operands) {
      if (!dist)
        continue;
      for (const AxisDist &axis : dist.getAxes())
        joined =
            joined.with(axis.axis.getValue(),
                        axis.kind == DistKind::Invariant &&
                                joined.getAxis(axis.axis.getValue()).kind ==
                                    DistKind::Invariant
                            ? DistKind::Invariant
                            : DistKind::Varying);
    }
  results.assign(op->getNumResults(), joined);
  for (auto [i, type] : llvm::enumerate(op->getResultTypes()))
    if (!isa<RankedTensorType>(type))
      results[i] = {};
  return success();
}
