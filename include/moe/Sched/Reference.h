//===- Reference.h - What the serial program computes ---------------------===//

#ifndef MOE_SCHED_REFERENCE_H
#define MOE_SCHED_REFERENCE_H

#include "mlir/IR/BuiltinOps.h"
#include "moe/Verify/Verify.h"

namespace mlir::moe {

/// Symbolic values that the module's kernels-phase program leaves in the
/// places that `table` names: loss, norm, gradients, parameters, optimizer
/// state. The program is run in order, one op after another, on its own
/// memory; nothing of `table` but those places is read.
FailureOr<std::vector<moert::ExpectedValue>>
referenceValues(ModuleOp module, const moert::Table &table);

} // namespace mlir::moe

#endif // MOE_SCHED_REFERENCE_H
