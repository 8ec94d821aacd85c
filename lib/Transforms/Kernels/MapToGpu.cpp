#include "moe/Transforms/Kernels/Passes.h"

#include "GpuRows.h"
#include "dialects/Moe/MoeOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MAPTOGPU
#include "moe/Transforms/Kernels/Passes.h.inc"

namespace {

/// Elements of all partial sums of a kernel, at most, and rows of them: more
/// keep more blocks busy, fewer are less work for the last block.
constexpr int64_t kPartialElements = 256 << 10, kPartialRows = 2048;

bool hasRows(Operation *op) {
  return op->walk([](linalg::LinalgOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// acc + x or x + acc, with no other use of acc.
Value addedTo(Value acc, Value sum) {
  auto add = sum.getDefiningOp<arith::AddFOp>();
  if (!add || !acc.hasOneUse() || acc.use_begin()->getOwner() != add)
    return Value();
  return add.getLhs() == acc ? add.getRhs() : add.getLhs();
}

bool isZero(Value x) { return matchPattern(x, m_AnyZeroFloat()); }

/// One kernel. Ops at the top of its body run in every thread, but for one
/// that is work: independent rows, a row as long as a tensor, or a sum over
/// rows and what comes after it.
class KernelMapper {
public:
  KernelMapper(KernelOp kernel, gpu::GPUModuleOp module)
      : kernel(kernel), module(module),
        b(kernel.getLoc(), module.getContext()) {}

  LogicalResult run() {
    outline();
    Operation *work = nullptr;
    for (Operation &op : function.getBody().front().without_terminator()) {
      bool sum = isa<scf::ForOp>(op) && hasRows(&op);
      bool fill = isa<linalg::FillOp>(op) && writesScratch(&op);
      if (sum || isa<scf::ForallOp>(op) || (!fill && hasRows(&op))) {
        if (work)
          return op.emitError("works on rows after others did: a GPU needs a "
                              "kernel of its own for it");
        work = &op;
        if (sum)
          break;
      } else if (!readsOnly(&op) && !fill) {
        return op.emitError("has no mapping to a GPU here");
      }
    }
    if (!work)
      return kernel.emitOpError("has no rows to map to a GPU");
    RowPlan plan = RowPlan::of(function);
    GpuGroup group(function, plan.groupSize);
    GpuRows rows(function, group, plan);
    LogicalResult mapped = isa<scf::ForallOp>(work)
                               ? mapRows(cast<scf::ForallOp>(work), group, rows)
                           : isa<scf::ForOp>(work)
                               ? mapSum(cast<scf::ForOp>(work), group, rows)
                               : rows.mapFlat(cast<linalg::LinalgOp>(work));
    rows.shrinkScratch();
    return mapped;
  }

private:
  /// The body as a function; scratch memory at its top, one for all rows.
  void outline() {
    b.setInsertionPointToEnd(module.getBody());
    SmallVector<Type> types(kernel.getBody().getArgumentTypes());
    NamedAttribute attributes[] = {
        b.getNamedAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                       b.getUnitAttr()),
        b.getNamedAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                       b.getDenseI32ArrayAttr({int32_t(kBlock), 1, 1}))};
    name = ("moe_kernel_" + kernel.getSymName()).str();
    function =
        gpu::GPUFuncOp::create(b, name, b.getFunctionType(types, TypeRange()),
                               TypeRange(), TypeRange(), attributes);
    Block &entry = function.getBody().front();
    b.setInsertionPointToEnd(&entry);
    IRMapping mapping;
    mapping.map(kernel.getBody().getArguments(), function.getArguments());
    for (Operation &op : kernel.getBody().front())
      b.clone(op, mapping);
    gpu::ReturnOp::create(b);
    function.walk([&](memref::AllocaOp alloca) {
      alloca->moveBefore(&entry, entry.begin());
    });
  }

  static bool writesScratch(Operation *op) {
    return llvm::all_of(cast<linalg::LinalgOp>(op).getDpsInits(), [](Value x) {
      return bool(x.getDefiningOp<memref::AllocaOp>());
    });
  }

  /// Whether every thread may run it.
  static bool readsOnly(Operation *op) {
    return !op->walk([](Operation *inner) {
                return isa<memref::AllocaOp, memref::LoadOp, scf::ForOp,
                           scf::IfOp>(inner) ||
                               isMemoryEffectFree(inner)
                           ? WalkResult::advance()
                           : WalkResult::interrupt();
              }).wasInterrupted();
  }

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }

  scf::ForOp loopOver(Value from, Value to, Value step) {
    auto loop = scf::ForOp::create(b, from, to, step);
    b.setInsertionPointToStart(loop.getBody());
    return loop;
  }

  /// Groups take rows in a grid stride.
  LogicalResult mapRows(scf::ForallOp forall, GpuGroup &group, GpuRows &rows) {
    if (forall.getRank() != 1 || !forall.isNormalized() ||
        !forall.getOutputs().empty())
      return forall.emitError("has no mapping to a GPU: a loop over rows has "
                              "one dimension, from 0 in steps of 1");
    b.setInsertionPoint(forall);
    Value count = getValueOrCreateConstantIndexOp(
        b, b.getLoc(), forall.getMixedUpperBound()[0]);
    auto loop = loopOver(group.numberInGrid, count, group.inGrid);
    forall.getBody()->getTerminator()->erase();
    forall.getInductionVar(0).replaceAllUsesWith(loop.getInductionVar());
    Block *body = loop.getBody();
    body->getOperations().splice(body->begin(),
                                 forall.getBody()->getOperations());
    forall.erase();
    return rows.map(*body);
  }

  //===--------------------------------------------------------------------===//
  // Sums over rows
  //===--------------------------------------------------------------------===//

  /// What a loop over rows sums up: a scratch row or a value that it carries.
  struct Sum {
    Value scratch;
    linalg::FillOp fill;
    /// Of each chunk of rows.
    Value partials;
  };

  /// Scratch rows that the loop adds to. All else that it writes is of one
  /// iteration.
  FailureOr<SmallVector<Sum>> findSums(scf::ForOp loop) {
    SmallVector<Sum> sums;
    for (auto alloca : function.getOps<memref::AllocaOp>()) {
      Sum sum{alloca, nullptr, Value()};
      llvm::SmallPtrSet<Operation *, 4> inside;
      bool outside = false;
      for (Operation *user : alloca->getUsers()) {
        if (loop->isAncestor(user)) {
          inside.insert(user);
          continue;
        }
        outside = true;
        if (auto fill = dyn_cast<linalg::FillOp>(user);
            fill && fill->getBlock() == loop->getBlock() &&
            fill->isBeforeInBlock(loop) && isZero(fill.getInputs()[0]))
          sum.fill = fill;
      }
      if (inside.empty() || !outside)
        continue;
      if (!sum.fill || inside.size() != 1 || !addsTo(*inside.begin(), alloca))
        return alloca.emitError("has no mapping to a GPU: from one row to the "
                                "next there are only sums, from zero");
      sums.push_back(sum);
    }
    WalkResult result = loop.walk([&](Operation *op) {
      auto writes = [](Value memref) {
        return !memref.getDefiningOp<memref::AllocaOp>();
      };
      auto store = dyn_cast<memref::StoreOp>(op);
      auto linalg = dyn_cast<linalg::LinalgOp>(op);
      if ((store && writes(store.getMemRef())) ||
          (linalg && llvm::any_of(linalg.getDpsInits(), writes))) {
        op->emitError("has no mapping to a GPU: writes memory row after row");
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    return sums;
  }

  static bool addsTo(Operation *op, Value row) {
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if (!generic)
      return false;
    Block *body = generic.getBody();
    for (auto [i, out] : llvm::enumerate(generic.getDpsInits()))
      for (auto [j, in] : llvm::enumerate(generic.getDpsInputs()))
        if (in == row && out == row &&
            body->getArgument(generic.getNumDpsInputs() + i).use_empty() &&
            addedTo(body->getArgument(j), body->getTerminator()->getOperand(i)))
          return true;
    return false;
  }

  Value global(StringRef suffix, ArrayRef<int64_t> shape, Type element,
               Attribute initial) {
    auto space =
        gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Global);
    auto type = MemRefType::get(shape, element, MemRefLayoutAttrInterface(),
                                Attribute(space));
    std::string symbol = name + suffix.str();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    memref::GlobalOp::create(b, symbol, b.getStringAttr("private"), type,
                             initial, /*constant=*/false,
                             b.getI64IntegerAttr(16));
    b.setInsertionPointToStart(&function.getBody().front());
    return memref::GetGlobalOp::create(b, type, symbol);
  }

  Value rowOf(Value partials, Value i) {
    auto type = cast<MemRefType>(partials.getType());
    SmallVector<OpFoldResult> offsets = {i, b.getIndexAttr(0)};
    SmallVector<OpFoldResult> sizes = {b.getIndexAttr(1),
                                       b.getIndexAttr(type.getDimSize(1))};
    SmallVector<OpFoldResult> strides(2, b.getIndexAttr(1));
    auto row = memref::SubViewOp::inferRankReducedResultType(
        {type.getDimSize(1)}, type, offsets, sizes, strides);
    return memref::SubViewOp::create(b, cast<MemRefType>(row), partials,
                                     offsets, sizes, strides);
  }

  void addRow(Value row, Value to) {
    AffineMap id = b.getMultiDimIdentityMap(1);
    linalg::GenericOp::create(
        b, ValueRange{to, row}, to, ArrayRef<AffineMap>{id, id, id},
        ArrayRef<utils::IteratorType>{utils::IteratorType::parallel},
        [](OpBuilder &nested, Location at, ValueRange v) {
          Value sum = arith::AddFOp::create(nested, at, v[0], v[1]);
          linalg::YieldOp::create(nested, at, sum);
        });
  }

  /// Groups sum up chunks of rows; the last block to finish adds the chunks,
  /// in a fixed order whatever the grid, and runs the rest.
  LogicalResult mapSum(scf::ForOp loop, GpuGroup &group, GpuRows &rows) {
    std::optional<int64_t> from = getConstantIntValue(loop.getLowerBound()),
                           to = getConstantIntValue(loop.getUpperBound()),
                           step = getConstantIntValue(loop.getStep());
    Value carried = loop->getNumResults() ? loop.getRegionIterArg(0) : Value();
    if (from != 0 || step != 1 || !to || loop->getNumResults() > 1 ||
        (carried && (!isZero(loop.getInitArgs()[0]) ||
                     !addedTo(carried, loop.getYieldedValues()[0]))))
      return loop.emitError("has no mapping to a GPU: a loop over rows sums "
                            "them up, from 0 in steps of 1");
    FailureOr<SmallVector<Sum>> sums = findSums(loop);
    if (failed(sums))
      return failure();

    int64_t width = 1, count = *to;
    for (Sum &sum : *sums)
      width += cast<MemRefType>(sum.scratch.getType()).getDimSize(0);
    int64_t chunks = std::min({count, kPartialRows, kPartialElements / width});
    int64_t size = llvm::divideCeil(count, std::max<int64_t>(chunks, 1));
    chunks = llvm::divideCeil(count, size);
    Value arrivals = global(
        "_arrivals", {1}, b.getI32Type(),
        DenseElementsAttr::get(RankedTensorType::get({1}, b.getI32Type()),
                               b.getI32IntegerAttr(0)));
    for (auto [i, sum] : llvm::enumerate(*sums)) {
      auto type = cast<MemRefType>(sum.scratch.getType());
      sum.partials =
          global("_partials_" + std::to_string(i), {chunks, type.getDimSize(0)},
                 type.getElementType(), b.getUnitAttr());
    }
    Value scalars;
    if (carried)
      scalars =
          global("_partials", {chunks}, carried.getType(), b.getUnitAttr());

    // The chunks.
    b.setInsertionPoint(loop);
    auto overChunks = loopOver(group.numberInGrid, index(chunks), group.inGrid);
    Value chunk = overChunks.getInductionVar();
    Value first = arith::MulIOp::create(b, chunk, index(size));
    Value end = arith::AddIOp::create(b, first, index(size));
    end = arith::MinSIOp::create(b, end, index(count));
    for (Sum &sum : *sums)
      sum.fill->moveBefore(overChunks.getBody(), b.getInsertionPoint());
    Operation *after = loop->getNextNode();
    loop->moveBefore(overChunks.getBody(), b.getInsertionPoint());
    loop.setLowerBound(first);
    loop.setUpperBound(end);
    b.setInsertionPointAfter(loop);
    for (Sum &sum : *sums)
      linalg::CopyOp::create(b, sum.scratch, rowOf(sum.partials, chunk));
    if (carried)
      memref::StoreOp::create(b, loop.getResult(0), scalars, chunk);

    // The last block.
    b.setInsertionPointAfter(overChunks);
    Value isLast = group.isLastBlock(b, arrivals);
    auto last = scf::IfOp::create(b, isLast, /*withElseRegion=*/false);
    Block *block = last.thenBlock();
    b.setInsertionPointToStart(block);
    for (Sum &sum : *sums)
      addPartials(sum, chunks, group);
    if (failed(rows.map(*overChunks.getBody())) || failed(rows.map(*block)))
      return failure();
    b.setInsertionPoint(block->getTerminator());
    if (carried) {
      Value total = addScalars(scalars, chunks, group);
      loop.getResult(0).replaceUsesWithIf(total, [&](OpOperand &use) {
        return !overChunks->isAncestor(use.getOwner());
      });
    }
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          group.number, index(0));
    auto rest = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
    Block &entry = function.getBody().front();
    Block *then = rest.thenBlock();
    then->getOperations().splice(then->begin(), entry.getOperations(),
                                 after->getIterator(),
                                 entry.getTerminator()->getIterator());
    return rows.map(*rest.thenBlock());
  }

  /// The scratch row becomes the sum of the chunks' rows: each group of the
  /// block adds some, then all add the groups'.
  void addPartials(Sum &sum, int64_t chunks, GpuGroup &group) {
    OpBuilder::InsertionGuard guard(b);
    auto addRows = [&](Value from, int64_t to, int64_t step) {
      b.clone(*sum.fill);
      OpBuilder::InsertionGuard guard(b);
      auto loop = loopOver(from, index(to), index(step));
      addRow(rowOf(sum.partials, loop.getInductionVar()), sum.scratch);
    };
    addRows(group.number, chunks, group.perBlock);
    if (group.perBlock == 1)
      return;
    int64_t groups = std::min(group.perBlock, chunks);
    Value has = arith::CmpIOp::create(b, arith::CmpIPredicate::ult,
                                      group.number, index(groups));
    auto branch = scf::IfOp::create(b, has, /*withElseRegion=*/false);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      linalg::CopyOp::create(b, sum.scratch, rowOf(sum.partials, group.number));
    }
    gpu::BarrierOp::create(b);
    addRows(index(0), groups, 1);
  }

  /// The sum of the chunks' values, in every thread.
  Value addScalars(Value partials, int64_t chunks, GpuGroup &group) {
    Type type = cast<MemRefType>(partials.getType()).getElementType();
    auto add = [&](Value from, int64_t to, int64_t step) -> Value {
      Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
      auto loop = scf::ForOp::create(b, from, index(to), index(step), zero);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value part = memref::LoadOp::create(b, partials, loop.getInductionVar());
      Value next = arith::AddFOp::create(b, loop.getRegionIterArg(0), part);
      scf::YieldOp::create(b, next);
      return loop.getResult(0);
    };
    Value mine = add(group.threadInBlock, chunks, kBlock);
    int64_t threads = std::min(kBlock, chunks);
    Value has = arith::CmpIOp::create(b, arith::CmpIPredicate::ult,
                                      group.threadInBlock, index(threads));
    auto branch = scf::IfOp::create(b, has, /*withElseRegion=*/false);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      memref::StoreOp::create(b, mine, partials, group.threadInBlock);
    }
    gpu::BarrierOp::create(b);
    return add(index(0), threads, 1);
  }

  KernelOp kernel;
  gpu::GPUModuleOp module;
  ImplicitLocOpBuilder b;
  gpu::GPUFuncOp function;
  std::string name;
};

struct MapToGpu : impl::MapToGpuBase<MapToGpu> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<KernelOp> kernels;
    for (KernelOp kernel : module.getOps<KernelOp>())
      if (!kernel.getBody().empty())
        kernels.push_back(kernel);
    if (kernels.empty())
      return;
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto gpuModule =
        gpu::GPUModuleOp::create(builder, module.getLoc(), "moe_kernels");
    for (KernelOp kernel : kernels)
      if (failed(KernelMapper(kernel, gpuModule).run()))
        return signalPassFailure();
    // Say, a fill at the top whose row isn't summed up.
    gpuModule.walk([&](linalg::LinalgOp op) {
      op->emitError("has no mapping to a GPU here");
      signalPassFailure();
    });
  }
};

} // namespace
} // namespace mlir::moe
