#include "dialects/Moe/MoeVerify.h"

using namespace mlir;
using namespace mlir::moe;

using SavedFn = llvm::function_ref<Value(Value)>;

static DictionaryAttr number(MLIRContext *context, StringRef name,
                             double value) {
  Builder b(context);
  return b.getDictionaryAttr(b.getNamedAttr(name, b.getF64FloatAttr(value)));
}

//===----------------------------------------------------------------------===//
// Route
//===----------------------------------------------------------------------===//

LogicalResult RouteOp::verify() {
  int64_t experts = dim(getLogits(), 1), k = dim(getProbabilities(), 1);
  if (failed(expectShape(*this, "logits", getLogits(), {-1, -1})) ||
      failed(expectShape(*this, "probabilities", getProbabilities(),
                         {dim(getLogits(), 0), -1})) ||
      failed(expectShape(*this, "experts", getExperts(),
                         {dim(getLogits(), 0), k})))
    return failure();
  if (k < 1 || k > experts)
    return emitOpError() << "can't choose " << k << " of " << experts
                         << " experts";
  return success();
}

DictionaryAttr RouteOp::getKernelAttributes() {
  return number(getContext(), "normalize", getNormalize());
}

SmallVector<Value> RouteOp::buildDataGrad(OpBuilder &b,
                                          ArrayRef<Value> cotangents,
                                          SavedFn saved) {
  if (!cotangents[0])
    return {Value()};
  return {RouteGradOp::create(b, getLoc(), cotangentType(getLogits().getType()),
                              saved(getLogits()), saved(getProbabilities()),
                              saved(getExperts()), cotangents[0],
                              getNormalize(), getModule())};
}

LogicalResult RouteGradOp::verify() {
  if (failed(expectShape(*this, "logits", getLogits(), {-1, -1})) ||
      failed(expectShape(*this, "probabilities", getProbabilities(),
                         {dim(getLogits(), 0), -1})) ||
      failed(expectShape(*this, "cotangent", getCotangent(),
                         tensorOf(getProbabilities()).getShape())) ||
      failed(expectShape(*this, "experts", getExperts(),
                         tensorOf(getProbabilities()).getShape())))
    return failure();
  return expectShape(*this, "result", getResult(),
                     tensorOf(getLogits()).getShape());
}

DictionaryAttr RouteGradOp::getKernelAttributes() {
  return number(getContext(), "normalize", getNormalize());
}

//===----------------------------------------------------------------------===//
// Permutation
//===----------------------------------------------------------------------===//

LogicalResult PermutationOp::verify() {
  if (failed(expectShape(*this, "experts", getExperts(), {-1, -1})))
    return failure();
  return expectShape(*this, "map", getMap(), tensorOf(getExperts()).getShape());
}

NumericClass PermutationOp::getNumericClass() {
  return NumericClass::Deterministic;
}

SmallVector<Value> PermutationOp::buildDataGrad(OpBuilder &, ArrayRef<Value>,
                                                SavedFn) {
  return {Value()};
}

/// Checks that `rows` is `tokens` with its rows replaced by tokens * k.
static LogicalResult verifyPermute(Operation *op, Value tokens, Value map,
                                   Value rows) {
  if (failed(expectShape(op, "tokens", tokens, {-1, -1})) ||
      failed(expectShape(op, "map", map, {dim(tokens, 0), -1})))
    return failure();
  return expectShape(op, "permuted rows", rows,
                     {dim(tokens, 0) * dim(map, 1), dim(tokens, 1)});
}

LogicalResult PermuteOp::verify() {
  return verifyPermute(*this, getInput(), getMap(), getResult());
}

SmallVector<Value> PermuteOp::buildDataGrad(OpBuilder &b,
                                            ArrayRef<Value> cotangents,
                                            SavedFn saved) {
  return {UnpermuteOp::create(b, getLoc(), cotangentType(getInput().getType()),
                              cotangents[0], saved(getMap()), getModule()),
          Value()};
}

LogicalResult UnpermuteOp::verify() {
  return verifyPermute(*this, getResult(), getMap(), getInput());
}

SmallVector<Value> UnpermuteOp::buildDataGrad(OpBuilder &b,
                                              ArrayRef<Value> cotangents,
                                              SavedFn saved) {
  return {PermuteOp::create(b, getLoc(), cotangentType(getInput().getType()),
                            cotangents[0], saved(getMap()), getModule()),
          Value()};
}

LogicalResult PermuteProbsOp::verify() {
  if (failed(
          expectShape(*this, "map", getMap(), tensorOf(getInput()).getShape())))
    return failure();
  return expectShape(*this, "result", getResult(),
                     {tensorOf(getInput()).getNumElements()});
}

SmallVector<Value> PermuteProbsOp::buildDataGrad(OpBuilder &b,
                                                 ArrayRef<Value> cotangents,
                                                 SavedFn saved) {
  return {UnpermuteProbsOp::create(b, getLoc(),
                                   cotangentType(getInput().getType()),
                                   cotangents[0], saved(getMap()), getModule()),
          Value()};
}

LogicalResult UnpermuteProbsOp::verify() {
  if (failed(expectShape(*this, "map", getMap(),
                         tensorOf(getResult()).getShape())))
    return failure();
  return expectShape(*this, "input", getInput(),
                     {tensorOf(getResult()).getNumElements()});
}

SmallVector<Value> UnpermuteProbsOp::buildDataGrad(OpBuilder &b,
                                                   ArrayRef<Value> cotangents,
                                                   SavedFn saved) {
  return {PermuteProbsOp::create(b, getLoc(),
                                 cotangentType(getInput().getType()),
                                 cotangents[0], saved(getMap()), getModule()),
          Value()};
}

//===----------------------------------------------------------------------===//
// Received rows
//===----------------------------------------------------------------------===//

LogicalResult LocalRowsOp::verify() {
  int64_t groups = getReceived().getType().getGroups();
  int64_t local = getResult().getType().getGroups();
  if (groups % local != 0)
    return emitOpError() << "result groups " << local
                         << " must divide received groups " << groups;
  return success();
}

DictionaryAttr LocalRowsOp::getKernelAttributes() {
  return number(getContext(), "ranks",
                double(getReceived().getType().getGroups() /
                       getResult().getType().getGroups()));
}

NumericClass LocalRowsOp::getNumericClass() {
  return NumericClass::Deterministic;
}

SmallVector<Value> LocalRowsOp::buildDataGrad(OpBuilder &, ArrayRef<Value>,
                                              SavedFn) {
  return {Value()};
}

LogicalResult SortChunksOp::verify() {
  if (getRanks() < 1 || getReceived().getType().getGroups() % getRanks() != 0)
    return emitOpError() << "ranks = " << getRanks()
                         << " must divide received groups "
                         << getReceived().getType().getGroups();
  return expectShape(*this, "result", getResult(),
                     tensorOf(getInput()).getShape());
}

DictionaryAttr SortChunksOp::getKernelAttributes() {
  Builder b(getContext());
  return b.getDictionaryAttr(
      {b.getNamedAttr("ranks", b.getF64FloatAttr(getRanks())),
       b.getNamedAttr("inverse", b.getF64FloatAttr(getInverse()))});
}

SmallVector<Value> SortChunksOp::buildDataGrad(OpBuilder &b,
                                               ArrayRef<Value> cotangents,
                                               SavedFn saved) {
  auto grad = SortChunksOp::create(
      b, getLoc(), cotangentType(getInput().getType()), cotangents[0],
      saved(getReceived()), getRanksAttr(),
      getInverse() ? UnitAttr() : b.getUnitAttr(), getModuleAttr());
  return {grad.getResult(), Value()};
}

//===----------------------------------------------------------------------===//
// Grouped linear
//===----------------------------------------------------------------------===//

/// Shapes of x [C, in], w [E, out, in], y [C, out].
static LogicalResult verifyGrouped(Operation *op, Value x, Value w,
                                   TypedValue<RowsType> rows, Value y) {
  if (failed(
          expectShape(op, "weight", w, {rows.getType().getGroups(), -1, -1})) ||
      failed(expectShape(op, "input rows", x, {-1, dim(w, 2)})))
    return failure();
  return expectShape(op, "output rows", y, {dim(x, 0), dim(w, 1)});
}

static double groupedFlops(TypedValue<RowsType> rows, Value weight) {
  return 2.0 * rows.getType().getMean() * dim(weight, 1) * dim(weight, 2);
}

LogicalResult GroupedLinearOp::verify() {
  return verifyGrouped(*this, getInput(), getWeight(), getRows(), getResult());
}
double GroupedLinearOp::getFlops() {
  return groupedFlops(getRows(), getWeight());
}
int64_t GroupedLinearOp::getWeightOperand() { return 1; }

SmallVector<Value> GroupedLinearOp::buildDataGrad(OpBuilder &b,
                                                  ArrayRef<Value> cotangents,
                                                  SavedFn saved) {
  return {GroupedLinearDgradOp::create(
              b, getLoc(), cotangentType(getInput().getType()), cotangents[0],
              saved(getWeight()), saved(getRows()), getModule()),
          Value(), Value()};
}

Value GroupedLinearOp::buildWeightGrad(OpBuilder &b, ArrayRef<Value> cotangents,
                                       Value accumulator, SavedFn saved) {
  return GroupedLinearWgradOp::create(
      b, getLoc(), accumulator.getType(), saved(getInput()), cotangents[0],
      saved(getRows()), accumulator, getModule());
}

LogicalResult GroupedLinearDgradOp::verify() {
  return verifyGrouped(*this, getResult(), getWeight(), getRows(),
                       getCotangent());
}
int64_t GroupedLinearDgradOp::getParameterOperand() { return 1; }
double GroupedLinearDgradOp::getFlops() {
  return groupedFlops(getRows(), getWeight());
}

LogicalResult GroupedLinearWgradOp::verify() {
  if (failed(expectF32(*this, "accumulator", getAccumulator())))
    return failure();
  if (getAccumulator().getType() != getResult().getType())
    return emitOpError() << "result must have the accumulator's type "
                         << getAccumulator().getType();
  return verifyGrouped(*this, getInput(), getAccumulator(), getRows(),
                       getCotangent());
}
double GroupedLinearWgradOp::getFlops() {
  return groupedFlops(getRows(), getAccumulator());
}

//===----------------------------------------------------------------------===//
// SwiGLU
//===----------------------------------------------------------------------===//

static LogicalResult verifySwiglu(Operation *op, Value x, Value p, Value y) {
  if (failed(expectShape(op, "input", x, {-1, -1})) ||
      failed(expectShape(op, "probabilities", p, {dim(x, 0)})))
    return failure();
  if (dim(x, 1) % 2 != 0)
    return op->emitOpError() << "width " << dim(x, 1) << " must be even";
  return expectShape(op, "output", y, {dim(x, 0), dim(x, 1) / 2});
}

LogicalResult SwigluOp::verify() {
  return verifySwiglu(*this, getInput(), getProbabilities(), getResult());
}

SmallVector<Value> SwigluOp::buildDataGrad(OpBuilder &b,
                                           ArrayRef<Value> cotangents,
                                           SavedFn saved) {
  auto grad = SwigluGradOp::create(
      b, getLoc(), cotangentType(getInput().getType()),
      cotangentType(getProbabilities().getType()), saved(getInput()),
      saved(getProbabilities()), cotangents[0], saved(getRows()), getModule());
  return {grad.getDinput(), grad.getDprobabilities(), Value()};
}

LogicalResult SwigluGradOp::verify() {
  if (failed(verifySwiglu(*this, getInput(), getProbabilities(),
                          getCotangent())) ||
      failed(expectShape(*this, "dinput", getDinput(),
                         tensorOf(getInput()).getShape())))
    return failure();
  return expectShape(*this, "dprobabilities", getDprobabilities(),
                     tensorOf(getProbabilities()).getShape());
}
