//===- LowerKernels.h - Bodies of kernels to the NVVM dialect ---*- C++ -*-===//

#ifndef MOE_LIB_TARGET_CUDA_LOWERKERNELS_H
#define MOE_LIB_TARGET_CUDA_LOWERKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::moe {

/// A new module with one `gpu.module` in the LLVM and NVVM dialects, which has
/// a function for each `moe.kernel` that has a body. No calls are left to
/// libdevice.
FailureOr<OwningOpRef<ModuleOp>> lowerKernelsToNVVM(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_LIB_TARGET_CUDA_LOWERKERNELS_H
