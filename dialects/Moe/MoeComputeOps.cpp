#include "dialects/Moe/MoeVerify.h"

using namespace mlir;
using namespace mlir::moe;

using SavedFn = llvm::function_ref<Value(Value)>;

/// A dictionary of numbers for the kernel.
static DictionaryAttr numbers(MLIRContext *context,
                              ArrayRef<std::pair<StringRef, double>> values) {
  Builder builder(context);
  SmallVector<NamedAttribute> attributes;
  for (auto [name, value] : values)
    attributes.push_back(
        builder.getNamedAttr(name, builder.getF64FloatAttr(value)));
  return builder.getDictionaryAttr(attributes);
}

static LogicalResult verifyAccumulator(Operation *op, Value accumulator,
                                       Value result) {
  if (accumulator.getType() != result.getType())
    return op->emitOpError() << "result must have the accumulator's type "
                             << accumulator.getType();
  return expectF32(op, "accumulator", accumulator);
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  if (failed(expectShape(*this, "table", getTable(), {-1, -1})) ||
      failed(expectShape(*this, "ids", getIds(), {-1})))
    return failure();
  return expectShape(*this, "result", getResult(),
                     {dim(getIds(), 0), dim(getTable(), 1)});
}

SmallVector<Value> EmbeddingOp::buildDataGrad(OpBuilder &, ArrayRef<Value>,
                                              SavedFn) {
  return {Value(), Value()};
}

int64_t EmbeddingOp::getWeightOperand() { return 0; }

Value EmbeddingOp::buildWeightGrad(OpBuilder &b, ArrayRef<Value> cotangents,
                                   Value accumulator, SavedFn saved) {
  return EmbeddingWgradOp::create(b, getLoc(), accumulator.getType(),
                                  saved(getIds()), cotangents[0], accumulator,
                                  getModule());
}

LogicalResult EmbeddingWgradOp::verify() {
  if (failed(expectShape(*this, "ids", getIds(), {-1})) ||
      failed(expectShape(*this, "accumulator", getAccumulator(), {-1, -1})) ||
      failed(expectShape(*this, "cotangent", getCotangent(),
                         {dim(getIds(), 0), dim(getAccumulator(), 1)})))
    return failure();
  return verifyAccumulator(*this, getAccumulator(), getResult());
}

//===----------------------------------------------------------------------===//
// RMSNorm
//===----------------------------------------------------------------------===//

static LogicalResult verifyNorm(Operation *op, Value input, Value weight,
                                Value other) {
  if (failed(expectShape(op, "input", input, {-1, -1})) ||
      failed(expectShape(op, "weight", weight, {-1})))
    return failure();
  int64_t width = dim(weight, 0);
  if (width == 0 || dim(input, 1) % width != 0)
    return op->emitOpError()
           << "width of the weight, " << width
           << ", must divide that of the input, " << dim(input, 1);
  return expectShape(op, "result and cotangent", other,
                     tensorOf(input).getShape());
}

LogicalResult RmsNormOp::verify() {
  return verifyNorm(*this, getInput(), getWeight(), getResult());
}

DictionaryAttr RmsNormOp::getKernelAttributes() {
  return numbers(getContext(), {{"eps", getEps().convertToDouble()}});
}

SmallVector<Value> RmsNormOp::buildDataGrad(OpBuilder &b,
                                            ArrayRef<Value> cotangents,
                                            SavedFn saved) {
  return {RmsNormDgradOp::create(b, getLoc(),
                                 cotangentType(getInput().getType()),
                                 saved(getInput()), saved(getWeight()),
                                 cotangents[0], getEpsAttr(), getModuleAttr()),
          Value()};
}

int64_t RmsNormOp::getWeightOperand() { return 1; }

Value RmsNormOp::buildWeightGrad(OpBuilder &b, ArrayRef<Value> cotangents,
                                 Value accumulator, SavedFn saved) {
  return RmsNormWgradOp::create(b, getLoc(), accumulator.getType(),
                                saved(getInput()), cotangents[0], accumulator,
                                getEpsAttr(), getModuleAttr());
}

LogicalResult RmsNormDgradOp::verify() {
  if (failed(verifyNorm(*this, getInput(), getWeight(), getCotangent())))
    return failure();
  return expectShape(*this, "result", getResult(),
                     tensorOf(getInput()).getShape());
}

int64_t RmsNormDgradOp::getParameterOperand() { return 1; }

DictionaryAttr RmsNormDgradOp::getKernelAttributes() {
  return numbers(getContext(), {{"eps", getEps().convertToDouble()}});
}

LogicalResult RmsNormWgradOp::verify() {
  if (failed(verifyNorm(*this, getInput(), getAccumulator(), getCotangent())))
    return failure();
  return verifyAccumulator(*this, getAccumulator(), getResult());
}

DictionaryAttr RmsNormWgradOp::getKernelAttributes() {
  return numbers(getContext(), {{"eps", getEps().convertToDouble()}});
}

//===----------------------------------------------------------------------===//
// Linear
//===----------------------------------------------------------------------===//

LogicalResult LinearOp::verify() {
  if (failed(expectShape(*this, "weight", getWeight(), {-1, -1})) ||
      failed(
          expectShape(*this, "input", getInput(), {-1, dim(getWeight(), 1)})))
    return failure();
  return expectShape(*this, "result", getResult(),
                     {dim(getInput(), 0), dim(getWeight(), 0)});
}

double LinearOp::getFlops() {
  return 2.0 * dim(getInput(), 0) * dim(getWeight(), 0) * dim(getWeight(), 1);
}

SmallVector<Value> LinearOp::buildDataGrad(OpBuilder &b,
                                           ArrayRef<Value> cotangents,
                                           SavedFn saved) {
  return {LinearDgradOp::create(b, getLoc(),
                                cotangentType(getInput().getType()),
                                cotangents[0], saved(getWeight()), getModule()),
          Value()};
}

int64_t LinearOp::getWeightOperand() { return 1; }

Value LinearOp::buildWeightGrad(OpBuilder &b, ArrayRef<Value> cotangents,
                                Value accumulator, SavedFn saved) {
  return LinearWgradOp::create(b, getLoc(), accumulator.getType(),
                               saved(getInput()), cotangents[0], accumulator,
                               getModule());
}

LogicalResult LinearDgradOp::verify() {
  if (failed(expectShape(*this, "weight", getWeight(), {-1, -1})) ||
      failed(expectShape(*this, "cotangent", getCotangent(),
                         {-1, dim(getWeight(), 0)})))
    return failure();
  return expectShape(*this, "result", getResult(),
                     {dim(getCotangent(), 0), dim(getWeight(), 1)});
}

int64_t LinearDgradOp::getParameterOperand() { return 1; }

double LinearDgradOp::getFlops() {
  return 2.0 * dim(getCotangent(), 0) * dim(getWeight(), 0) *
         dim(getWeight(), 1);
}

LogicalResult LinearWgradOp::verify() {
  if (failed(expectShape(*this, "accumulator", getAccumulator(), {-1, -1})) ||
      failed(expectShape(*this, "input", getInput(),
                         {-1, dim(getAccumulator(), 1)})) ||
      failed(expectShape(*this, "cotangent", getCotangent(),
                         {dim(getInput(), 0), dim(getAccumulator(), 0)})))
    return failure();
  return verifyAccumulator(*this, getAccumulator(), getResult());
}

double LinearWgradOp::getFlops() {
  return 2.0 * dim(getInput(), 0) * dim(getAccumulator(), 0) *
         dim(getAccumulator(), 1);
}

//===----------------------------------------------------------------------===//
// RoPE
//===----------------------------------------------------------------------===//

LogicalResult RopeOp::verify() {
  if (failed(expectShape(*this, "input", getInput(), {-1, -1})) ||
      failed(expectShape(*this, "result", getResult(),
                         tensorOf(getInput()).getShape())))
    return failure();
  int64_t width = getHeadDim();
  if (width < 2 || width % 2 != 0 || dim(getInput(), 1) % width != 0)
    return emitOpError() << "head_dim = " << width
                         << " must be even and divide the width "
                         << dim(getInput(), 1);
  if (getSequence() < 1 || dim(getInput(), 0) % getSequence() != 0)
    return emitOpError() << "sequence = " << getSequence()
                         << " must divide the rows " << dim(getInput(), 0);
  return success();
}

DictionaryAttr RopeOp::getKernelAttributes() {
  return numbers(getContext(), {{"head_dim", double(getHeadDim())},
                                {"base", getBase().convertToDouble()},
                                {"sequence", double(getSequence())},
                                {"inverse", getInverse() ? 1.0 : 0.0}});
}

SmallVector<Value> RopeOp::buildDataGrad(OpBuilder &b,
                                         ArrayRef<Value> cotangents, SavedFn) {
  auto grad = RopeOp::create(
      b, getLoc(), cotangentType(getInput().getType()), cotangents[0],
      getHeadDimAttr(), getBaseAttr(), getSequenceAttr(),
      getInverse() ? UnitAttr() : b.getUnitAttr(), getModuleAttr());
  return {grad.getResult()};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

template <typename Op> static LogicalResult verifyAttention(Op op) {
  int64_t rows = dim(op.getQuery(), 0);
  int64_t heads = op.getHeads(), kvHeads = op.getKvHeads();
  if (heads < 1 || kvHeads < 1 || heads % kvHeads != 0)
    return op.emitOpError()
           << "kv_heads = " << kvHeads << " must divide heads = " << heads;
  if (op.getSequence() < 1 || rows % op.getSequence() != 0)
    return op.emitOpError() << "sequence = " << op.getSequence()
                            << " must divide the rows " << rows;
  int64_t width = heads * op.getHeadDim(), kvWidth = kvHeads * op.getHeadDim();
  if (failed(expectShape(op, "query", op.getQuery(), {rows, width})) ||
      failed(expectShape(op, "key", op.getKey(), {rows, kvWidth})) ||
      failed(expectShape(op, "value", op.getValue(), {rows, kvWidth})) ||
      failed(expectShape(op, "output", op.getOutput(), {rows, width})) ||
      failed(expectShape(op, "lse", op.getLse(), {rows, heads})))
    return failure();
  return expectF32(op, "lse", op.getLse());
}

template <typename Op> static DictionaryAttr attentionAttributes(Op op) {
  return numbers(op.getContext(), {{"heads", double(op.getHeads())},
                                   {"kv_heads", double(op.getKvHeads())},
                                   {"head_dim", double(op.getHeadDim())},
                                   {"sequence", double(op.getSequence())},
                                   {"scale", op.getScale().convertToDouble()}});
}

/// Two products over the causal half: 2 * 2 * T * (sequence / 2) * n * d.
template <typename Op> static double attentionFlops(Op op) {
  return 2.0 * dim(op.getQuery(), 0) * op.getSequence() * op.getHeads() *
         op.getHeadDim();
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }
double AttentionOp::getFlops() { return attentionFlops(*this); }
DictionaryAttr AttentionOp::getKernelAttributes() {
  return attentionAttributes(*this);
}

SmallVector<Value> AttentionOp::buildDataGrad(OpBuilder &b,
                                              ArrayRef<Value> cotangents,
                                              SavedFn saved) {
  // Only backward may read lse.
  if (cotangents[1])
    return {Value(), Value(), Value()};
  auto grad = AttentionGradOp::create(
      b, getLoc(), cotangentType(getQuery().getType()),
      cotangentType(getKey().getType()), cotangentType(getValue().getType()),
      saved(getQuery()), saved(getKey()), saved(getValue()), saved(getOutput()),
      saved(getLse()), cotangents[0], getHeads(), getKvHeads(), getHeadDim(),
      getSequence(), getScale(), getModule());
  return {grad.getDquery(), grad.getDkey(), grad.getDvalue()};
}

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyAttention(*this)) ||
      failed(expectShape(*this, "cotangent", getCotangent(),
                         tensorOf(getQuery()).getShape())) ||
      failed(expectShape(*this, "dquery", getDquery(),
                         tensorOf(getQuery()).getShape())) ||
      failed(
          expectShape(*this, "dkey", getDkey(), tensorOf(getKey()).getShape())))
    return failure();
  return expectShape(*this, "dvalue", getDvalue(),
                     tensorOf(getValue()).getShape());
}

/// Five products where forward has two.
double AttentionGradOp::getFlops() { return 2.5 * attentionFlops(*this); }
DictionaryAttr AttentionGradOp::getKernelAttributes() {
  return attentionAttributes(*this);
}
NumericClass AttentionGradOp::getNumericClass() {
  return NumericClass::Deterministic;
}

//===----------------------------------------------------------------------===//
// Add
//===----------------------------------------------------------------------===//

LogicalResult AddOp::verify() {
  if (failed(
          expectShape(*this, "rhs", getRhs(), tensorOf(getLhs()).getShape())))
    return failure();
  return expectShape(*this, "result", getResult(),
                     tensorOf(getLhs()).getShape());
}

LogicalResult AddOp::inferDistribution(ArrayRef<DistAttr> operands,
                                       SmallVectorImpl<DistAttr> &results) {
  bool linear = operands[0] && operands[0] == operands[1] &&
                !operands[0].has(DistKind::PartialMax);
  if (!linear)
    return inferRankwise(*this, operands, results);
  results.assign(1, operands[0]);
  return success();
}

SmallVector<Value> AddOp::buildDataGrad(OpBuilder &, ArrayRef<Value> cotangents,
                                        SavedFn) {
  return {cotangents[0], cotangents[0]};
}

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

LogicalResult CrossEntropyOp::verify() {
  if (failed(expectShape(*this, "logits", getLogits(), {-1, -1})) ||
      failed(
          expectShape(*this, "labels", getLabels(), {dim(getLogits(), 0)})) ||
      failed(expectShape(*this, "loss", getLoss(), {1})))
    return failure();
  return expectF32(*this, "loss", getLoss());
}

DictionaryAttr CrossEntropyOp::getKernelAttributes() {
  return numbers(getContext(), {{"scale", getScale().convertToDouble()}});
}

NumericClass CrossEntropyOp::getNumericClass() {
  return NumericClass::Deterministic;
}

LogicalResult
CrossEntropyOp::inferDistribution(ArrayRef<DistAttr> operands,
                                  SmallVectorImpl<DistAttr> &results) {
  if (failed(inferRankwise(*this, operands, results)))
    return failure();
  if (DistAttr rows = results[0])
    for (const AxisDist &axis : rows.getAxes())
      if (axis.kind == DistKind::Varying)
        results[0] =
            results[0].with(axis.axis.getValue(), DistKind::PartialSum);
  return success();
}

SmallVector<Value> CrossEntropyOp::buildDataGrad(OpBuilder &b, ArrayRef<Value>,
                                                 SavedFn saved) {
  return {CrossEntropyGradOp::create(b, getLoc(),
                                     cotangentType(getLogits().getType()),
                                     saved(getLogits()), saved(getLabels()),
                                     getScaleAttr(), getModuleAttr()),
          Value()};
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(expectShape(*this, "labels", getLabels(), {dim(getLogits(), 0)})))
    return failure();
  return expectShape(*this, "result", getResult(),
                     tensorOf(getLogits()).getShape());
}

DictionaryAttr CrossEntropyGradOp::getKernelAttributes() {
  return numbers(getContext(), {{"scale", getScale().convertToDouble()}});
}

//===----------------------------------------------------------------------===//
// What all weight gradients share
//===----------------------------------------------------------------------===//

#define MOE_WEIGHT_GRAD(Op)                                                    \
  bool Op::accumulates() { return true; }                                      \
  NumericClass Op::getNumericClass() { return NumericClass::Deterministic; }   \
  LogicalResult Op::inferDistribution(ArrayRef<DistAttr> operands,             \
                                      SmallVectorImpl<DistAttr> &results) {    \
    return inferWeightGrad(*this, operands, results);                          \
  }
MOE_WEIGHT_GRAD(EmbeddingWgradOp)
MOE_WEIGHT_GRAD(RmsNormWgradOp)
MOE_WEIGHT_GRAD(LinearWgradOp)
MOE_WEIGHT_GRAD(GroupedLinearWgradOp)
#undef MOE_WEIGHT_GRAD
