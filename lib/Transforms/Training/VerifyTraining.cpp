#include "moe/Transforms/Training/Passes.h"

#include "dialects/Moe/MoeOps.h"
#include "moe/Support/Phase.h"
#include "moe/Support/TrainingProgram.h"
#include "moe/Transforms/Spmd/Distribution.h"

namespace mlir::moe {
#define GEN_PASS_DEF_VERIFYTRAINING
#include "moe/Transforms/Training/Passes.h.inc"

namespace {

struct VerifyTraining : impl::VerifyTrainingBase<VerifyTraining> {
  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    FailureOr<LayoutAttr> layout = getLayout(module);
    if (failed(expectPhase(module, Phase::Training)) || failed(layout))
      return failure();
    for (ModelOp model : module.getOps<ModelOp>())
      return model.emitOpError("can't appear in phase training");
    if (failed(checkTrainingProgram(module)))
      return failure();
    return verifyDistribution(module, *layout);
  }
};

} // namespace
} // namespace mlir::moe
