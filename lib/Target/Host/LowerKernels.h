//===- LowerKernels.h - Bodies of kernels to the LLVM dialect ---*- C++ -*-===//

#ifndef MOE_LIB_TARGET_HOST_LOWERKERNELS_H
#define MOE_LIB_TARGET_HOST_LOWERKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::moe {

/// Name of a kernel's function in the code.
std::string hostSymbol(StringRef kernel);

/// A new module, in the LLVM dialect, with a function
/// `void hostSymbol(kernel)(ptr)` for each `moe.kernel` that has a body: it
/// takes an array with a pointer for each operand.
FailureOr<OwningOpRef<ModuleOp>> lowerKernelsToLLVM(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_LIB_TARGET_HOST_LOWERKERNELS_H
