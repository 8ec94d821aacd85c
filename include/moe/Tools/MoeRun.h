//===- MoeRun.h - Run a schedule on the host engine -----------------------===//

#ifndef MOE_TOOLS_MOERUN_H
#define MOE_TOOLS_MOERUN_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/LLVM.h"

namespace mlir::moe {

/// The program moe-run: parses the command line, reads a module in phase sched
/// or a table (.json), proves it, and trains on the host engine. One line a
/// step goes to the standard output stream, all else to the error stream.
LogicalResult moeRunMain(int argc, char **argv, DialectRegistry &registry);

} // namespace mlir::moe

#endif // MOE_TOOLS_MOERUN_H
