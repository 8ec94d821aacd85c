//===- FrontDoor.h - moe-opt's convenience flags --------------------------===//
//
// `moe-opt --overlap-ep --recompute=moe,norm input.mlir`: flags in any order
// fill the options of one pass, moe-train. Together with explicit passes they
// are an error.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PIPELINES_FRONTDOOR_H
#define MOE_PIPELINES_FRONTDOOR_H

namespace mlir {
class MlirOptMainConfig;
} // namespace mlir

namespace mlir::moe {

/// Registers the flags. Call once, before the command line is parsed.
void registerFrontDoor();

/// Makes the flags, if any was given, the pass pipeline of `config`, which
/// must come from the parsed command line.
void useFrontDoor(MlirOptMainConfig &config);

} // namespace mlir::moe

#endif // MOE_PIPELINES_FRONTDOOR_H
