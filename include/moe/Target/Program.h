//===- Program.h - A program as an object file ------------------*- C++ -*-===//

#ifndef MOE_TARGET_PROGRAM_H
#define MOE_TARGET_PROGRAM_H

#include "mlir/Support/LLVM.h"

#include <string>
#include <vector>

namespace mlir::moe {

/// What an executable runs: moe_program of moe/Runtime/Program.h.
struct ProgramObject {
  /// JSON text.
  std::string table;
  /// Symbols of kernels that another object file defines (emitHostObject).
  std::vector<std::string> hostKernels;
  /// Fat binary for GPUs.
  std::string image;
};

/// Writes it as an object file for that machine; returns why it can't be,
/// empty: written.
std::string emitProgramObject(const ProgramObject &program, StringRef triple,
                              llvm::raw_pwrite_stream &stream);

} // namespace mlir::moe

#endif // MOE_TARGET_PROGRAM_H
