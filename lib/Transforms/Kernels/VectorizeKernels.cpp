#include "moe/Transforms/Kernels/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <cmath>

namespace mlir::moe {
#define GEN_PASS_DEF_VECTORIZEKERNELS
#include "moe/Transforms/Kernels/Passes.h.inc"

namespace {

/// Lanes of a vector, on every machine: term i of a sum goes to lane i mod 16,
/// as in the library's kernels.
constexpr int64_t kLanes = 16;

/// A linalg op over one dimension, as vectors.
class RowVectorizer {
public:
  explicit RowVectorizer(linalg::LinalgOp op)
      : op(op), body(op.getBlock()), builder(op.getLoc(), op) {}

  /// Leaves the op alone, and fails, if it is not of the form.
  LogicalResult run() {
    if (failed(match()))
      return failure();
    Values lanes;
    for (Reduction &reduction : reductions)
      lanes.push_back(splat(neutralOf(reduction.join), kLanes));
    int64_t whole = count / kLanes * kLanes;
    if (whole) {
      auto loop = scf::ForOp::create(builder, index(0), index(whole),
                                     index(kLanes), lanes);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(loop.getBody());
      Values next(loop.getRegionIterArgs());
      step(loop.getInductionVar(), kLanes, next);
      if (!lanes.empty())
        scf::YieldOp::create(builder, next);
      lanes.assign(loop.result_begin(), loop.result_end());
    }
    // The rest, in vectors of 8, 4, 2 and 1: the lanes that it would have had.
    for (int64_t at = whole, width = kLanes / 2; width; width /= 2)
      if ((count - whole) & width) {
        rest(at, width, at - whole, lanes);
        at += width;
      }
    for (auto [reduction, value] : llvm::zip_equal(reductions, lanes))
      finish(reduction, value);
    op->erase();
    return success();
  }

private:
  using Values = SmallVector<Value>;

  /// An output of rank 0: out = join(out, term).
  struct Reduction {
    unsigned output;
    Operation *join;
  };

  LogicalResult match() {
    if (op.getNumLoops() != 1 || !op.hasPureBufferSemantics() ||
        op.hasIndexSemantics() ||
        ShapedType::isDynamic(op.getStaticLoopRanges()[0]))
      return failure();
    count = op.getStaticLoopRanges()[0];
    for (OpOperand &operand : op->getOpOperands()) {
      AffineMap map = op.getMatchingIndexingMap(&operand);
      auto type = dyn_cast<MemRefType>(operand.get().getType());
      if (map.getNumResults() == 0)
        continue;
      if (!type || !map.isIdentity() || !type.areTrailingDimsContiguous(1))
        return failure();
    }
    for (Operation &inner : body->without_terminator())
      if (!OpTrait::hasElementwiseMappableTraits(&inner) &&
          !isa<arith::ConstantOp>(inner))
        return failure();
    for (auto [i, out] : llvm::enumerate(op.getDpsInits())) {
      if (cast<MemRefType>(out.getType()).getRank() != 0)
        continue;
      SmallVector<Operation *> joins;
      if (!matchReduction(op.getRegionOutputArgs(), i, joins) ||
          joins.size() != 1 ||
          !isa<arith::AddFOp, arith::MaxNumFOp>(joins.front()))
        return failure();
      reductions.push_back({unsigned(i), joins.front()});
    }
    return success();
  }

  TypedAttr neutralOf(Operation *join) {
    double value = isa<arith::AddFOp>(join) ? 0.0 : -INFINITY;
    return builder.getFloatAttr(join->getResult(0).getType(), value);
  }

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(builder, value);
  }
  Value splat(TypedAttr value, int64_t width) {
    auto type = VectorType::get(width, value.getType());
    return arith::ConstantOp::create(builder,
                                     DenseElementsAttr::get(type, value));
  }
  Value broadcast(Value x, int64_t width) {
    return vector::BroadcastOp::create(builder,
                                       VectorType::get(width, x.getType()), x);
  }

  /// The op on elements [at, at + width). `partial`: the reductions' lanes, in
  /// and out.
  void step(Value at, int64_t width, Values &partial) {
    IRMapping mapping;
    ValueRange arguments = body->getArguments();
    for (OpOperand &operand : op->getOpOperands()) {
      Value argument = arguments[operand.getOperandNumber()];
      if (argument.use_empty() || isReduced(operand))
        continue;
      Value value = operand.get();
      if (op.getMatchingIndexingMap(&operand).getNumResults() == 0) {
        if (isa<MemRefType>(value.getType()))
          value = memref::LoadOp::create(builder, value, ValueRange());
        mapping.map(argument, broadcast(value, width));
        continue;
      }
      auto type = VectorType::get(width, argument.getType());
      mapping.map(argument, vector::LoadOp::create(builder, type, value, at));
    }
    for (auto [reduction, lanes] : llvm::zip_equal(reductions, partial))
      mapping.map(op.getRegionOutputArgs()[reduction.output], lanes);

    for (Operation &inner : body->without_terminator())
      clone(inner, width, mapping);
    for (auto [reduction, lanes] : llvm::zip_equal(reductions, partial))
      lanes = mapping.lookup(reduction.join->getResult(0));
    Operation *yield = body->getTerminator();
    for (auto [i, out] : llvm::enumerate(op.getDpsInitsMutable()))
      if (!isReduced(out))
        vector::StoreOp::create(builder,
                                asVector(yield->getOperand(i), width, mapping),
                                out.get(), at);
  }

  bool isReduced(OpOperand &operand) {
    return llvm::any_of(reductions, [&](Reduction &reduction) {
      return op.getDpsInitOperand(reduction.output) == &operand;
    });
  }

  /// A value of the body; one from outside is the same for all lanes.
  Value asVector(Value x, int64_t width, IRMapping &mapping) {
    if (!mapping.contains(x))
      mapping.map(x, broadcast(x, width));
    return mapping.lookup(x);
  }

  void clone(Operation &inner, int64_t width, IRMapping &mapping) {
    if (auto constant = dyn_cast<arith::ConstantOp>(inner)) {
      mapping.map(constant.getResult(), splat(constant.getValue(), width));
      return;
    }
    Values operands;
    for (Value operand : inner.getOperands())
      operands.push_back(asVector(operand, width, mapping));
    SmallVector<Type> types;
    for (Type type : inner.getResultTypes())
      types.push_back(VectorType::get(width, type));
    Operation *wide =
        builder.create(inner.getLoc(), inner.getName().getIdentifier(),
                       operands, types, inner.getAttrs());
    mapping.map(inner.getResults(), wide->getResults());
  }

  /// A narrow step whose terms go to the lanes from `lane`.
  void rest(int64_t at, int64_t width, int64_t lane, Values &lanes) {
    Values part;
    for (Value all : lanes)
      part.push_back(slice(all, lane, width));
    step(index(at), width, part);
    for (auto [all, value] : llvm::zip_equal(lanes, part))
      all = vector::InsertStridedSliceOp::create(
          builder, value, all, ArrayRef<int64_t>{lane}, ArrayRef<int64_t>{1});
  }

  Value slice(Value lanes, int64_t from, int64_t width) {
    return vector::ExtractStridedSliceOp::create(
        builder, lanes, ArrayRef<int64_t>{from}, ArrayRef<int64_t>{width},
        ArrayRef<int64_t>{1});
  }

  Value join(Operation *op, Value a, Value b) {
    return builder
        .create(op->getLoc(), op->getName().getIdentifier(), {a, b},
                {a.getType()}, op->getAttrs())
        ->getResult(0);
  }

  /// Joins the lanes as a tree, then with what the output holds.
  void finish(Reduction &reduction, Value lanes) {
    for (int64_t width = kLanes / 2; width; width /= 2)
      lanes = join(reduction.join, slice(lanes, 0, width),
                   slice(lanes, width, width));
    Value total = vector::ExtractOp::create(builder, lanes, 0);
    Value out = op.getDpsInits()[reduction.output];
    Value before = memref::LoadOp::create(builder, out, ValueRange());
    memref::StoreOp::create(builder, join(reduction.join, before, total), out,
                            ValueRange());
  }

  linalg::LinalgOp op;
  Block *body;
  ImplicitLocOpBuilder builder;
  int64_t count = 0;
  SmallVector<Reduction> reductions;
};

struct VectorizeKernels : impl::VectorizeKernelsBase<VectorizeKernels> {
  void runOnOperation() override {
    SmallVector<linalg::LinalgOp> ops;
    getOperation()->walk([&](linalg::LinalgOp op) { ops.push_back(op); });
    for (linalg::LinalgOp op : ops)
      (void)RowVectorizer(op).run();
  }
};

} // namespace
} // namespace mlir::moe
