#include "moe/Transforms/Training/Passes.h"

#include "BuildBackward.h"
#include "mlir/IR/IRMapping.h"
#include "moe/Support/Phase.h"
#include "moe/Support/TrainingProgram.h"

#include <cmath>

namespace mlir::moe {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "moe/Transforms/Training/Passes.h.inc"

namespace {

struct Differentiate : impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module);
  LogicalResult checkOptions(ModuleOp module);
  LogicalResult checkModel(ModelOp model);
  /// The loop over micro-batches, in place of the model's body.
  LogicalResult buildLoop(OpBuilder &builder, ModelOp model, int64_t count,
                          SmallVectorImpl<Value> &sums);
  LogicalResult buildBackwards(OpBuilder &builder, ArrayRef<ApplyOp> forwards,
                               MutableArrayRef<Value> sums);
};

} // namespace

LogicalResult Differentiate::checkOptions(ModuleOp module) {
  struct {
    StringRef name;
    double value;
    bool valid;
    StringRef wanted;
  } checks[] = {
      {"lr", lr, lr >= 0, "finite and not negative"},
      {"beta1", beta1, beta1 >= 0 && beta1 < 1, "in [0, 1)"},
      {"beta2", beta2, beta2 >= 0 && beta2 < 1, "in [0, 1)"},
      {"eps", eps, eps > 0, "finite and positive"},
      {"weight-decay", weightDecay, weightDecay >= 0,
       "finite and not negative"},
      {"clip", clip, clip >= 0, "finite and not negative"},
  };
  for (auto &check : checks)
    if (!check.valid || !std::isfinite(check.value))
      return module.emitError()
             << "moe-differentiate: " << check.name << " must be "
             << check.wanted << ", but is " << check.value;
  return success();
}

/// The model is a chain of applications: each float value is used once.
LogicalResult Differentiate::checkModel(ModelOp model) {
  if (model.getNumArguments() != 2 || model.getNumResults() != 1 ||
      !isFloatTensor(model.getResultTypes()[0]))
    return model.emitOpError("must take token ids and labels and return the "
                             "loss");
  for (Operation &op : model.getBody().front().without_terminator()) {
    if (!isa<ApplyOp>(op))
      return op.emitOpError("can't be differentiated between layers; expected "
                            "moe.apply only");
    for (OpResult result : op.getResults())
      if (isFloatTensor(result.getType()) && !result.hasOneUse())
        return op.emitOpError()
               << "result #" << result.getResultNumber()
               << " must be used exactly once, but is used "
               << llvm::range_size(result.getUses()) << " times";
  }
  return success();
}

/// Results of a layer that are the loss, by number.
static bool isLossResult(LayerOp layer, unsigned result) {
  return isLoss(layer.getReturn()->getOperand(result));
}

LogicalResult Differentiate::buildBackwards(OpBuilder &builder,
                                            ArrayRef<ApplyOp> forwards,
                                            MutableArrayRef<Value> sums) {
  SymbolTableCollection tables;
  DenseMap<Value, Value> cotangentOf;
  for (unsigned i = forwards.size(); i-- > 0;) {
    ApplyOp forward = forwards[i];
    auto layer = tables.lookupNearestSymbolFrom<LayerOp>(
        forward, forward.getLayerAttr());
    SmallVector<Value> cotangents;
    for (OpResult result : forward.getOutputs().drop_back()) {
      if (!isFloatTensor(result.getType()) ||
          isLossResult(layer, result.getResultNumber()))
        continue;
      Value cotangent = cotangentOf.lookup(result);
      if (!cotangent)
        return forward.emitOpError() << "result #" << result.getResultNumber()
                                     << " is returned, but is no loss";
      cotangents.push_back(cotangent);
    }
    SmallVector<Value> inputs;
    SmallVector<Type> types;
    for (Value input : forward.getInputs())
      if (isFloatTensor(input.getType())) {
        inputs.push_back(input);
        types.push_back(cotangentType(input.getType()));
      }
    auto backward = ApplyBackwardOp::create(
        builder, forward.getLoc(), types, sums[i].getType(),
        forward.getLayerAttr(), forward.getLowerAttr(), forward.getUpperAttr(),
        forward.getStageAttr(), cotangents, forward.getOutputs().back(),
        sums[i]);
    for (auto [input, cotangent] :
         llvm::zip_equal(inputs, backward.getResults()))
      cotangentOf[input] = cotangent;
    sums[i] = backward.getSums();
  }
  return success();
}

LogicalResult Differentiate::buildLoop(OpBuilder &builder, ModelOp model,
                                       int64_t count,
                                       SmallVectorImpl<Value> &sums) {
  auto lossType = cast<RankedTensorType>(model.getResultTypes()[0]);
  SmallVector<Type> resultTypes;
  // Summed over the ranks, too: what was partial is whole.
  DistAttr dist = getDist(lossType);
  resultTypes.push_back(withDist(
      lossType, dist && dist.has(DistKind::PartialSum) ? dist.dual() : dist));
  llvm::append_range(resultTypes, ValueRange(sums).getTypes());
  auto loop = MicroBatchesOp::create(builder, model.getLoc(), resultTypes,
                                     builder.getI64IntegerAttr(count), sums);
  Block &body = loop.getBody().emplaceBlock();
  IRMapping mapping;
  for (BlockArgument argument : model.getBody().getArguments())
    mapping.map(argument,
                body.addArgument(argument.getType(), argument.getLoc()));
  SmallVector<Value> running;
  for (Value sum : sums)
    running.push_back(body.addArgument(sum.getType(), sum.getLoc()));

  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&body);
  SmallVector<ApplyOp> forwards;
  for (ApplyOp apply : model.getBody().getOps<ApplyOp>()) {
    SmallVector<Type> types(apply.getResultTypes());
    types.push_back(SavedType::get(&getContext(), apply.getLayerAttr()));
    SmallVector<Value> inputs;
    for (Value input : apply.getInputs())
      inputs.push_back(mapping.lookup(input));
    auto forward =
        ApplyOp::create(builder, apply.getLoc(), types, apply.getLayerAttr(),
                        apply.getLowerAttr(), apply.getUpperAttr(),
                        apply.getStageAttr(), inputs);
    mapping.map(apply.getResults(), forward.getResults().drop_back());
    forwards.push_back(forward);
  }
  if (failed(buildBackwards(builder, forwards, running)))
    return failure();
  YieldOp::create(builder, model.getReturn().getLoc(),
                  mapping.lookup(model.getReturn().getOperand(0)), running);
  sums.assign(loop.getSums().begin(), loop.getSums().end());
  return success();
}

LogicalResult Differentiate::run(ModuleOp module) {
  FailureOr<LayoutAttr> layout = getLayout(module);
  if (failed(expectPhase(module, Phase::Spmd)) || failed(layout) ||
      failed(checkOptions(module)))
    return failure();
  auto models = llvm::to_vector(module.getOps<ModelOp>());
  if (models.size() != 1)
    return module.emitError("expected exactly one moe.model");
  ModelOp model = models.front();
  if (failed(checkModel(model)))
    return failure();
  for (LayerOp layer : module.getOps<LayerOp>())
    if (failed(buildBackward(layer)))
      return failure();

  OpBuilder builder(model);
  auto train = TrainOp::create(builder, model.getLoc(), model.getSymName());
  builder.setInsertionPointToStart(&train.getBody().emplaceBlock());
  SmallVector<Value> sums;
  for (ApplyOp apply : model.getBody().getOps<ApplyOp>())
    sums.push_back(ZeroGradsOp::create(
        builder, apply.getLoc(),
        GradsType::get(&getContext(), apply.getLayerAttr()),
        apply.getLowerAttr(), apply.getUpperAttr(), apply.getStageAttr()));
  if (failed(buildLoop(builder, model, layout->getMicroBatches(), sums)))
    return failure();
  auto number = [&](double value) { return builder.getF64FloatAttr(value); };
  OptimizerOp::create(builder, model.getLoc(), sums, number(lr), number(beta1),
                      number(beta2), number(eps), number(weightDecay),
                      number(clip));
  model.erase();
  setPhase(module, Phase::Training);
  return success();
}

} // namespace mlir::moe
