#include "moe/Support/TrainingProgram.h"

#include "moe/Support/Phase.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::moe;

/// The kernel that an op calls, null: it is no call.
static KernelOp calledKernel(Operation *op) {
  auto call = dyn_cast_or_null<CallOp>(op);
  if (!call)
    return {};
  return SymbolTable::lookupNearestSymbolFrom<KernelOp>(op,
                                                        call.getKernelAttr());
}

static bool accumulates(Operation *op) {
  if (KernelOp kernel = calledKernel(op))
    return kernel.getAccumulates();
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return compute && compute.accumulates();
}

static bool decidesRouting(Operation *op) {
  if (KernelOp kernel = calledKernel(op))
    return llvm::is_contained({"route", "permutation", "local_rows"},
                              kernel.getOp());
  return isa<RouteOp, PermutationOp, ExchangeCountsOp, LocalRowsOp>(op);
}

bool mlir::moe::isLoss(Value value) {
  if (KernelOp kernel = calledKernel(value.getDefiningOp()))
    return kernel.getOp() == "cross_entropy";
  return value.getDefiningOp<CrossEntropyOp>() != nullptr;
}

bool mlir::moe::isFloatTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType());
}

namespace {

/// Checks one `moe.backward` against its layer.
class BackwardChecker {
public:
  explicit BackwardChecker(BackwardOp backward)
      : backward(backward), layer(cast<LayerOp>(backward->getParentOp())) {}

  LogicalResult check() {
    return success(succeeded(checkSaved()) && succeeded(checkBody()) &&
                   succeeded(checkCotangents()) && succeeded(checkGrads()));
  }

private:
  LogicalResult checkSaved();
  LogicalResult checkBody();
  LogicalResult checkCotangents();
  LogicalResult checkGrads();

  BackwardOp backward;
  LayerOp layer;
};

} // namespace

LogicalResult BackwardChecker::checkSaved() {
  DenseMap<Value, unsigned> seen;
  for (auto [i, value] : llvm::enumerate(backward.getSaved())) {
    auto [first, isNew] = seen.try_emplace(value, i);
    if (!isNew)
      return backward.emitOpError()
             << "saved value #" << i << " is saved value #" << first->second
             << " again";
    if (value.getDefiningOp<ParamOp>())
      return backward.emitOpError()
             << "saved value #" << i
             << " is a parameter, which backward must declare instead";
    if (backward.getSavedArgument(i).use_empty())
      return backward.emitOpError() << "saved value #" << i << " is not used";
  }
  return success();
}

LogicalResult BackwardChecker::checkBody() {
  for (Operation &op : backward.getBody().front().without_terminator()) {
    if (decidesRouting(&op))
      return op.emitOpError(
          "decides a routing in backward; it is decided once, "
          "in forward, and saved (a second decision may differ: ties, other "
          "ranks' counts)");
    if (op.use_empty())
      return op.emitOpError("computes what nothing uses");
  }
  return success();
}

/// Error unless the values' types are the cotangents' of `primals`.
static LogicalResult expectCotangents(Operation *op, StringRef what,
                                      ValueRange cotangents,
                                      ArrayRef<Value> primals) {
  if (cotangents.size() != primals.size())
    return op->emitOpError() << "has " << cotangents.size() << " cotangents of "
                             << what << ", but there are " << primals.size();
  for (auto [i, primal] : llvm::enumerate(primals))
    if (cotangents[i].getType() != cotangentType(primal.getType()))
      return op->emitOpError() << "cotangent of " << what << " #" << i
                               << " must be " << cotangentType(primal.getType())
                               << ", but is " << cotangents[i].getType();
  return success();
}

LogicalResult BackwardChecker::checkCotangents() {
  SmallVector<Value> results, arguments;
  for (Value result : layer.getReturn()->getOperands())
    if (isFloatTensor(result.getType()) && !isLoss(result))
      results.push_back(result);
  for (BlockArgument argument : layer.getBody().getArguments())
    if (isFloatTensor(argument.getType()))
      arguments.push_back(argument);
  ValueRange given(backward.getBody().getArguments().take_front(
      backward.getNumCotangents()));
  if (failed(expectCotangents(backward, "float results", given, results)))
    return failure();
  return expectCotangents(backward.getReturn(), "float arguments",
                          backward.getReturn().getCotangents(), arguments);
}

LogicalResult BackwardChecker::checkGrads() {
  // The parameters of forward, in a set: each must have one accumulator.
  llvm::MapVector<Attribute, ParamOp> params;
  for (ParamOp param : layer.getBody().getOps<ParamOp>())
    params.insert({param.getPatterns(), param});
  DenseSet<Attribute> summed;
  DenseSet<Operation *> sums;
  for (auto [i, grad] : llvm::enumerate(backward.getBody().getOps<GradOp>())) {
    ParamOp param = params.lookup(grad.getPatterns());
    if (!param)
      return grad.emitOpError("is of no parameter of the layer");
    if (!summed.insert(grad.getPatterns()).second)
      return grad.emitOpError("is declared twice");
    RankedTensorType want = gradientType(param.getType());
    if (want.getShape() != grad.getType().getShape() ||
        want.getEncoding() != grad.getType().getEncoding())
      return grad.emitOpError() << "must have the shape and distribution of "
                                << want << ", but is " << grad.getType();
    Value sum = grad;
    while (true) {
      if (!sum.hasOneUse())
        return grad.emitOpError()
               << "a gradient sum must be used exactly once, but one has "
               << llvm::range_size(sum.getUses()) << " uses";
      OpOperand &use = *sum.getUses().begin();
      if (isa<BackwardReturnOp>(use.getOwner())) {
        if (backward.getReturn().getGrads()[i] != sum)
          return grad.emitOpError()
                 << "must be returned as gradient sum #" << i;
        break;
      }
      Operation *add = use.getOwner();
      if (!accumulates(add) ||
          use.getOperandNumber() != add->getNumOperands() - 1)
        return add->emitOpError()
               << "uses a gradient sum other than to add to it";
      sum = add->getResult(0);
      sums.insert(add);
    }
  }
  // An op that updates its operand in place has no other business.
  for (Block *block : {&layer.getBody().front(), &backward.getBody().front()})
    for (Operation &op : *block)
      if (accumulates(&op) && !sums.contains(&op))
        return op.emitOpError("adds to what is no gradient sum of backward");
  for (auto &[patterns, param] : params)
    if (!summed.contains(patterns))
      return param.emitOpError("has no gradient in the layer's backward");
  return success();
}

/// Error unless forward and backward of a range are a pair.
static LogicalResult checkApply(ApplyOp apply, SymbolTableCollection &tables) {
  auto layer =
      tables.lookupNearestSymbolFrom<LayerOp>(apply, apply.getLayerAttr());
  if (llvm::range_size(layer.getBody().getOps<BackwardOp>()) != 1)
    return apply.emitOpError()
           << "'" << apply.getLayer() << "' must have exactly one moe.backward";
  if (!isa_and_nonnull<SavedType>(apply.getOutputs().empty()
                                      ? Type()
                                      : apply.getOutputs().back().getType()))
    return apply.emitOpError("must keep what backward needs (!moe.saved)");
  Value saved = apply.getOutputs().back();
  if (!saved.hasOneUse())
    return apply.emitOpError() << "saved values must be used exactly once, but "
                                  "are used "
                               << llvm::range_size(saved.getUses()) << " times";
  auto backward = dyn_cast<ApplyBackwardOp>(*saved.getUsers().begin());
  if (!backward || backward.getLower() != apply.getLower() ||
      backward.getUpper() != apply.getUpper() ||
      backward.getStageAttr() != apply.getStageAttr())
    return apply.emitOpError(
        "saved values must go to the backward of the same range and stage");
  return success();
}

/// Error unless gradient sum #i goes from zero through one backward of the
/// range to the optimizer.
static LogicalResult checkSum(MicroBatchesOp loop, OptimizerOp optimizer,
                              unsigned i) {
  auto once = [&](Value sum) -> Operation * {
    return sum.hasOneUse() ? *sum.getUsers().begin() : nullptr;
  };
  auto zero = loop.getInitial()[i].getDefiningOp<ZeroGradsOp>();
  if (!zero || once(zero) != loop)
    return loop.emitOpError() << "gradient sum #" << i
                              << " must start at a moe.zero_grads of its own";
  BlockArgument argument = loop.getBody().getArgument(i + 2);
  auto backward = dyn_cast_or_null<ApplyBackwardOp>(once(argument));
  if (!backward || backward.getLower() != zero.getLower() ||
      backward.getUpper() != zero.getUpper() ||
      backward.getStageAttr() != zero.getStageAttr())
    return loop.emitOpError()
           << "gradient sum #" << i
           << " must be used once, by the backward of its range and stage";
  auto yield = cast<YieldOp>(loop.getBody().front().getTerminator());
  if (once(backward.getSums()) != yield ||
      yield.getSums()[i] != backward.getSums())
    return loop.emitOpError()
           << "gradient sum #" << i << " must be yielded in its own place";
  if (once(loop.getSums()[i]) != optimizer)
    return loop.emitOpError()
           << "gradient sum #" << i << " must go to the optimizer, once";
  return success();
}

/// Error if an index of a layer is applied twice: each application has
/// parameters of its own.
static LogicalResult checkRanges(MicroBatchesOp loop) {
  SmallVector<ApplyOp> applies(loop.getBody().getOps<ApplyOp>());
  for (auto [i, a] : llvm::enumerate(applies))
    for (ApplyOp b : ArrayRef(applies).drop_front(i + 1))
      if (a.getLayer() == b.getLayer() && a.getLower() < b.getUpper() &&
          b.getLower() < a.getUpper()) {
        InFlightDiagnostic diagnostic =
            b.emitOpError()
            << "applies '" << b.getLayer() << "' [" << b.getLower() << " to "
            << b.getUpper() << "], of which a part is applied already";
        diagnostic.attachNote(a.getLoc()) << "here";
        return diagnostic;
      }
  return success();
}

static LogicalResult checkTrain(TrainOp train, LayoutAttr layout) {
  auto loops = llvm::to_vector(train.getBody().getOps<MicroBatchesOp>());
  auto optimizers = llvm::to_vector(train.getBody().getOps<OptimizerOp>());
  if (loops.size() != 1 || optimizers.size() != 1)
    return train.emitOpError(
        "must hold one moe.micro_batches and one moe.optimizer");
  MicroBatchesOp loop = loops.front();
  if (static_cast<int64_t>(loop.getCount()) != layout.getMicroBatches())
    return loop.emitOpError()
           << "runs " << loop.getCount()
           << " micro-batches, but the layout has " << layout.getMicroBatches();
  SymbolTableCollection tables;
  for (ApplyOp apply : loop.getBody().getOps<ApplyOp>())
    if (failed(checkApply(apply, tables)))
      return failure();
  if (failed(checkRanges(loop)))
    return failure();
  for (unsigned i = 0; i < loop.getInitial().size(); ++i)
    if (failed(checkSum(loop, optimizers.front(), i)))
      return failure();
  return success();
}

LogicalResult mlir::moe::checkBackwards(ModuleOp module) {
  for (LayerOp layer : module.getOps<LayerOp>())
    for (BackwardOp backward : layer.getBody().getOps<BackwardOp>())
      if (failed(BackwardChecker(backward).check()))
        return failure();
  return success();
}

LogicalResult mlir::moe::checkTrainingProgram(ModuleOp module) {
  if (failed(checkBackwards(module)))
    return failure();
  auto trains = llvm::to_vector(module.getOps<TrainOp>());
  if (trains.size() != 1)
    return module.emitError() << "expected exactly one moe.train, but there "
                              << (trains.empty() ? "is none" : "are several");
  FailureOr<LayoutAttr> layout = getLayout(module);
  if (failed(layout))
    return failure();
  return checkTrain(trains.front(), *layout);
}
