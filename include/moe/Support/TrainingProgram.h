//===- TrainingProgram.h - Rules of a training step -----------------------===//
//
// What holds of layers with a backward and of `moe.train`, in phase training
// and in phase kernels alike.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_SUPPORT_TRAININGPROGRAM_H
#define MOE_SUPPORT_TRAININGPROGRAM_H

#include "dialects/Moe/MoeOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {

/// Whether a value is the loss: the result of `moe.cross_entropy`, or of a call
/// of its kernel. Its cotangent is one.
bool isLoss(Value value);

/// Whether a type is a tensor of floats: what has a cotangent.
bool isFloatTensor(Type type);

/// Error, at the op, unless each `moe.backward` saves what it uses, once, and
/// threads each parameter's gradient sum from its `moe.grad` to its return, and
/// no routing is decided again.
LogicalResult checkBackwards(ModuleOp module);

/// The same, and error unless one `moe.train` takes each range of a layer
/// through one forward, one backward and the optimizer, on one stage.
LogicalResult checkTrainingProgram(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_SUPPORT_TRAININGPROGRAM_H
