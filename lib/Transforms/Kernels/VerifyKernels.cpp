#include "moe/Transforms/Kernels/Passes.h"

#include "KernelSignature.h"
#include "moe/Support/Phase.h"
#include "moe/Support/TrainingProgram.h"

namespace mlir::moe {
#define GEN_PASS_DEF_VERIFYKERNELS
#include "moe/Transforms/Kernels/Passes.h.inc"

namespace {

struct VerifyKernels : impl::VerifyKernelsBase<VerifyKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, Phase::Kernels)))
      return signalPassFailure();
    for (KernelOp kernel : module.getOps<KernelOp>())
      if (failed(checkSignature(kernel)))
        return signalPassFailure();
    WalkResult result = module.walk([&](Operation *op) {
      if (failed(check(op)))
        return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (result.wasInterrupted() || failed(checkBackwards(module)))
      signalPassFailure();
  }

private:
  LogicalResult check(Operation *op) {
    if (isa<ComputeOpInterface, ModelOp>(op))
      return op->emitOpError("can't appear in phase kernels; "
                             "moe-form-kernels turns it into a moe.call");
    for (Type type : op->getResultTypes())
      if (getDist(type))
        return op->emitOpError(
            "has a distribution, which phase kernels has not");
    return success();
  }
};

} // namespace
} // namespace mlir::moe
