//===- FrontDoor.h - moe-opt's convenience flags --------------------------===//
//
// `moe-opt --overlap-ep --recompute=moe,norm input.mlir`: flags in any order
// fill the options of one pass, moe-train. Together with explicit passes they
// are an error.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PIPELINES_FRONTDOOR_H
#define MOE_PIPELINES_FRONTDOOR_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/LLVM.h"

namespace mlir::moe {

/// Registers the flags. Call once, before the command line is parsed.
void registerFrontDoor();

/// Whether any of the flags was given.
bool hasFrontDoorFlags();

/// Runs moe-train with the flags on the file `input` and writes `output`, as
/// mlir-opt does; nothing is written if it fails.
LogicalResult runFrontDoor(StringRef input, StringRef output,
                           DialectRegistry &registry);

} // namespace mlir::moe

#endif // MOE_PIPELINES_FRONTDOOR_H
