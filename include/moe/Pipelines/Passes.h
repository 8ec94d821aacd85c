#ifndef MOE_PIPELINES_PASSES_H
#define MOE_PIPELINES_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::moe {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "moe/Pipelines/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_PIPELINES_PASSES_H
