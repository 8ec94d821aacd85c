#include "moe/Transforms/Spmd/Passes.h"

#include "dialects/Moe/MoeOps.h"
#include "moe/Support/Phase.h"
#include "moe/Transforms/Spmd/Distribution.h"

namespace mlir::moe {
#define GEN_PASS_DEF_VERIFYSPMD
#include "moe/Transforms/Spmd/Passes.h.inc"

namespace {

struct VerifySpmd : impl::VerifySpmdBase<VerifySpmd> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(verify(module)))
      signalPassFailure();
  }

private:
  LogicalResult verify(ModuleOp module);
  LogicalResult verifyStages(ModelOp model);

  LayoutAttr layout;
};

LogicalResult VerifySpmd::verify(ModuleOp module) {
  if (failed(expectPhase(module, Phase::Spmd)))
    return failure();
  FailureOr<LayoutAttr> found = getLayout(module);
  if (failed(found))
    return failure();
  layout = *found;
  if (llvm::range_size(module.getOps<ModelOp>()) != 1)
    return module.emitError("phase spmd: expected exactly one moe.model");
  WalkResult result = module.walk([](Operation *op) {
    if (!isa<BackwardOp, TrainOp, KernelOp, CallOp>(op))
      return WalkResult::advance();
    op->emitOpError("can't appear in phase spmd");
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted() || failed(verifyDistribution(module, layout)))
    return failure();
  return verifyStages(*module.getOps<ModelOp>().begin());
}

/// Applies name ascending stages, and the repeated layers (those that name
/// `{i}`) are 0, 1, ... in order, as many on each stage as the layout lists.
LogicalResult VerifySpmd::verifyStages(ModelOp model) {
  SmallVector<int64_t> layers(layout.getPp());
  int64_t next = 0, lastStage = 0;
  ApplyOp last;
  for (ApplyOp apply : model.getBody().getOps<ApplyOp>()) {
    auto noteLast = [&](InFlightDiagnostic diag) -> LogicalResult {
      if (last)
        diag.attachNote(last.getLoc()) << "the apply before is here";
      return diag;
    };
    if (!apply.getStage())
      return apply.emitOpError("must name its stage");
    int64_t stage = *apply.getStage();
    if (stage < 0 || stage >= layout.getPp())
      return apply.emitOpError()
             << "stage must be one of pp = " << layout.getPp() << ", but is "
             << stage;
    if (last && stage < lastStage)
      return noteLast(apply.emitOpError() << "stages must ascend, but " << stage
                                          << " follows " << lastStage);
    auto layer = SymbolTable::lookupNearestSymbolFrom<LayerOp>(
        apply, apply.getLayerAttr());
    if (layer.isIndexed()) {
      if (static_cast<int64_t>(apply.getLower()) != next)
        return noteLast(apply.emitOpError()
                        << "must go on with layer " << next
                        << ", but starts with layer " << apply.getLower());
      next = apply.getUpper();
      layers[stage] += apply.getUpper() - apply.getLower();
    }
    last = apply;
    lastStage = stage;
  }
  for (auto [stage, want] : llvm::enumerate(layout.getLayers()))
    if (layers[stage] != want)
      return model.emitOpError()
             << "holds " << layers[stage] << " layers on stage " << stage
             << ", but the layout lists " << want;
  return success();
}

} // namespace
} // namespace mlir::moe
