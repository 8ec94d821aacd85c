//===- Counts.h - Parameters and FLOPs of a program -----------------------===//
//
// Counted from the IR, so that they are those of what was imported. Phases
// model to training.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_IMPORT_COUNTS_H
#define MOE_IMPORT_COUNTS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {

/// Parameters of the whole model: the sizes of the applied layers' moe.param,
/// once for each application (patterns without `{i}`: once), equal patterns
/// counted once. A sharded one counts as often as it has shards. Error if a
/// parameter has two shapes, or the sum is beyond i64.
FailureOr<int64_t> parameterCount(ModuleOp module);

/// FLOP per token of a training step at sequences of `sequence` tokens: three
/// times those of forward's linear layers and (causal) attention. As is usual,
/// neither the router's, nor recompute, norms, softmax or loss count. Error if
/// the module has no layout.
FailureOr<double> modelFlopsPerToken(ModuleOp module, int64_t sequence);

} // namespace mlir::moe

#endif // MOE_IMPORT_COUNTS_H
