//===- BuildBackward.h - The backward of one layer ------------------------===//

#ifndef MOE_LIB_TRANSFORMS_TRAINING_BUILDBACKWARD_H
#define MOE_LIB_TRANSFORMS_TRAINING_BUILDBACKWARD_H

#include "dialects/Moe/MoeOps.h"

namespace mlir::moe {

/// Adds the `moe.backward` of a layer that has none. Errors at the op that
/// can't be differentiated.
LogicalResult buildBackward(LayerOp layer);

} // namespace mlir::moe

#endif // MOE_LIB_TRANSFORMS_TRAINING_BUILDBACKWARD_H
