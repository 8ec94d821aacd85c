//===- Distribution.h - Check distributions from spmd to kernels ----------===//

#ifndef MOE_TRANSFORMS_SPMD_DISTRIBUTION_H
#define MOE_TRANSFORMS_SPMD_DISTRIBUTION_H

#include "dialects/Moe/MoeAttrs.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {

/// Checks every tensor of the module's layers (their backward, too), model and
/// training loop: that it has a distribution of its grid, that ops agree on
/// them, that ragged tensors have the layout's capacity. Holds in the phases
/// spmd and training.
LogicalResult verifyDistribution(ModuleOp module, LayoutAttr layout);

/// Whether a parameter, named by these patterns, stacks the experts along
/// dimension 0 (`{e}`).
bool isStackedByExpert(ArrayAttr patterns);

} // namespace mlir::moe

#endif // MOE_TRANSFORMS_SPMD_DISTRIBUTION_H
