#include "GpuRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include <numeric>

using namespace mlir;
using namespace mlir::moe;

/// Bytes of the widest access to memory, and of the alignment of operands.
static constexpr int64_t kAccessBytes = 16;
/// Vectors of a row that a lane takes before the block shares the row, and
/// those of a loop that is written out.
static constexpr int64_t kVectorsPerLane = 4;
/// Registers for the scratch rows of a thread; there are 255.
static constexpr int64_t kScratchElements = 128;

static int64_t bytesOf(Type element) {
  return element.getIntOrFloatBitWidth() / 8;
}

/// The operand, scratch memory or global that a view is of.
static Value rootOf(Value memref) {
  while (auto view = memref.getDefiningOp<ViewLikeOpInterface>())
    memref = view.getViewSource();
  return memref;
}

static bool isScratch(Value memref) {
  return bool(memref.getDefiningOp<memref::AllocaOp>());
}

/// A number of elements that divides the view's offset.
static int64_t offsetDivisor(Value memref) {
  int64_t divisor = 0;
  while (auto view = memref.getDefiningOp<ViewLikeOpInterface>()) {
    if (auto subview = dyn_cast<memref::SubViewOp>(*view)) {
      auto [strides, offset] = subview.getSourceType().getStridesAndOffset();
      for (auto [at, stride] :
           llvm::zip_equal(subview.getMixedOffsets(), strides)) {
        std::optional<int64_t> known = getConstantIntValue(at);
        divisor = std::gcd(divisor, ShapedType::isDynamic(stride) ? 1
                                    : known ? *known * stride
                                            : stride);
      }
    }
    memref = view.getViewSource();
  }
  return divisor;
}

RowPlan RowPlan::of(gpu::GPUFuncOp function) {
  int64_t longest = 0, divisor = 0, narrowest = kAccessBytes;
  function.walk([&](linalg::LinalgOp op) {
    if (op.getNumLoops() != 1)
      return;
    int64_t length = op.getStaticLoopRanges()[0];
    longest = std::max(longest, length);
    divisor = std::gcd(divisor, length);
    for (Value operand : op->getOperands()) {
      auto type = dyn_cast<MemRefType>(operand.getType());
      if (!type || type.getRank() != 1 || isScratch(operand))
        continue;
      divisor = std::gcd(divisor, offsetDivisor(operand));
      narrowest = std::min(narrowest, bytesOf(type.getElementType()));
    }
  });
  RowPlan plan;
  if (!longest)
    return plan;
  plan.lanes = std::gcd(divisor, kAccessBytes / narrowest);
  int64_t vectors = longest / plan.lanes;
  plan.groupSize = vectors > kVectorsPerLane * kWarp
                       ? kBlock
                       : std::min(kWarp, int64_t(llvm::PowerOf2Ceil(vectors)));
  return plan;
}

GpuRows::GpuRows(gpu::GPUFuncOp function, GpuGroup &group, RowPlan plan)
    : group(group), plan(plan) {
  ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
  b.setInsertionPointAfter(group.inGrid.getDefiningOp());
  first = arith::MulIOp::create(b, group.thread,
                                arith::ConstantIndexOp::create(b, plan.lanes));
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

void GpuRows::access(Operation *op, Value memref, Access kind) {
  static constexpr unsigned anyScalar = ScalarRead | ScalarWrite;
  // Scalars are read by every thread and written by the first.
  unsigned conflicts = kind == ScalarRead    ? ScalarWrite | RowWrite
                       : kind == ScalarWrite ? ScalarRead | RowRead | RowWrite
                       : kind == RowRead     ? unsigned(ScalarWrite)
                                             : anyScalar;
  unsigned &before = pending[rootOf(memref).getType()];
  if (before & conflicts) {
    ImplicitLocOpBuilder b(op->getLoc(), op);
    group.sync(b);
    pending.clear();
  }
  pending[rootOf(memref).getType()] |= kind;
}

void GpuRows::collect(Operation *op, Accesses &accesses) {
  op->walk([&](Operation *inner) {
    auto add = [&](Value memref, Access kind) {
      if (!isScratch(rootOf(memref)))
        accesses[rootOf(memref).getType()] |= kind;
    };
    if (auto load = dyn_cast<memref::LoadOp>(inner))
      add(load.getMemRef(), ScalarRead);
    if (auto store = dyn_cast<memref::StoreOp>(inner))
      add(store.getMemRef(), ScalarWrite);
    if (auto linalg = dyn_cast<linalg::LinalgOp>(inner))
      for (OpOperand &operand : linalg->getOpOperands())
        if (isa<MemRefType>(operand.get().getType()))
          add(operand.get(), linalg.isDpsInit(&operand) ? RowWrite : RowRead);
  });
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult GpuRows::map(Block &block) {
  pending.clear();
  return mapIn(block);
}

LogicalResult GpuRows::mapIn(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (failed(mapOp(&op)))
      return failure();
  return success();
}

LogicalResult GpuRows::mapOp(Operation *op) {
  if (auto linalg = dyn_cast<linalg::LinalgOp>(op))
    return mapLinalg(linalg);
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    // What an iteration does comes before the next one, too.
    collect(loop, pending);
    return mapIn(*loop.getBody());
  }
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return mapBranch(branch);
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    if (!isScratch(load.getMemRef()))
      access(op, load.getMemRef(), ScalarRead);
    else if (load.getMemRefType().getRank() != 0)
      return op->emitError("has no mapping to a GPU: an element of a scratch "
                           "row is in one thread");
    return success();
  }
  if (auto store = dyn_cast<memref::StoreOp>(op)) {
    if (isScratch(store.getMemRef()) && store.getMemRefType().getRank() == 0)
      return success();
    if (isScratch(store.getMemRef()))
      return op->emitError("has no mapping to a GPU: an element of a scratch "
                           "row is in one thread");
    access(op, store.getMemRef(), ScalarWrite);
    ImplicitLocOpBuilder b(op->getLoc(), op);
    group.once(b, [&] { op->moveBefore(b.getBlock(), b.getInsertionPoint()); });
    return success();
  }
  if (isa<gpu::BarrierOp>(op)) {
    pending.clear();
    return success();
  }
  if (isMemoryEffectFree(op) && op->getNumRegions() == 0)
    return success();
  return op->emitError("has no mapping to a GPU");
}

LogicalResult GpuRows::mapBranch(scf::IfOp op) {
  Accesses before = pending, after = pending;
  for (Region &region : op->getRegions()) {
    if (region.empty())
      continue;
    pending = before;
    if (failed(mapIn(region.front())))
      return failure();
    for (auto [type, kinds] : pending)
      after[type] |= kinds;
  }
  pending = std::move(after);
  return success();
}

LogicalResult GpuRows::addScratch(memref::AllocaOp alloca) {
  int64_t stride = group.size * plan.lanes;
  int64_t length = alloca.getType().getDimSize(0);
  int64_t mine = llvm::divideCeil(length, stride) * plan.lanes;
  if (mine > kScratchElements)
    return alloca.emitError("has no mapping to a GPU: a scratch row of ")
           << length << " elements doesn't fit into the registers of "
           << group.size << " threads";
  scratch[alloca] = mine;
  return success();
}

void GpuRows::shrinkScratch() {
  for (auto [alloca, mine] : scratch) {
    Value row = alloca->getResult(0);
    Type element = cast<MemRefType>(row.getType()).getElementType();
    row.setType(MemRefType::get({mine}, element));
  }
}

LogicalResult GpuRows::mapLinalg(linalg::LinalgOp op) {
  RowVectors row(op);
  if (failed(row.match()))
    return op->emitError("has no mapping to a GPU: not elementwise, nor a sum "
                         "or a maximum, over the columns of a row");
  ImplicitLocOpBuilder &b = row.builder;
  bool usesScratch = false;
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (!type || type.getRank() != 1)
      continue;
    if (auto alloca = operand.get().getDefiningOp<memref::AllocaOp>()) {
      usesScratch = true;
      if (failed(addScratch(alloca)))
        return failure();
    } else {
      access(op, operand.get(), op.isDpsInit(&operand) ? RowWrite : RowRead);
    }
  }
  b.setInsertionPoint(op);

  auto step = [&](Value at, int64_t k, RowVectors::Values &partial) {
    row.step(
        plan.lanes,
        [&](OpOperand &operand) -> RowVectors::Place {
          if (isScratch(operand.get()))
            return {row.index(k * plan.lanes), {}};
          Type element =
              cast<MemRefType>(operand.get().getType()).getElementType();
          return {at, llvm::Align(std::min(kAccessBytes,
                                           plan.lanes * bytesOf(element)))};
        },
        partial);
  };
  int64_t stride = group.size * plan.lanes;
  int64_t steps = llvm::divideCeil(row.count(), stride);
  RowVectors::Values partial = row.neutral(plan.lanes);
  if (usesScratch || steps <= kVectorsPerLane) {
    for (int64_t k = 0; k < steps; ++k) {
      Value at = arith::AddIOp::create(b, first, row.index(k * stride));
      if ((k + 1) * stride <= row.count()) {
        step(at, k, partial);
        continue;
      }
      Value inRow = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, at,
                                          row.index(row.count()));
      auto branch = scf::IfOp::create(b, ValueRange(partial).getTypes(), inRow,
                                      /*addThenBlock=*/true,
                                      /*addElseBlock=*/!partial.empty());
      OpBuilder::InsertionGuard guard(b);
      if (!partial.empty()) {
        b.setInsertionPointToStart(branch.elseBlock());
        scf::YieldOp::create(b, partial);
      }
      b.setInsertionPointToStart(branch.thenBlock());
      step(at, k, partial);
      scf::YieldOp::create(b, partial);
      partial.assign(branch.result_begin(), branch.result_end());
    }
  } else {
    auto loop = scf::ForOp::create(b, first, row.index(row.count()),
                                   row.index(stride), partial);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    RowVectors::Values next(loop.getRegionIterArgs());
    step(loop.getInductionVar(), 0, next);
    if (!partial.empty())
      scf::YieldOp::create(b, next);
    partial.assign(loop.result_begin(), loop.result_end());
  }
  for (auto [i, lanes] : llvm::enumerate(partial)) {
    auto join = [&, i = i](Value x, Value y) { return row.join(i, x, y); };
    row.finish(i, group.reduce(b, row.foldLanes(i, lanes), join));
  }
  op->erase();
  return success();
}

LogicalResult GpuRows::mapFlat(linalg::LinalgOp op) {
  RowVectors row(op);
  if (failed(row.match()) || row.isReduction() ||
      llvm::any_of(op->getOperands(), isScratch))
    return op->emitError("has no mapping to a GPU: not elementwise over all "
                         "elements of a tensor");
  ImplicitLocOpBuilder &b = row.builder;
  Value lanes = row.index(plan.lanes);
  auto loop = scf::ForOp::create(
      b,
      arith::MulIOp::create(
          b,
          arith::AddIOp::create(b, group.thread,
                                arith::MulIOp::create(b, group.numberInGrid,
                                                      row.index(group.size))),
          lanes),
      row.index(row.count()),
      arith::MulIOp::create(
          b, arith::MulIOp::create(b, group.inGrid, row.index(group.size)),
          lanes));
  b.setInsertionPointToStart(loop.getBody());
  RowVectors::Values none;
  row.step(
      plan.lanes,
      [&](OpOperand &operand) -> RowVectors::Place {
        Type element =
            cast<MemRefType>(operand.get().getType()).getElementType();
        return {
            loop.getInductionVar(),
            llvm::Align(std::min(kAccessBytes, plan.lanes * bytesOf(element)))};
      },
      none);
  op->erase();
  return success();
}
