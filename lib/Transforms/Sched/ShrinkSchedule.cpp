#include "moe/Transforms/Sched/Passes.h"

#include "dialects/Moe/MoeOps.h"
#include "moe/Support/Phase.h"
#include "moe/Support/Shrink.h"
#include "moe/Transforms/Sched/Schedule.h"

namespace mlir::moe {
#define GEN_PASS_DEF_SHRINKSCHEDULE
#include "moe/Transforms/Sched/Passes.h.inc"

namespace {

struct ShrinkSchedule : impl::ShrinkScheduleBase<ShrinkSchedule> {
  using ShrinkScheduleBase::ShrinkScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, Phase::Sched)))
      return signalPassFailure();
    if (module.getOps<TrainOp>().empty()) {
      module.emitError("moe-shrink-schedule: the module keeps no kernels-phase "
                       "program to make the schedule from");
      return signalPassFailure();
    }
    if (failed(recordedOptions(module)) ||
        failed(shrinkProgram(module, factor)) ||
        failed(rebuildSchedule(module)))
      signalPassFailure();
  }
};

} // namespace
} // namespace mlir::moe
