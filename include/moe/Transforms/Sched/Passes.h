#ifndef MOE_TRANSFORMS_SCHED_PASSES_H
#define MOE_TRANSFORMS_SCHED_PASSES_H

#include "dialects/Sched/SchedDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::moe {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "moe/Transforms/Sched/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_TRANSFORMS_SCHED_PASSES_H
