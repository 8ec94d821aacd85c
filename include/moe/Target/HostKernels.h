//===- HostKernels.h - Generated kernels as machine code --------*- C++ -*-===//

#ifndef MOE_TARGET_HOSTKERNELS_H
#define MOE_TARGET_HOSTKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "moe/Runtime/Engine.h"

#include <map>
#include <memory>
#include <string>

namespace llvm {
class raw_pwrite_stream;
} // namespace llvm

namespace mlir::moe {

/// Machine code in this process. The functions live as long as this does.
class HostKernels {
public:
  /// Compiles each `moe.kernel` of the module that has a body; the module
  /// stays as it is. An error at the module, or at the op that doesn't lower.
  static FailureOr<HostKernels> compile(ModuleOp module);

  HostKernels(HostKernels &&);
  HostKernels &operator=(HostKernels &&);
  ~HostKernels();

  /// By the kernel's symbol, for Engine::create.
  const std::map<std::string, moert::GeneratedKernel> &getFunctions() const {
    return functions;
  }

private:
  struct Code;
  explicit HostKernels(std::unique_ptr<Code> code);

  std::unique_ptr<Code> code;
  std::map<std::string, moert::GeneratedKernel> functions;
};

/// Writes the same code as an object file: per kernel a function
/// `void moe_kernel_<symbol>(void **pointers)`. For this machine, all that it
/// has, if `triple` is empty.
LogicalResult emitHostObject(ModuleOp module, StringRef triple,
                             llvm::raw_pwrite_stream &stream);

/// The same, and `moe_generated_twins` of lib/Runtime/Cuda/Twin.h: what the
/// kernels of emitCudaImage compute.
LogicalResult emitTwinObject(ModuleOp module, StringRef triple,
                             llvm::raw_pwrite_stream &stream);

} // namespace mlir::moe

#endif // MOE_TARGET_HOSTKERNELS_H
