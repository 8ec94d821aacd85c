//===- MoeCompile.h - The tool moe-compile ----------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOECOMPILE_H
#define MOE_TOOLS_MOECOMPILE_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/LogicalResult.h"

namespace mlir::moe {

/// Makes an executable, a shared library or object files of a schedule.
LogicalResult moeCompileMain(int argc, char **argv, DialectRegistry &registry);

} // namespace mlir::moe

#endif // MOE_TOOLS_MOECOMPILE_H
