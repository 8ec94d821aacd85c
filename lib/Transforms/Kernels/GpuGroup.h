//===- GpuGroup.h - Threads of a block that share a row ---------*- C++ -*-===//

#ifndef MOE_LIB_TRANSFORMS_KERNELS_GPUGROUP_H
#define MOE_LIB_TRANSFORMS_KERNELS_GPUGROUP_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::moe {

inline constexpr int64_t kBlock = 256, kWarp = 32;

/// Groups of `size` threads: 1, 2, 4, ..., 32 or the block. Its values are at
/// the top of the kernel.
class GpuGroup {
public:
  GpuGroup(gpu::GPUFuncOp function, int64_t size);

  const int64_t size;
  /// Groups of a block.
  const int64_t perBlock = kBlock / size;
  /// In the block.
  Value threadInBlock;
  /// In the group.
  Value thread;
  /// Of the group in the block, in the grid, and how many are in the grid.
  Value number, numberInGrid, inGrid;

  /// Waits for the group's threads; what they wrote is seen.
  void sync(ImplicitLocOpBuilder &b);
  /// Runs `body` in the first thread.
  void once(ImplicitLocOpBuilder &b, function_ref<void()> body);
  /// Joins an f32 of each thread, in an order that depends on nothing but
  /// `size`. Every thread gets the result.
  Value reduce(ImplicitLocOpBuilder &b, Value mine,
               function_ref<Value(Value, Value)> join);
  /// Whether this is the last block of the grid to come here: it sees what all
  /// others wrote. Each launch leaves `arrivals` (one i32, zero) as it was.
  Value isLastBlock(ImplicitLocOpBuilder &b, Value arrivals);

private:
  gpu::GPUFuncOp function;
  /// Bits of the group's lanes.
  Value mask;
  /// A place in shared memory for each warp; made when needed.
  Value shared;
};

} // namespace mlir::moe

#endif // MOE_LIB_TRANSFORMS_KERNELS_GPUGROUP_H
