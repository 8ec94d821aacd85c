#include "moe/Transforms/Sched/Passes.h"

#include "moe/Support/Phase.h"
#include "moe/Target/Table.h"

namespace mlir::moe {
#define GEN_PASS_DEF_SCHEDVERIFY
#include "moe/Transforms/Sched/Passes.h.inc"

namespace {

struct SchedVerify : impl::SchedVerifyBase<SchedVerify> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, Phase::Sched)))
      return signalPassFailure();
    FailureOr<moert::Table> table = tabulate(module);
    if (failed(table) ||
        failed(proveSchedule(*table, module, &getContext(), llvm::errs())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace mlir::moe
