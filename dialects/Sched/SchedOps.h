#ifndef DIALECTS_SCHED_SCHEDOPS_H
#define DIALECTS_SCHED_SCHEDOPS_H

#include "dialects/Sched/SchedInterfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::sched {
class YieldOp;
} // namespace mlir::sched

#define GET_OP_CLASSES
#include "dialects/Sched/SchedOps.h.inc"

namespace mlir::sched {

/// What `kernel`, a sched.kernel or moe.kernel, does with each operand.
SmallVector<int32_t> kernelEffects(Operation *kernel);
/// The kernel that a launch names: of its job, else of the module; null: none.
Operation *lookupKernel(LaunchOp launch, SymbolTableCollection &symbols);

} // namespace mlir::sched

#endif // DIALECTS_SCHED_SCHEDOPS_H
