//===- ShardExperts.h - Experts over the ep axis --------------------------===//

#ifndef LIB_TRANSFORMS_SPMD_SHARDEXPERTS_H
#define LIB_TRANSFORMS_SPMD_SHARDEXPERTS_H

#include "dialects/Moe/MoeOps.h"

namespace mlir::moe {

/// Places the experts that `permutation` sends tokens to on the ranks of ep
/// (more than 1). What lies between the permuted rows and moe.unpermute, found
/// by its uses, gets local experts and the capacity's rows; rows are exchanged
/// before and after. Sets the distributions of parameters in there and of what
/// the exchanges give; the other values' follow from these. An error if the
/// experts can't be cut out or divided.
LogicalResult shardExperts(PermutationOp permutation, LayoutAttr layout);

} // namespace mlir::moe

#endif // LIB_TRANSFORMS_SPMD_SHARDEXPERTS_H
