#ifndef DIALECTS_MOE_MOEINTERFACES_H
#define DIALECTS_MOE_MOEINTERFACES_H

#include "dialects/Moe/MoeAttrs.h"
#include "dialects/Moe/MoeTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace mlir::moe {

/// Bytes of a tensor as used: a ragged one (the op has a `!moe.rows` operand
/// or result and the tensor's rows are its capacity) counts its mean rows.
double usedBytes(Operation *op, Type type);
/// Sum over operands and results; an accumulator counts twice.
double bytesMoved(Operation *op);
/// Sum over operands that are tensors of floats.
double inputBytes(Operation *op);
/// The default of DistributedOpInterface: data lie alike and whole; results lie
/// as they do.
LogicalResult inferRankwise(Operation *op, ArrayRef<DistAttr> operands,
                            SmallVectorImpl<DistAttr> &results);
/// Of an op that adds a parameter's gradient to its last operand: partial_sum
/// (or sharded by expert) where the rows vary, invariant where they don't.
LogicalResult inferWeightGrad(Operation *op, ArrayRef<DistAttr> operands,
                              SmallVectorImpl<DistAttr> &results);

} // namespace mlir::moe

#include "dialects/Moe/MoeInterfaces.h.inc"

#endif // DIALECTS_MOE_MOEINTERFACES_H
