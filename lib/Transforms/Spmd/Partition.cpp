#include "moe/Transforms/Spmd/Passes.h"

#include "ShardExperts.h"
#include "moe/Support/Grid.h"
#include "moe/Support/Phase.h"

namespace mlir::moe {
#define GEN_PASS_DEF_PARTITION
#include "moe/Transforms/Spmd/Passes.h.inc"

namespace {

struct Partition : impl::PartitionBase<Partition> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, Phase::Model)))
      return signalPassFailure();
    FailureOr<LayoutAttr> found = getLayout(module);
    if (failed(found))
      return signalPassFailure();
    layout = *found;
    for (LayerOp layer : module.getOps<LayerOp>())
      if (failed(partitionLayer(layer)))
        return signalPassFailure();
    for (ModelOp model : module.getOps<ModelOp>())
      if (failed(partitionModel(model)))
        return signalPassFailure();
    setPhase(module, Phase::Spmd);
  }

private:
  LogicalResult partitionLayer(LayerOp layer);
  LogicalResult partitionModel(ModelOp model);
  LogicalResult distribute(Operation &op);
  /// Data come varying: each rank has its own micro-batch.
  void distributeArguments(Block &block);
  LogicalResult splitApply(ApplyOp apply, int64_t &next);
  int64_t stageOf(int64_t index);
  LogicalResult checkTied(ModelOp model);

  LayoutAttr layout;
};

LayerOp layerOf(ApplyOp apply) {
  return SymbolTable::lookupNearestSymbolFrom<LayerOp>(apply,
                                                       apply.getLayerAttr());
}

/// Takes the function's type from its body.
template <typename Op> void updateType(Op function) {
  function.setFunctionType(FunctionType::get(
      function.getContext(), function.getBody().front().getArgumentTypes(),
      function.getReturn().getOperandTypes()));
}

void Partition::distributeArguments(Block &block) {
  DistAttr varying = uniformDist(layout, "attention", DistKind::Varying);
  for (BlockArgument argument : block.getArguments())
    if (auto type = dyn_cast<RankedTensorType>(argument.getType()))
      argument.setType(withDist(type, varying));
}

LogicalResult Partition::distribute(Operation &op) {
  if (auto param = dyn_cast<ParamOp>(op)) {
    if (!getDist(param.getType()))
      param.getResult().setType(
          withDist(param.getType(),
                   uniformDist(layout, "attention", DistKind::Invariant)));
    return success();
  }
  if (isa<ReturnOp>(op))
    return success();
  auto distributed = dyn_cast<DistributedOpInterface>(op);
  if (!distributed)
    return op.emitOpError("can't be partitioned: it does not say how "
                          "distributions pass through it");
  SmallVector<DistAttr> operands, results;
  for (Value operand : op.getOperands())
    operands.push_back(getDist(operand));
  if (failed(distributed.inferDistribution(operands, results)))
    return failure();
  for (auto [result, dist] : llvm::zip_equal(op.getResults(), results))
    if (auto type = dyn_cast<RankedTensorType>(result.getType()))
      result.setType(withDist(type, dist));
  return success();
}

LogicalResult Partition::partitionLayer(LayerOp layer) {
  if (layout.getEp() > 1)
    for (PermutationOp permutation :
         llvm::to_vector(layer.getBody().getOps<PermutationOp>()))
      if (failed(shardExperts(permutation, layout)))
        return failure();
  distributeArguments(layer.getBody().front());
  for (Operation &op : layer.getBody().front())
    if (failed(distribute(op)))
      return failure();
  updateType(layer);
  return success();
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Stage that holds layer `index`.
int64_t Partition::stageOf(int64_t index) {
  for (auto [stage, count] : llvm::enumerate(layout.getLayers())) {
    if (index < count)
      return stage;
    index -= count;
  }
  return layout.getPp() - 1;
}

/// Replaces an apply of the layers from `next` on by one for each stage.
LogicalResult Partition::splitApply(ApplyOp apply, int64_t &next) {
  const int64_t lower = apply.getLower(), upper = apply.getUpper();
  if (lower != next)
    return apply.emitOpError() << "must go on with layer " << next
                               << ", but starts with layer " << lower;
  OpBuilder builder(apply);
  SmallVector<Value> inputs(apply.getInputs());
  ApplyOp last;
  while (next < upper) {
    int64_t stage = stageOf(next), end = next + 1;
    while (end < upper && stageOf(end) == stage)
      ++end;
    last = ApplyOp::create(
        builder, apply.getLoc(), layerOf(apply).getResultTypes(),
        apply.getLayerAttr(), builder.getI64IntegerAttr(next),
        builder.getI64IntegerAttr(end), builder.getI64IntegerAttr(stage),
        inputs);
    next = end;
    if (end == upper)
      break;
    if (last.getNumResults() != 1)
      return apply.emitOpError()
             << "crosses stages with " << last.getNumResults()
             << " results; only what is carried can";
    inputs[0] = last.getOutputs()[0];
  }
  if (!last)
    return apply.emitOpError("applies no layer");
  apply.replaceAllUsesWith(last);
  apply.erase();
  return success();
}

/// Error if two stages hold one parameter.
LogicalResult Partition::checkTied(ModelOp model) {
  llvm::StringMap<std::pair<ApplyOp, ParamOp>> seen;
  for (ApplyOp apply : model.getBody().getOps<ApplyOp>())
    for (ParamOp param : layerOf(apply).getBody().getOps<ParamOp>())
      for (auto pattern : param.getPatterns().getAsRange<StringAttr>()) {
        if (pattern.getValue().contains("{i}"))
          continue;
        auto [other, isNew] =
            seen.try_emplace(pattern.getValue(), apply, param);
        auto [otherApply, otherParam] = other->second;
        if (isNew || otherApply.getStage() == apply.getStage())
          continue;
        InFlightDiagnostic diag =
            param.emitOpError()
            << "'" << pattern.getValue() << "' is shared by @"
            << otherApply.getLayer() << " on stage " << *otherApply.getStage()
            << " and @" << apply.getLayer() << " on stage " << *apply.getStage()
            << ": parameters tied over pipeline stages are not supported yet";
        diag.attachNote(otherParam.getLoc()) << "also declared here";
        return diag;
      }
  return success();
}

LogicalResult Partition::partitionModel(ModelOp model) {
  Block &body = model.getBody().front();
  for (BlockArgument argument : body.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || type.getRank() != 1 ||
        type.getDimSize(0) != layout.getTokens())
      return model.emitOpError()
             << "argument #" << argument.getArgNumber()
             << " must be the micro-batch's " << layout.getTokens()
             << " tokens (micro_batch * seq), but is " << argument.getType();
  }
  distributeArguments(body);

  SmallVector<ApplyOp> applies(body.getOps<ApplyOp>());
  for (Operation &op : body)
    if (!isa<ApplyOp, ReturnOp>(op))
      return op.emitOpError("can't be in a model, which only applies layers");
  int64_t total = 0, placed = 0, next = 0;
  for (ApplyOp apply : applies)
    if (apply.getNumResults() != layerOf(apply).getNumResults())
      return apply.emitOpError("saves values for backward, which a model in "
                               "phase model has not");
    else if (layerOf(apply).isIndexed())
      total += apply.getUpper() - apply.getLower();
  for (int64_t count : layout.getLayers())
    placed += count;
  if (total != placed)
    return model.emitOpError() << "applies " << total
                               << " layers, but the layout places " << placed;
  if (total == 0 && layout.getPp() > 1)
    return model.emitOpError()
           << "has no layers to cut into pp = " << layout.getPp() << " stages";

  // What is before the layers is on the first stage; what is after them, on
  // the last.
  for (ApplyOp apply : applies) {
    if (layerOf(apply).isIndexed()) {
      if (failed(splitApply(apply, next)))
        return failure();
      continue;
    }
    apply.setStage(next == 0       ? 0
                   : next == total ? layout.getPp() - 1
                                   : stageOf(next - 1));
    for (auto [output, type] :
         llvm::zip_equal(apply.getOutputs(), layerOf(apply).getResultTypes()))
      output.setType(type);
  }
  updateType(model);
  return checkTied(model);
}

} // namespace
} // namespace mlir::moe
