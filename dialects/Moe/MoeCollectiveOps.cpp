#include "dialects/Moe/MoeVerify.h"

using namespace mlir;
using namespace mlir::moe;

using SavedFn = llvm::function_ref<Value(Value)>;

/// Error unless operand 0 has one of the kinds `wanted` along the op's axis.
template <typename Op>
static LogicalResult expectKind(Op op, DistAttr dist,
                                ArrayRef<DistKind> wanted) {
  if (!dist)
    return op.emitOpError() << "operand #0 must have a distribution";
  if (llvm::none_of(dist.getAxes(), [&](const AxisDist &axis) {
        return axis.axis.getValue() == op.getAxis();
      }))
    return op.emitOpError()
           << "goes over '" << op.getAxis()
           << "', which operand #0 does not name (" << dist << ")";
  DistKind got = dist.getAxis(op.getAxis()).kind;
  if (llvm::is_contained(wanted, got))
    return success();
  InFlightDiagnostic diag = op.emitOpError() << "operand #0 must be ";
  llvm::interleave(
      wanted, diag, [&](DistKind kind) { diag << stringifyDistKind(kind); },
      " or ");
  diag << " along '" << op.getAxis() << "', but is " << stringifyDistKind(got);
  diag.attachNote(op->getOperand(0).getLoc()) << "operand #0 is here";
  return diag;
}

//===----------------------------------------------------------------------===//
// Exchange of rows
//===----------------------------------------------------------------------===//

LogicalResult ExchangeCountsOp::verify() {
  if (getCounts().getType().getGroups() != getResult().getType().getGroups())
    return emitOpError() << "result must have as many groups as the counts";
  return success();
}

LogicalResult
ExchangeCountsOp::inferDistribution(ArrayRef<DistAttr>,
                                    SmallVectorImpl<DistAttr> &results) {
  results.assign(1, DistAttr());
  return success();
}

SmallVector<Value> ExchangeCountsOp::buildDataGrad(OpBuilder &, ArrayRef<Value>,
                                                   SavedFn) {
  return {Value()};
}

LogicalResult AllToAllOp::verify() {
  auto input = tensorOf(getInput()), result = tensorOf(getResult());
  if (input.getRank() < 1 || input.getRank() > 2 ||
      input.getRank() != result.getRank() ||
      (input.getRank() == 2 && input.getDimSize(1) != result.getDimSize(1)))
    return emitOpError() << "input and result must be [rows] or [rows, width] "
                            "of one width, but got "
                         << input << " and " << result;
  if (getSend().getType().getGroups() != getReceive().getType().getGroups())
    return emitOpError() << "send and receive counts must have as many groups";
  return success();
}

LogicalResult
AllToAllOp::inferDistribution(ArrayRef<DistAttr> operands,
                              SmallVectorImpl<DistAttr> &results) {
  DistAttr in = operands[0];
  results.assign(1, DistAttr());
  if (!in)
    return emitOpError() << "operand #0 must have a distribution";
  if (!llvm::all_of(in.getAxes(), [](const AxisDist &axis) {
        return axis.kind == DistKind::Varying;
      }))
    return emitOpError() << "exchanges rows that each rank has of its own "
                            "(varying), but got "
                         << in;
  // The result lies on the other factoring of the same ranks.
  DistAttr declared = getDist(getResult());
  bool attention = in.getGrid() == "attention";
  if (!declared || (declared.getGrid() == "attention") == attention)
    return emitOpError() << "takes a value from grid attention to grid experts "
                            "or back, but the result is on "
                         << (declared ? declared.getGrid().getValue()
                                      : StringRef("no grid"));
  for (const AxisDist &axis : declared.getAxes())
    if (axis.kind != DistKind::Varying)
      return emitOpError() << "result must be varying along '"
                           << axis.axis.getValue() << "'";
  results[0] = declared;
  return success();
}

SmallVector<Value> AllToAllOp::buildDataGrad(OpBuilder &b,
                                             ArrayRef<Value> cotangents,
                                             SavedFn saved) {
  return {AllToAllOp::create(b, getLoc(), cotangentType(getInput().getType()),
                             cotangents[0], saved(getReceive()),
                             saved(getSend()), getAxis(), getModule()),
          Value(), Value()};
}

//===----------------------------------------------------------------------===//
// Reductions and gathers along dimension 0
//===----------------------------------------------------------------------===//

LogicalResult AllReduceOp::verify() {
  return expectShape(*this, "result", getResult(),
                     tensorOf(getInput()).getShape());
}

LogicalResult
AllReduceOp::inferDistribution(ArrayRef<DistAttr> operands,
                               SmallVectorImpl<DistAttr> &results) {
  DistKind kind = getReduction() == Reduction::Sum ? DistKind::PartialSum
                                                   : DistKind::PartialMax;
  if (failed(expectKind(*this, operands[0], {kind, DistKind::Varying})))
    return failure();
  results.assign(1, operands[0].with(getAxis(), DistKind::Invariant));
  return success();
}

SmallVector<Value>
AllReduceOp::buildDataGrad(OpBuilder &b, ArrayRef<Value> cotangents, SavedFn) {
  // A maximum only shifts what is exponentiated: it has no cotangent.
  if (getReduction() != Reduction::Sum)
    return {Value()};
  // Each rank's part counts once in the sum.
  return {VaryOp::create(b, getLoc(), cotangentType(getInput().getType()),
                         cotangents[0], getAxis(), getModule())};
}

LogicalResult ReduceScatterOp::verify() {
  if (tensorOf(getInput()).getRank() < 1 || dim(getResult(), 0) < 1 ||
      dim(getInput(), 0) % dim(getResult(), 0) != 0)
    return emitOpError() << "rows of the result must divide those of the input";
  return success();
}

LogicalResult
ReduceScatterOp::inferDistribution(ArrayRef<DistAttr> operands,
                                   SmallVectorImpl<DistAttr> &results) {
  if (failed(expectKind(*this, operands[0],
                        {DistKind::PartialSum, DistKind::Varying})))
    return failure();
  results.assign(1, operands[0].with(getAxis(), DistKind::Sharded, 0));
  return success();
}

SmallVector<Value> ReduceScatterOp::buildDataGrad(OpBuilder &b,
                                                  ArrayRef<Value> cotangents,
                                                  SavedFn) {
  return {AllGatherOp::create(b, getLoc(), cotangentType(getInput().getType()),
                              cotangents[0], getAxis(), /*varying=*/true,
                              getModule())};
}

LogicalResult AllGatherOp::verify() {
  if (tensorOf(getInput()).getRank() < 1 || dim(getInput(), 0) < 1 ||
      dim(getResult(), 0) % dim(getInput(), 0) != 0)
    return emitOpError() << "rows of the input must divide those of the result";
  return success();
}

LogicalResult
AllGatherOp::inferDistribution(ArrayRef<DistAttr> operands,
                               SmallVectorImpl<DistAttr> &results) {
  if (failed(expectKind(*this, operands[0], DistKind::Sharded)))
    return failure();
  if (operands[0].getAxis(getAxis()).dim != 0)
    return emitOpError() << "operand #0 must be sharded(0) along '" << getAxis()
                         << "', but is " << operands[0];
  results.assign(1, operands[0].with(getAxis(), getVarying()
                                                    ? DistKind::Varying
                                                    : DistKind::Invariant));
  return success();
}

SmallVector<Value>
AllGatherOp::buildDataGrad(OpBuilder &b, ArrayRef<Value> cotangents, SavedFn) {
  // Of a varying result each rank has a cotangent of its own, which add up; of
  // an invariant one all have the same.
  auto type = cotangentType(getInput().getType());
  if (getVarying())
    return {ReduceScatterOp::create(b, getLoc(), type, cotangents[0], getAxis(),
                                    getModule())};
  return {SliceOp::create(b, getLoc(), type, cotangents[0], getAxis(),
                          getModule())};
}

LogicalResult SliceOp::verify() {
  if (tensorOf(getInput()).getRank() < 1 || dim(getResult(), 0) < 1 ||
      dim(getInput(), 0) % dim(getResult(), 0) != 0)
    return emitOpError() << "rows of the result must divide those of the input";
  return success();
}

LogicalResult SliceOp::inferDistribution(ArrayRef<DistAttr> operands,
                                         SmallVectorImpl<DistAttr> &results) {
  if (failed(expectKind(*this, operands[0], DistKind::Invariant)))
    return failure();
  results.assign(1, operands[0].with(getAxis(), DistKind::Sharded, 0));
  return success();
}

SmallVector<Value> SliceOp::buildDataGrad(OpBuilder &b,
                                          ArrayRef<Value> cotangents, SavedFn) {
  return {AllGatherOp::create(b, getLoc(), cotangentType(getInput().getType()),
                              cotangents[0], getAxis(), /*varying=*/false,
                              getModule())};
}

LogicalResult VaryOp::verify() {
  return expectShape(*this, "result", getResult(),
                     tensorOf(getInput()).getShape());
}

LogicalResult VaryOp::inferDistribution(ArrayRef<DistAttr> operands,
                                        SmallVectorImpl<DistAttr> &results) {
  if (failed(expectKind(*this, operands[0], DistKind::Invariant)))
    return failure();
  results.assign(1, operands[0].with(getAxis(), DistKind::Varying));
  return success();
}

SmallVector<Value> VaryOp::buildDataGrad(OpBuilder &b,
                                         ArrayRef<Value> cotangents, SavedFn) {
  return {AllReduceOp::create(b, getLoc(), cotangentType(getInput().getType()),
                              cotangents[0], getAxis(), Reduction::Sum,
                              getModule())};
}
