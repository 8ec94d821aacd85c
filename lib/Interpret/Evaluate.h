//===- Evaluate.h - The meaning of single ops -----------------------------===//

#ifndef MOE_LIB_INTERPRET_EVALUATE_H
#define MOE_LIB_INTERPRET_EVALUATE_H

#include "moe/Interpret/Interpreter.h"

namespace mlir::moe {

/// The ranks of a pipeline stage: rank = edp_rank * ep + ep_rank.
struct Grid {
  int64_t dp = 1, ep = 1;

  /// Size of an axis: dp, ep or edp.
  int64_t size(StringRef axis) const;
  /// Position of a rank along an axis.
  int64_t position(StringRef axis, int64_t rank) const;
  /// The ranks of the axis' group of `rank`, by position.
  SmallVector<int64_t> group(StringRef axis, int64_t rank) const;
};

/// The nearest value of an element type; ties to even.
double roundTo(Type element, double value);
/// A tensor of NaNs with the shape of an IR type (`!moe.rows`: its groups).
Tensor emptyTensor(Type type);
/// Rounds to the element type of an IR type.
void roundTensor(Type type, Tensor &tensor);
/// Rows in use of a ragged tensor.
int64_t usedRows(const Tensor &rows);

/// Evaluate an op on one rank; `results` come as emptyTensor. Fail with an
/// error at the op for operands that have no meaning.
using Operands = ArrayRef<const Tensor *>;
LogicalResult evaluateDense(Operation *op, Operands operands,
                            MutableArrayRef<Tensor> results);
LogicalResult evaluateRouting(Operation *op, Operands operands,
                              MutableArrayRef<Tensor> results);
/// Whether evaluateDense or evaluateRouting knows the op.
bool isDense(Operation *op);
bool isRouting(Operation *op);

/// Evaluates a collective on all ranks of the grid.
LogicalResult evaluateCollective(Operation *op, const Grid &grid, int64_t layer,
                                 ArrayRef<const RankTensors *> operands,
                                 RankTensors &result);

} // namespace mlir::moe

#endif // MOE_LIB_INTERPRET_EVALUATE_H
