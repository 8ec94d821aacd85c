//===- KernelModule.h - Compiling kernels for launches of a test ----------===//

#ifndef MOE_TEST_UNIT_TARGET_KERNELMODULE_H
#define MOE_TEST_UNIT_TARGET_KERNELMODULE_H

#include "../Runtime/KernelsTestSupport.h"
#include "moe/Target/HostKernels.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace moert::test {

/// One launch of a kernel, with its operands.
struct Case {
  std::string op;
  Attributes attributes;
  std::vector<Tensor> reads, accumulators, writes;
  /// The read operand that is `!moe.rows`, or -1.
  int rows = -1;
};

inline std::vector<Tensor *> pointers(std::vector<Tensor> &tensors) {
  std::vector<Tensor *> result;
  for (Tensor &t : tensors)
    result.push_back(&t);
  return result;
}

inline Launched prepare(Case &c) {
  return prepare(c.op, c.attributes, pointers(c.reads),
                 pointers(c.accumulators), pointers(c.writes));
}

/// A module with a `moe.kernel` for each launch that was added.
class KernelModule {
public:
  KernelModule();
  /// `rows`: the operand that is `!moe.rows`, or -1.
  void add(const Launched &launched, int rows);
  /// Generates bodies and compiles them; false if that fails.
  bool compile();
  /// Code of the i-th launch that was added.
  GeneratedKernel function(size_t i) const;
  mlir::ModuleOp get() { return *module; }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string kernels;
  size_t count = 0;
  std::optional<mlir::moe::HostKernels> code;
};

} // namespace moert::test

#endif // MOE_TEST_UNIT_TARGET_KERNELMODULE_H
