//===- DimRoles.h - What every dimension of a program counts --------------===//

#ifndef LIB_SUPPORT_DIMROLES_H
#define LIB_SUPPORT_DIMROLES_H

#include "dialects/Moe/MoeOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::moe {

/// The size of the model or layout that a dimension is a multiple of.
enum class Extent {
  Unknown,
  /// No size that shrinks: heads, experts, experts per token, one.
  Count,
  Hidden,
  /// Also that of all heads together.
  HeadDim,
  /// Also gate and up together.
  ExpertWidth,
  Vocabulary,
  /// Tokens of a micro-batch, and their copies for experts.
  Sequence,
  /// Rows of a buffer that receives copies: no multiple, but the layout's
  /// capacityRows.
  Capacity,
};

/// "hidden", "head_dim", ...
StringRef extentName(Extent extent);

/// What a parameter's dimension is a multiple of.
Extent extentOf(DimRole role);

/// What one dimension counts.
struct DimExtent {
  Extent extent = Extent::Unknown;
  /// For Extent::Capacity: copies of a rank's tokens, and experts that they
  /// are for.
  int64_t copies = 0, experts = 0;
};

/// What the dimensions of all tensors in layers, model and training loop
/// count. Sizes play no part, so that equal ones can't be confused: it follows
/// from the dimensions that parameters name, and from which dimensions of
/// their operands and results the ops say are of one kind. Holds in all phases.
class DimRoles {
public:
  /// An error at the op if it is none that the analysis knows, if a dimension
  /// counts two things, or if nothing says what it counts.
  LogicalResult run(ModuleOp module);

  /// All tensors and `!moe.rows`.
  ArrayRef<Value> getValues() const { return values.getArrayRef(); }
  DimExtent get(Value value, unsigned dim) const;

private:
  /// A node of the union-find structure: a dimension of a value.
  struct Node {
    unsigned parent;
    DimExtent dim;
  };

  unsigned root(unsigned node) const;
  unsigned nodeOf(Value value, unsigned dim) const;
  void collect(Operation *op);
  LogicalResult constrain(Operation *op, unsigned node, DimExtent dim);
  LogicalResult unite(Operation *op, unsigned a, unsigned b);
  LogicalResult unite(Operation *op, ValueRange a, ValueRange b);
  LogicalResult visit(Operation *op);
  LogicalResult visitParam(ParamOp op);
  LogicalResult visitGrad(GradOp op);
  LogicalResult visitBackward(BackwardOp op);
  LogicalResult visitTokens(Operation *op, ValueRange tokens);
  LogicalResult visitKernel(Operation *op, StringRef kernel);
  LogicalResult match(Operation *op, StringRef patterns, ValueRange values,
                      DenseMap<char, unsigned> &letters);
  LogicalResult resolveExchanges();

  llvm::SetVector<Value> values;
  DenseMap<Value, unsigned> firstNode;
  SmallVector<Node> nodes;
  SmallVector<AllToAllOp> exchanges;
};

} // namespace mlir::moe

#endif // LIB_SUPPORT_DIMROLES_H
