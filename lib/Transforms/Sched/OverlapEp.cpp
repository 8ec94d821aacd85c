#include "moe/Transforms/Sched/Passes.h"

#include "moe/Support/Phase.h"
#include "moe/Transforms/Sched/Schedule.h"

namespace mlir::moe {
#define GEN_PASS_DEF_OVERLAPEP
#include "moe/Transforms/Sched/Passes.h.inc"

namespace {

struct OverlapEp : impl::OverlapEpBase<OverlapEp> {
  using OverlapEpBase::OverlapEpBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Phase> phase = getPhase(module);
    if (failed(phase))
      return signalPassFailure();
    ScheduleOptions options;
    if (*phase == Phase::Sched) {
      FailureOr<ScheduleOptions> recorded = recordedOptions(module);
      if (failed(recorded))
        return signalPassFailure();
      options = *recorded;
      if (!capture.empty() || memoryShare != 0.95) {
        module.emitError("moe-overlap-ep: capture and memory-share are those "
                         "that the schedule was made with; give them to "
                         "moe-pipeline, or run from phase kernels");
        return signalPassFailure();
      }
    } else {
      options.memoryShare = memoryShare;
      if (failed(expectPhase(module, Phase::Kernels)) ||
          failed(parseCapture(module, llvm::to_vector(capture), options)))
        return signalPassFailure();
    }
    if (failed(overlapExpertParallel(module, options)))
      signalPassFailure();
  }
};

} // namespace
} // namespace mlir::moe
