#include "moe/Transforms/Sched/Passes.h"

#include "moe/Support/Phase.h"
#include "moe/Transforms/Sched/Schedule.h"

namespace mlir::moe {
#define GEN_PASS_DEF_PIPELINE
#include "moe/Transforms/Sched/Passes.h.inc"

namespace {

struct Pipeline : impl::PipelineBase<Pipeline> {
  using PipelineBase::PipelineBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    ScheduleOptions options;
    auto kind = parsePipeline(schedule);
    if (!kind) {
      module.emitError() << "moe-pipeline: unknown schedule '" << schedule
                         << "'; known: serial, 1f1b, paired";
      return signalPassFailure();
    }
    options.pipeline = *kind;
    options.memoryShare = memoryShare;
    if (failed(expectPhase(module, Phase::Kernels)) ||
        failed(parseCapture(module, llvm::to_vector(capture), options)) ||
        failed(scheduleModule(module, options)))
      signalPassFailure();
  }
};

} // namespace
} // namespace mlir::moe
