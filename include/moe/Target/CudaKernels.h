//===- CudaKernels.h - Generated kernels for NVIDIA GPUs --------*- C++ -*-===//

#ifndef MOE_TARGET_CUDAKERNELS_H
#define MOE_TARGET_CUDAKERNELS_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace mlir::moe {

/// Machine code of each `moe.kernel` of the module that has a body, as one fat
/// binary for H100 (sm_90a) and GB200 (sm_100a). A kernel
/// `moe_kernel_<symbol>` takes a pointer for each operand, aligned to 16 bytes;
/// blocks have 256 threads, the grid may be of any size. Launches of one kernel
/// must not overlap in time: one that sums over rows (moe-map-to-gpu) keeps
/// partial sums in memory of the image. The module stays as it is. Needs ptxas
/// and fatbinary in `toolkit`/bin; an error at the module names what is
/// missing, or at the op that doesn't lower.
FailureOr<std::string> emitCudaImage(ModuleOp module, StringRef toolkit);

/// A chip that images are for, and the PTX version that its code is in.
struct CudaChip {
  StringRef name, features;
};
ArrayRef<CudaChip> cudaChips();

/// The same kernels as PTX; needs no toolkit.
FailureOr<std::string> emitPtx(ModuleOp module, const CudaChip &chip);

/// moe-translate: --emit-ptx, --emit-cuda-image.
void registerCudaTranslations();

} // namespace mlir::moe

#endif // MOE_TARGET_CUDAKERNELS_H
