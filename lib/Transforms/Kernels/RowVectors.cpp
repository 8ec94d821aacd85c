#include "RowVectors.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

LogicalResult RowVectors::match() {
  if (op.getNumLoops() != 1 || !op.hasPureBufferSemantics() ||
      op.hasIndexSemantics() ||
      ShapedType::isDynamic(op.getStaticLoopRanges()[0]))
    return failure();
  length = op.getStaticLoopRanges()[0];
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (map.getNumResults() == 0)
      continue;
    if (!type || !map.isIdentity() || !type.areTrailingDimsContiguous(1))
      return failure();
  }
  for (Operation &inner : body->without_terminator())
    if (!OpTrait::hasElementwiseMappableTraits(&inner) &&
        !isa<arith::ConstantOp>(inner))
      return failure();
  for (auto [i, out] : llvm::enumerate(op.getDpsInits())) {
    if (cast<MemRefType>(out.getType()).getRank() != 0)
      continue;
    SmallVector<Operation *> joins;
    if (!matchReduction(op.getRegionOutputArgs(), i, joins) ||
        joins.size() != 1 ||
        !isa<arith::AddFOp, arith::MaxNumFOp>(joins.front()))
      return failure();
    reductions.push_back({unsigned(i), joins.front()});
  }
  return success();
}

RowVectors::Values RowVectors::neutral(int64_t width) {
  Values result;
  for (Reduction &reduction : reductions) {
    double value = isa<arith::AddFOp>(reduction.op) ? 0.0 : -INFINITY;
    Type type = reduction.op->getResult(0).getType();
    result.push_back(splat(builder.getFloatAttr(type, value), width));
  }
  return result;
}

void RowVectors::step(int64_t width, PlaceOf placeOf, Values &partial) {
  IRMapping mapping;
  ValueRange arguments = body->getArguments();
  for (OpOperand &operand : op->getOpOperands()) {
    Value argument = arguments[operand.getOperandNumber()];
    if (argument.use_empty() || isReduced(operand))
      continue;
    Value value = operand.get();
    if (op.getMatchingIndexingMap(&operand).getNumResults() == 0) {
      if (isa<MemRefType>(value.getType()))
        value = memref::LoadOp::create(builder, value, ValueRange());
      mapping.map(argument, broadcast(value, width));
      continue;
    }
    auto type = VectorType::get(width, argument.getType());
    Place place = placeOf(operand);
    mapping.map(argument,
                vector::LoadOp::create(builder, type, value, place.index,
                                       /*nontemporal=*/false, place.alignment));
  }
  for (auto [reduction, lanes] : llvm::zip_equal(reductions, partial))
    mapping.map(op.getRegionOutputArgs()[reduction.output], lanes);

  for (Operation &inner : body->without_terminator())
    clone(inner, width, mapping);
  for (auto [reduction, lanes] : llvm::zip_equal(reductions, partial))
    lanes = mapping.lookup(reduction.op->getResult(0));
  Operation *yield = body->getTerminator();
  for (auto [i, out] : llvm::enumerate(op.getDpsInitsMutable())) {
    if (isReduced(out))
      continue;
    Place place = placeOf(out);
    vector::StoreOp::create(
        builder, asVector(yield->getOperand(i), width, mapping), out.get(),
        place.index, /*nontemporal=*/false, place.alignment);
  }
}

Value RowVectors::foldLanes(unsigned i, Value lanes) {
  int64_t width = cast<VectorType>(lanes.getType()).getNumElements();
  while (width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < width; ++lane) {
      low.push_back(lane);
      high.push_back(width + lane);
    }
    lanes = join(i, vector::ShuffleOp::create(builder, lanes, lanes, low),
                 vector::ShuffleOp::create(builder, lanes, lanes, high));
  }
  return vector::ExtractOp::create(builder, lanes, 0);
}

void RowVectors::finish(unsigned i, Value total) {
  Value out = op.getDpsInits()[reductions[i].output];
  Value before = memref::LoadOp::create(builder, out, ValueRange());
  memref::StoreOp::create(builder, join(i, before, total), out, ValueRange());
}

Value RowVectors::slice(Value lanes, int64_t from, int64_t width) {
  return vector::ExtractStridedSliceOp::create(
      builder, lanes, ArrayRef<int64_t>{from}, ArrayRef<int64_t>{width},
      ArrayRef<int64_t>{1});
}

Value RowVectors::index(int64_t value) {
  return arith::ConstantIndexOp::create(builder, value);
}

Value RowVectors::splat(TypedAttr value, int64_t width) {
  auto type = VectorType::get(width, value.getType());
  return arith::ConstantOp::create(builder,
                                   DenseElementsAttr::get(type, value));
}

Value RowVectors::broadcast(Value x, int64_t width) {
  return vector::BroadcastOp::create(builder,
                                     VectorType::get(width, x.getType()), x);
}

/// A value of the body; one from outside is the same for all lanes.
Value RowVectors::asVector(Value x, int64_t width, IRMapping &mapping) {
  if (!mapping.contains(x))
    mapping.map(x, broadcast(x, width));
  return mapping.lookup(x);
}

bool RowVectors::isReduced(OpOperand &operand) {
  return llvm::any_of(reductions, [&](Reduction &reduction) {
    return op.getDpsInitOperand(reduction.output) == &operand;
  });
}

void RowVectors::clone(Operation &inner, int64_t width, IRMapping &mapping) {
  if (auto constant = dyn_cast<arith::ConstantOp>(inner)) {
    mapping.map(constant.getResult(), splat(constant.getValue(), width));
    return;
  }
  Values operands;
  for (Value operand : inner.getOperands())
    operands.push_back(asVector(operand, width, mapping));
  SmallVector<Type> types;
  for (Type type : inner.getResultTypes())
    types.push_back(VectorType::get(width, type));
  Operation *wide =
      builder.create(inner.getLoc(), inner.getName().getIdentifier(), operands,
                     types, inner.getAttrs());
  mapping.map(inner.getResults(), wide->getResults());
}

Value RowVectors::join(Operation *op, Value a, Value b) {
  return builder
      .create(op->getLoc(), op->getName().getIdentifier(), {a, b},
              {a.getType()}, op->getAttrs())
      ->getResult(0);
}
