//===- RowVectors.h - A linalg op over a row, as vectors --------*- C++ -*-===//

#ifndef MOE_LIB_TRANSFORMS_KERNELS_ROWVECTORS_H
#define MOE_LIB_TRANSFORMS_KERNELS_ROWVECTORS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::moe {

/// A linalg op over one dimension, taken in steps of a few elements. New ops
/// go to the builder's insertion point, at first before the op.
class RowVectors {
public:
  using Values = SmallVector<Value>;

  /// Where a step finds an operand's elements.
  struct Place {
    Value index;
    llvm::MaybeAlign alignment;
  };
  using PlaceOf = function_ref<Place(OpOperand &)>;

  explicit RowVectors(linalg::LinalgOp op)
      : builder(op.getLoc(), op), op(op), body(op.getBlock()) {}

  /// Fails if the op is not of the form: static, contiguous rows, elementwise
  /// arithmetic, sums and maxima.
  LogicalResult match();

  int64_t count() const { return length; }
  bool isReduction() const { return !reductions.empty(); }

  /// What partial results start from, as vectors: one for each reduction.
  Values neutral(int64_t width);
  /// The op on `width` elements. `partial`: in and out.
  void step(int64_t width, PlaceOf placeOf, Values &partial);
  /// Joins the lanes of reduction `i` as a tree.
  Value foldLanes(unsigned i, Value lanes);
  /// Joins two results of reduction `i`.
  Value join(unsigned i, Value a, Value b) {
    return join(reductions[i].op, a, b);
  }
  /// Joins `total` with what the output of reduction `i` holds.
  void finish(unsigned i, Value total);

  Value slice(Value lanes, int64_t from, int64_t width);
  Value index(int64_t value);

  ImplicitLocOpBuilder builder;

private:
  /// An output of rank 0: out = join(out, term).
  struct Reduction {
    unsigned output;
    Operation *op;
  };

  Value splat(TypedAttr value, int64_t width);
  Value broadcast(Value x, int64_t width);
  Value asVector(Value x, int64_t width, IRMapping &mapping);
  bool isReduced(OpOperand &operand);
  void clone(Operation &inner, int64_t width, IRMapping &mapping);
  Value join(Operation *op, Value a, Value b);

  linalg::LinalgOp op;
  Block *body;
  int64_t length = 0;
  SmallVector<Reduction> reductions;
};

} // namespace mlir::moe

#endif // MOE_LIB_TRANSFORMS_KERNELS_ROWVECTORS_H
