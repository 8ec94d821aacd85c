#include "GpuGroup.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::moe;

static Value index(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

static Value i32(ImplicitLocOpBuilder &b, uint32_t value) {
  return arith::ConstantOp::create(b, b.getI32IntegerAttr(int32_t(value)));
}

static Value addShared(gpu::GPUFuncOp function, int64_t count, Type element) {
  auto space = gpu::AddressSpaceAttr::get(function.getContext(),
                                          gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get(count, element, MemRefLayoutAttrInterface(),
                              Attribute(space));
  return function.addWorkgroupAttribution(type, function.getLoc());
}

GpuGroup::GpuGroup(gpu::GPUFuncOp function, int64_t size)
    : size(size), function(function) {
  ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
  b.setInsertionPointToStart(&function.getBody().front());
  threadInBlock =
      gpu::ThreadIdOp::create(b, gpu::Dimension::x, b.getIndexAttr(kBlock));
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value blocks = gpu::GridDimOp::create(b, gpu::Dimension::x);
  thread = arith::RemUIOp::create(b, threadInBlock, index(b, size));
  number = arith::DivUIOp::create(b, threadInBlock, index(b, size));
  Value before = arith::MulIOp::create(b, block, index(b, perBlock));
  numberInGrid = arith::AddIOp::create(b, before, number);
  inGrid = arith::MulIOp::create(b, blocks, index(b, perBlock));
  if (size == 1 || size > kWarp)
    return;
  // Groups of one warp may be in different iterations: each has its own mask.
  Value lane = arith::RemUIOp::create(b, threadInBlock, index(b, kWarp));
  Value first = arith::SubIOp::create(b, lane, thread);
  Value shift = arith::IndexCastOp::create(b, b.getI32Type(), first);
  mask = arith::ShLIOp::create(b, i32(b, uint32_t((1ull << size) - 1)), shift);
}

void GpuGroup::sync(ImplicitLocOpBuilder &b) {
  if (size > kWarp)
    gpu::BarrierOp::create(b);
  else if (size > 1)
    NVVM::SyncWarpOp::create(b, mask);
}

void GpuGroup::once(ImplicitLocOpBuilder &b, function_ref<void()> body) {
  OpBuilder::InsertionGuard guard(b);
  if (size > 1) {
    Value isFirst =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, thread, index(b, 0));
    auto branch = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
  }
  body();
}

Value GpuGroup::reduce(ImplicitLocOpBuilder &b, Value mine,
                       function_ref<Value(Value, Value)> join) {
  Value lanes = size > kWarp ? i32(b, ~0u) : mask;
  // Both partners join the same two values, so that all lanes agree.
  for (int64_t distance = std::min(size, kWarp) / 2; distance; distance /= 2)
    mine = join(mine, NVVM::ShflOp::create(b, mine.getType(), lanes, mine,
                                           i32(b, distance), i32(b, kWarp - 1),
                                           NVVM::ShflKind::bfly, UnitAttr()));
  if (size <= kWarp)
    return mine;
  if (!shared)
    shared = addShared(function, kBlock / kWarp, b.getF32Type());
  Value lane = arith::RemUIOp::create(b, thread, index(b, kWarp));
  Value warp = arith::DivUIOp::create(b, thread, index(b, kWarp));
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(b, 0));
  auto branch = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    memref::StoreOp::create(b, mine, shared, warp);
  }
  gpu::BarrierOp::create(b);
  Value total;
  for (int64_t i = 0; i < kBlock / kWarp; ++i) {
    Value part = memref::LoadOp::create(b, shared, index(b, i));
    total = total ? join(total, part) : part;
  }
  // The next reduction writes the same places.
  gpu::BarrierOp::create(b);
  return total;
}

Value GpuGroup::isLastBlock(ImplicitLocOpBuilder &b, Value arrivals) {
  Value flag = addShared(function, 1, b.getI32Type()), zero = index(b, 0);
  gpu::BarrierOp::create(b);
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, threadInBlock, zero);
  auto branch = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    // The atomic is relaxed: the fences release what the block wrote and
    // acquire what the others did.
    auto fence = [&] {
      LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acq_rel);
    };
    fence();
    Value before = memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::addi,
                                               i32(b, 1), arrivals, zero);
    fence();
    Value blocks = gpu::GridDimOp::create(b, gpu::Dimension::x);
    Value last = arith::SubIOp::create(
        b, arith::IndexCastOp::create(b, b.getI32Type(), blocks), i32(b, 1));
    Value isLast =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, before, last);
    auto reset = scf::IfOp::create(b, isLast, /*withElseRegion=*/false);
    memref::StoreOp::create(
        b, arith::ExtUIOp::create(b, b.getI32Type(), isLast), flag, zero);
    b.setInsertionPointToStart(reset.thenBlock());
    memref::StoreOp::create(b, i32(b, 0), arrivals, zero);
  }
  gpu::BarrierOp::create(b);
  Value value = memref::LoadOp::create(b, flag, zero);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value, i32(b, 0));
}
