#include "BuildBackward.h"

#include "moe/Support/TrainingProgram.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Reverse-mode differentiation of one layer.
class Backward {
public:
  explicit Backward(LayerOp layer)
      : layer(layer), builder(layer.getContext()) {}

  LogicalResult build();

private:
  /// Finds the values whose cotangent something needs.
  LogicalResult findWanted();
  LogicalResult createRegion();
  LogicalResult differentiate(Operation *op);
  /// The cotangents of the operands of `op`, given those of its results.
  LogicalResult dataGrad(DifferentiableOpInterface op,
                         ArrayRef<Value> cotangents);
  LogicalResult weightGrad(DifferentiableOpInterface op,
                           ArrayRef<Value> cotangents);
  void contribute(Value value, Value cotangent, Operation *from);
  LogicalResult finish();

  /// The stand-in of a forward value inside the region.
  Value saved(Value value);
  /// The op's parameter, null if it has none.
  ParamOp parameter(DifferentiableOpInterface op);
  /// The sum of the gradients so far of a parameter.
  Value &accumulator(ParamOp param);
  /// Puts an op that declares something behind those declared before it.
  void placeDeclaration(Operation *&last, Operation *before);

  LayerOp layer;
  OpBuilder builder;
  BackwardOp backward;
  SmallVector<Value> savedValues;
  DenseSet<Value> wanted;
  /// Forward value -> sum of its cotangents so far.
  DenseMap<Value, Value> cotangentOf;
  DenseMap<Value, Value> standIns;
  /// Name patterns -> the parameter's declaration, its gradient so far.
  DenseMap<ArrayAttr, Value> params;
  llvm::MapVector<ArrayAttr, Value> grads;
  Operation *lastParam = nullptr, *lastGrad = nullptr;
};

} // namespace

/// "<name of the forward op>/<suffix>"; an op without a name has its mnemonic.
static Location backwardLoc(Operation *op, StringRef suffix) {
  Location loc = op->getLoc();
  StringRef name = op->getName().stripDialect();
  Location child = loc;
  if (auto named = loc->findInstanceOf<NameLoc>()) {
    name = named.getName();
    child = named.getChildLoc();
  }
  return NameLoc::get(StringAttr::get(op->getContext(), name + "/" + suffix),
                      child);
}

/// Calls `create` and names what it creates at the end of the block.
template <typename Fn>
static auto named(OpBuilder &builder, Location loc, Fn create) {
  Block *block = builder.getInsertionBlock();
  Operation *before = block->empty() ? nullptr : &block->back();
  auto result = create();
  auto first = before ? std::next(before->getIterator()) : block->begin();
  for (Operation &op : llvm::make_range(first, block->end()))
    if (!isa<ParamOp, GradOp>(op))
      op.setLoc(loc);
  return result;
}

ParamOp Backward::parameter(DifferentiableOpInterface op) {
  int64_t weight = op.getWeightOperand();
  return weight < 0 ? ParamOp()
                    : op->getOperand(weight).getDefiningOp<ParamOp>();
}

LogicalResult Backward::findWanted() {
  for (BlockArgument argument : layer.getBody().getArguments())
    if (isFloatTensor(argument.getType()))
      wanted.insert(argument);
  for (Operation &op : layer.getBody().front().without_terminator()) {
    if (isa<ParamOp>(op))
      continue;
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    int64_t weight = differentiable ? differentiable.getWeightOperand() : -1;
    bool wants = false;
    for (OpOperand &operand : op.getOpOperands()) {
      bool param = operand.get().getDefiningOp<ParamOp>() != nullptr;
      if (operand.getOperandNumber() == weight) {
        if (!param)
          return op.emitOpError() << "operand #" << weight
                                  << " must be a moe.param, to have a gradient";
      } else if (param) {
        return op.emitOpError()
               << "operand #" << operand.getOperandNumber()
               << " is a parameter, of which this op has no gradient";
      }
      wants |= param || wanted.contains(operand.get());
    }
    if (!wants)
      continue;
    if (!differentiable)
      return op.emitOpError("has no backward");
    for (Value result : op.getResults())
      if (isFloatTensor(result.getType()))
        wanted.insert(result);
  }
  return success();
}

LogicalResult Backward::createRegion() {
  ReturnOp terminator = layer.getReturn();
  builder.setInsertionPoint(terminator);
  backward = BackwardOp::create(builder, layer.getLoc(), ValueRange());
  Block *body = &backward.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(body);
  for (OpOperand &operand : terminator->getOpOperands()) {
    Value result = operand.get();
    if (!isFloatTensor(result.getType()))
      continue;
    if (isLoss(result)) {
      if (!result.hasOneUse())
        return result.getDefiningOp()->emitOpError(
            "the loss must only be returned: its cotangent is one");
      continue;
    }
    BlockArgument argument =
        body->addArgument(cotangentType(result.getType()), terminator.getLoc());
    if (!wanted.contains(result))
      return terminator.emitOpError()
             << "result #" << operand.getOperandNumber()
             << " depends on no parameter and no float argument";
    contribute(result, argument, terminator);
  }
  return success();
}

void Backward::placeDeclaration(Operation *&last, Operation *before) {
  if (last)
    builder.setInsertionPointAfter(last);
  else if (before)
    builder.setInsertionPointAfter(before);
  else
    builder.setInsertionPointToStart(&backward.getBody().front());
}

Value Backward::saved(Value value) {
  if (auto param = value.getDefiningOp<ParamOp>()) {
    Value &inner = params[param.getPatterns()];
    if (!inner) {
      OpBuilder::InsertionGuard guard(builder);
      placeDeclaration(lastParam, nullptr);
      lastParam = builder.clone(*param);
      inner = lastParam->getResult(0);
    }
    return inner;
  }
  Value &inner = standIns[value];
  if (!inner) {
    inner = backward.getBody().addArgument(value.getType(), value.getLoc());
    savedValues.push_back(value);
  }
  return inner;
}

Value &Backward::accumulator(ParamOp param) {
  Value &sum = grads[param.getPatterns()];
  if (!sum) {
    OpBuilder::InsertionGuard guard(builder);
    placeDeclaration(lastGrad, lastParam);
    auto grad =
        GradOp::create(builder, param.getLoc(), gradientType(param.getType()),
                       param.getPatterns());
    lastGrad = grad;
    sum = grad;
  }
  return sum;
}

void Backward::contribute(Value value, Value cotangent, Operation *from) {
  Value &sum = cotangentOf[value];
  if (!sum) {
    sum = cotangent;
    return;
  }
  // The sum belongs to what made the value; an argument is a residual stream.
  Module module = Module::Residual;
  if (Operation *producer = value.getDefiningOp()) {
    from = producer;
    if (auto attr = producer->getAttrOfType<ModuleAttr>("module"))
      module = attr.getValue();
  }
  sum = AddOp::create(builder, backwardLoc(from, "dgrad"), sum.getType(), sum,
                      cotangent, module);
}

LogicalResult Backward::dataGrad(DifferentiableOpInterface op,
                                 ArrayRef<Value> cotangents) {
  auto isWanted = [&](Value v) { return wanted.contains(v); };
  if (llvm::none_of(op->getOperands(), isWanted))
    return success();
  SmallVector<Value> gradients = named(builder, backwardLoc(op, "dgrad"), [&] {
    return op.buildDataGrad(builder, cotangents,
                            [&](Value v) { return saved(v); });
  });
  for (auto [operand, gradient] :
       llvm::zip_equal(op->getOpOperands(), gradients)) {
    if (!isWanted(operand.get()))
      continue;
    if (!gradient)
      return op.emitOpError()
             << "gives no cotangent of operand #" << operand.getOperandNumber();
    contribute(operand.get(), gradient, op);
  }
  return success();
}

LogicalResult Backward::weightGrad(DifferentiableOpInterface op,
                                   ArrayRef<Value> cotangents) {
  ParamOp param = parameter(op);
  if (!param)
    return success();
  Value sum = accumulator(param);
  grads[param.getPatterns()] = named(builder, backwardLoc(op, "wgrad"), [&] {
    return op.buildWeightGrad(builder, cotangents, sum,
                              [&](Value v) { return saved(v); });
  });
  return success();
}

LogicalResult Backward::differentiate(Operation *op) {
  auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
  if (!differentiable)
    return success();
  SmallVector<Value> cotangents;
  bool reached = false;
  for (Value result : op->getResults()) {
    cotangents.push_back(cotangentOf.lookup(result));
    reached |= cotangents.back() || isLoss(result);
  }
  if (!reached)
    return success();
  if (failed(dataGrad(differentiable, cotangents)))
    return failure();
  return weightGrad(differentiable, cotangents);
}

LogicalResult Backward::finish() {
  SmallVector<Value> results, sums;
  for (BlockArgument argument : layer.getBody().getArguments()) {
    if (!isFloatTensor(argument.getType()))
      continue;
    Value cotangent = cotangentOf.lookup(argument);
    if (!cotangent)
      return layer.emitOpError()
             << "no result depends on argument #" << argument.getArgNumber();
    results.push_back(cotangent);
  }
  for (auto &[patterns, sum] : grads)
    sums.push_back(sum);
  BackwardReturnOp::create(builder, layer.getReturn().getLoc(), results, sums);
  backward.getSavedMutable().assign(savedValues);
  return success();
}

LogicalResult Backward::build() {
  if (failed(findWanted()) || failed(createRegion()))
    return failure();
  Block &forward = layer.getBody().front();
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(forward.without_terminator())))
    if (!isa<ParamOp, BackwardOp>(op) && failed(differentiate(&op)))
      return failure();
  return finish();
}

LogicalResult mlir::moe::buildBackward(LayerOp layer) {
  auto existing = layer.getBody().getOps<BackwardOp>();
  if (!existing.empty())
    return (*existing.begin())->emitOpError("already there");
  return Backward(layer).build();
}
