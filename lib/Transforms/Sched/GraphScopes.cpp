#include "moe/Transforms/Sched/Passes.h"

#include "moe/Support/Phase.h"
#include "moe/Transforms/Sched/Schedule.h"

namespace mlir::moe {
#define GEN_PASS_DEF_GRAPHSCOPES
#include "moe/Transforms/Sched/Passes.h.inc"

namespace {

struct GraphScopes : impl::GraphScopesBase<GraphScopes> {
  using GraphScopesBase::GraphScopesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, Phase::Sched)))
      return signalPassFailure();
    FailureOr<ScheduleOptions> options = recordedOptions(module);
    if (failed(options) ||
        failed(parseCapture(module, llvm::to_vector(modules), *options)) ||
        failed(scheduleModule(module, *options)))
      signalPassFailure();
  }
};

} // namespace
} // namespace mlir::moe
