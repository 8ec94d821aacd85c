//===- EmulatedGpu.h - Kernels for a GPU, run on the host -------*- C++ -*-===//
//
// Runs what the CUDA target compiles, up to the NVVM dialect, with a fiber for
// each thread of a block. Threads run in an order that depends on a seed,
// until they wait for others; blocks run one after the other, in any order.
// What it can't show: blocks that run at the same time, the memory model, and
// what LLVM's NVPTX backend and ptxas make of the code.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_UNIT_TARGET_EMULATEDGPU_H
#define MOE_TEST_UNIT_TARGET_EMULATEDGPU_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <memory>
#include <string>

namespace moert::test {

class EmulatedGpu {
public:
  /// Compiles the generated kernels of the module; false if that fails.
  bool compile(mlir::ModuleOp module);
  /// Returns what went wrong, say threads that wait for each other for ever;
  /// empty: nothing.
  std::string launch(const std::string &kernel, void **pointers, unsigned grid,
                     unsigned seed);

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace moert::test

#endif // MOE_TEST_UNIT_TARGET_EMULATEDGPU_H
