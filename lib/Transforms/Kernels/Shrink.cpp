#include "moe/Transforms/Kernels/Passes.h"

#include "moe/Support/Phase.h"
#include "moe/Support/Shrink.h"

namespace mlir::moe {
#define GEN_PASS_DEF_SHRINK
#include "moe/Transforms/Kernels/Passes.h.inc"

namespace {

struct Shrink : impl::ShrinkBase<Shrink> {
  using ShrinkBase::ShrinkBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Phase> phase = getPhase(module);
    if (failed(phase))
      return signalPassFailure();
    if (*phase == Phase::Sched) {
      module.emitError("moe-shrink: phase sched is shrunk by "
                       "moe-shrink-schedule");
      return signalPassFailure();
    }
    if (failed(shrinkProgram(module, factor)))
      signalPassFailure();
  }
};

} // namespace
} // namespace mlir::moe
