//===- Optimizer.h - The begin and the end of a step ----------------------===//

#ifndef MOE_LIB_SCHED_OPTIMIZER_H
#define MOE_LIB_SCHED_OPTIMIZER_H

#include "StageArena.h"

namespace mlir::moe::sched_lowering {

/// The two templates of a stage that use whole buckets, with their calls.
struct OptimizerTemplates {
  uint32_t begin = 0, end = 0;
  moert::Call beginCall, endCall;
};

/// `begin` zeroes the gradients. `end` reduces them (buckets over their
/// groups), sums loss and squares of the gradient over all ranks, agrees on
/// overflow, updates the shards and gathers the weights. Raises the arena by
/// what it needs beyond the micro-batches' memory, which it reuses.
OptimizerTemplates addOptimizer(moert::Table &table, moert::Program &program,
                                const Stage &stage, TrainOp train,
                                bool holdsLoss, uint32_t commStream);

} // namespace mlir::moe::sched_lowering

#endif // MOE_LIB_SCHED_OPTIMIZER_H
