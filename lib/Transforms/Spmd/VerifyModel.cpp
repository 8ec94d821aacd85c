#include "moe/Transforms/Spmd/Passes.h"

#include "dialects/Moe/MoeOps.h"
#include "moe/Support/Phase.h"

namespace mlir::moe {
#define GEN_PASS_DEF_VERIFYMODEL
#include "moe/Transforms/Spmd/Passes.h.inc"

namespace {

struct VerifyModel : impl::VerifyModelBase<VerifyModel> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, Phase::Model)))
      return signalPassFailure();
    if (llvm::range_size(module.getOps<ModelOp>()) != 1) {
      module.emitError("phase model: expected exactly one moe.model");
      return signalPassFailure();
    }
    WalkResult result = module.walk([&](Operation *op) {
      if (isa<CollectiveOpInterface, BackwardOp, TrainOp, KernelOp, CallOp>(
              op)) {
        op->emitOpError("can't appear in phase model");
        return WalkResult::interrupt();
      }
      for (Type type : op->getResultTypes())
        if (getDist(type)) {
          op->emitOpError("has a distribution, which phase model has not");
          return WalkResult::interrupt();
        }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace mlir::moe
