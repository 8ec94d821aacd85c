//===- Shrink.h - The same program at small widths ------------------------===//
//
// A shrunken module's `moe.original` holds the sizes that it was imported
// with: what prices are computed from.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_SUPPORT_SHRINK_H
#define MOE_SUPPORT_SHRINK_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::moe {

/// A size divided by `factor`: the nearest even number, ties up, at least 2.
int64_t shrunkenSize(int64_t size, int64_t factor);

/// Divides hidden, head_dim, expert width, vocabulary and sequence by `factor`
/// in layers, model, training loop and kernels, in the module's layout and
/// configuration; numbers of heads, experts, experts per token, layers,
/// micro-batches and stages stay. Costs that are written down (of kernels,
/// `moe.bytes` of collectives) stay as well. Records the sizes before, unless
/// the module is shrunken already. Kernels are made anew, since calls of one
/// kernel may differ now: symbols of kernels change.
///
/// Holds in all phases; in phase sched, the sched ops are left as they are and
/// the caller must make them anew. Errors name the op whose dimension can't be
/// told or divided, and leave the module half done.
LogicalResult shrinkProgram(ModuleOp module, int64_t factor);

/// A copy of the program at the sizes before it was shrunken: its layers,
/// model and training loop have the same ops in the same order. Without
/// `moe.original`, a mere copy. Sched ops, if there are any, are left out.
FailureOr<OwningOpRef<ModuleOp>> originalProgram(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_SUPPORT_SHRINK_H
