//===- KernelSignature.h - Kernels against the library ----------*- C++ -*-===//

#ifndef MOE_LIB_TRANSFORMS_KERNELS_KERNELSIGNATURE_H
#define MOE_LIB_TRANSFORMS_KERNELS_KERNELSIGNATURE_H

#include "dialects/Moe/MoeOps.h"

namespace mlir::moe {

/// Error at the kernel unless its operands, types, shapes and numbers are those
/// of the library's kernel of its op (moe/Runtime/Kernels.h).
LogicalResult checkSignature(KernelOp op);

} // namespace mlir::moe

#endif // MOE_LIB_TRANSFORMS_KERNELS_KERNELSIGNATURE_H
