#include "moe/Transforms/Training/Passes.h"

#include "BuildBackward.h"
#include "moe/Support/Phase.h"
#include "moe/Transforms/Spmd/Distribution.h"

namespace mlir::moe {
#define GEN_PASS_DEF_VERIFYTRAINING
#include "moe/Transforms/Training/Passes.h.inc"

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

struct VerifyTraining : impl::VerifyTrainingBase<VerifyTraining> {
  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module);
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
    if (isa<RouteOp, PermutationOp, ExchangeCountsOp, LocalRowsOp>(op))
      return op.emitOpError(
          "decides a routing in backward; it is decided once, "
          "in forward, and saved");
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
      auto compute = dyn_cast<ComputeOpInterface>(use.getOwner());
      if (!compute || !compute.accumulates() ||
          use.getOperandNumber() != compute->getNumOperands() - 1)
        return use.getOwner()->emitOpError()
               << "uses a gradient sum other than to add to it";
      sum = compute->getResult(0);
    }
  }
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
  for (unsigned i = 0; i < loop.getInitial().size(); ++i)
    if (failed(checkSum(loop, optimizers.front(), i)))
      return failure();
  return success();
}

LogicalResult VerifyTraining::run(ModuleOp module) {
  FailureOr<LayoutAttr> layout = getLayout(module);
  if (failed(expectPhase(module, Phase::Training)) || failed(layout))
    return failure();
  for (ModelOp model : module.getOps<ModelOp>())
    return model.emitOpError("can't appear in phase training");
  auto trains = llvm::to_vector(module.getOps<TrainOp>());
  if (trains.size() != 1)
    return module.emitError("phase training: expected exactly one moe.train");
  for (LayerOp layer : module.getOps<LayerOp>())
    for (BackwardOp backward : layer.getBody().getOps<BackwardOp>())
      if (failed(BackwardChecker(backward).check()))
        return failure();
  if (failed(checkTrain(trains.front(), *layout)))
    return failure();
  return verifyDistribution(module, *layout);
}

} // namespace mlir::moe
