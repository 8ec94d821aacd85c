//===- GpuRows.h - Ops on rows, shared by a group of threads ----*- C++ -*-===//
//
// Element i of a row belongs to one thread of the group, in all ops of a
// kernel: vector i / lanes goes to thread (i / lanes) mod size. So scratch rows
// are registers, and threads wait for each other only around a scalar access.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_TRANSFORMS_KERNELS_GPUROWS_H
#define MOE_LIB_TRANSFORMS_KERNELS_GPUROWS_H

#include "GpuGroup.h"
#include "RowVectors.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::moe {

/// How the rows of a kernel are shared.
struct RowPlan {
  int64_t groupSize = 1;
  /// Elements of a vector: 16 bytes of the narrowest type, fewer where a width
  /// or an offset isn't a multiple.
  int64_t lanes = 1;

  /// Of the linalg ops in `function`.
  static RowPlan of(gpu::GPUFuncOp function);
};

class GpuRows {
public:
  GpuRows(gpu::GPUFuncOp function, GpuGroup &group, RowPlan plan);

  /// Ops that a group runs once for each row, or the error of one that has no
  /// mapping.
  LogicalResult map(Block &block);
  /// A row that the whole grid shares.
  LogicalResult mapFlat(linalg::LinalgOp op);
  /// When all is mapped: scratch rows become what one thread has of them.
  void shrinkScratch();

private:
  /// Accesses since threads last waited for each other, by the type of the
  /// operand: operands of one type may be one buffer.
  enum Access : unsigned {
    ScalarRead = 1,
    ScalarWrite = 2,
    RowRead = 4,
    RowWrite = 8
  };
  using Accesses = DenseMap<Type, unsigned>;

  LogicalResult mapIn(Block &block);
  LogicalResult mapOp(Operation *op);
  LogicalResult mapLinalg(linalg::LinalgOp op);
  LogicalResult mapBranch(scf::IfOp op);
  LogicalResult addScratch(memref::AllocaOp alloca);
  void access(Operation *op, Value memref, Access kind);
  void collect(Operation *op, Accesses &accesses);

  GpuGroup &group;
  RowPlan plan;
  /// The thread's first element of a row.
  Value first;
  Accesses pending;
  /// Scratch rows, and how many elements a thread has.
  DenseMap<Operation *, int64_t> scratch;
};

} // namespace mlir::moe

#endif // MOE_LIB_TRANSFORMS_KERNELS_GPUROWS_H
