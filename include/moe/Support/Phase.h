//===- Phase.h - Where a program is on its way ----------------------------===//
//
// A module's `moe.phase`: model, spmd, training, kernels, sched, in that order.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_SUPPORT_PHASE_H
#define MOE_SUPPORT_PHASE_H

#include "dialects/Moe/MoeAttrs.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {

enum class Phase { Model, Spmd, Training, Kernels, Sched };

StringRef phaseName(Phase phase);

/// The module's phase; an error at the module if it has none.
FailureOr<Phase> getPhase(ModuleOp module);
/// Error unless the module is in this phase.
LogicalResult expectPhase(ModuleOp module, Phase phase);
void setPhase(ModuleOp module, Phase phase);

/// The module's layout; an error at the module if it has none.
FailureOr<LayoutAttr> getLayout(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_SUPPORT_PHASE_H
