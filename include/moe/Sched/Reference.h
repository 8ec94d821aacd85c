//===- Reference.h - What the serial program computes ---------------------===//

#ifndef MOE_SCHED_REFERENCE_H
#define MOE_SCHED_REFERENCE_H

#include "mlir/IR/BuiltinOps.h"
#include "moe/Verify/Verify.h"

namespace mlir::moe {

/// Symbolic values that the module's kernels-phase program leaves in the
/// places that `table` names: loss, norm, gradients, parameters, optimizer
/// state. The program is run in order, one op after another, on its own
/// memory; nothing of `table` but those places is read. `known`, if not null,
/// gets all values on the way, for VerifyOptions::known.
///
/// Errors, at the module, if the table is of another job: other sizes, ranks,
/// groups or parameters, or no place for something that the program leaves.
FailureOr<std::vector<moert::ExpectedValue>>
referenceValues(ModuleOp module, const moert::Table &table,
                std::vector<uint64_t> *known = nullptr);

} // namespace mlir::moe

#endif // MOE_SCHED_REFERENCE_H
