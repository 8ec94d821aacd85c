#include "moe/Transforms/Kernels/Passes.h"

#include "RowVectors.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::moe {
#define GEN_PASS_DEF_VECTORIZEKERNELS
#include "moe/Transforms/Kernels/Passes.h.inc"

namespace {

/// Lanes of a vector, on every machine: term i of a sum goes to lane i mod 16,
/// as in the library's kernels.
constexpr int64_t kLanes = 16;

/// Leaves the op alone if it is not of the form.
void vectorize(linalg::LinalgOp op) {
  using Values = RowVectors::Values;
  RowVectors row(op);
  if (failed(row.match()))
    return;
  ImplicitLocOpBuilder &builder = row.builder;
  auto step = [&](Value at, int64_t width, Values &partial) {
    row.step(
        width, [&](OpOperand &) { return RowVectors::Place{at, {}}; }, partial);
  };
  Values lanes = row.neutral(kLanes);
  int64_t whole = row.count() / kLanes * kLanes;
  if (whole) {
    auto loop = scf::ForOp::create(builder, row.index(0), row.index(whole),
                                   row.index(kLanes), lanes);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Values next(loop.getRegionIterArgs());
    step(loop.getInductionVar(), kLanes, next);
    if (!lanes.empty())
      scf::YieldOp::create(builder, next);
    lanes.assign(loop.result_begin(), loop.result_end());
  }
  // The rest, in vectors of 8, 4, 2 and 1: the lanes that it would have had.
  for (int64_t at = whole, width = kLanes / 2; width; width /= 2) {
    if (!((row.count() - whole) & width))
      continue;
    int64_t lane = at - whole;
    Values part;
    for (Value all : lanes)
      part.push_back(row.slice(all, lane, width));
    step(row.index(at), width, part);
    for (auto [all, value] : llvm::zip_equal(lanes, part))
      all = vector::InsertStridedSliceOp::create(
          builder, value, all, ArrayRef<int64_t>{lane}, ArrayRef<int64_t>{1});
    at += width;
  }
  for (auto [i, value] : llvm::enumerate(lanes))
    row.finish(i, row.foldLanes(i, value));
  op->erase();
}

struct VectorizeKernels : impl::VectorizeKernelsBase<VectorizeKernels> {
  void runOnOperation() override {
    SmallVector<linalg::LinalgOp> ops;
    getOperation()->walk([&](linalg::LinalgOp op) { ops.push_back(op); });
    for (linalg::LinalgOp op : ops)
      vectorize(op);
  }
};

} // namespace
} // namespace mlir::moe
