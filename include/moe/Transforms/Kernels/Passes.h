#ifndef MOE_TRANSFORMS_KERNELS_PASSES_H
#define MOE_TRANSFORMS_KERNELS_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::moe {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "moe/Transforms/Kernels/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_TRANSFORMS_KERNELS_PASSES_H
