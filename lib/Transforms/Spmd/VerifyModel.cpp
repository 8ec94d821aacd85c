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
    auto layout = module->getAttrOfType<LayoutAttr>(kLayoutAttr);
    WalkResult result = module.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<CollectiveOpInterface, BackwardOp, TrainOp, KernelOp, CallOp>(
              op)) {
        op->emitOpError("can't appear in phase model");
        return WalkResult::interrupt();
      }
      auto reject = [&](StringRef what) {
        op->emitOpError() << what << ", which phase model has not";
        return WalkResult::interrupt();
      };
      if (auto apply = dyn_cast<ApplyOp>(op)) {
        if (apply.getStage())
          return reject("names a stage");
        if (llvm::any_of(apply->getResultTypes(), llvm::IsaPred<SavedType>))
          return reject("saves values for backward");
      }
      if (auto sequence = op->getAttrOfType<IntegerAttr>("sequence");
          isa<AttentionOp, RopeOp>(op) && layout &&
          sequence.getInt() != layout.getSequence()) {
        op->emitOpError() << "sequence = " << sequence.getInt()
                          << " must be the layout's seq = "
                          << layout.getSequence();
        return WalkResult::interrupt();
      }
      auto distributed = [](Type type) { return bool(getDist(type)); };
      bool any = llvm::any_of(op->getResultTypes(), distributed);
      for (Region &region : op->getRegions())
        any |= llvm::any_of(region.getArgumentTypes(), distributed);
      if (any)
        return reject("has a distribution");
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace mlir::moe
