//===- StageArena.h - Where a stage keeps what ----------------------------===//

#ifndef MOE_LIB_SCHED_STAGEARENA_H
#define MOE_LIB_SCHED_STAGEARENA_H

#include "LayerTemplates.h"

namespace mlir::moe::sched_lowering {

/// One application of a layer on a stage.
struct Cell {
  const LayerTemplates *layer = nullptr;
  /// Index of the application ({i}).
  int64_t index = 0;
  /// Offset of its parameters in the stage's buckets, in elements.
  int64_t dense = 0, expert = 0;
};

/// A stage's cells in order, and the addresses of everything it keeps. Saved
/// values, host counts and activations have one slot per micro-batch in
/// flight; micro-batch m has slot m mod slots.
struct Stage {
  int64_t index = 0;
  std::vector<Cell> cells;
  int64_t slots = 1;
  int64_t denseElements = 0, expertElements = 0;

  int64_t denseWeights = 0, expertWeights = 0;
  int64_t denseGradients = 0, expertGradients = 0;
  /// Of partial losses, f32 per micro-batch.
  int64_t losses = 0;
  /// Saved and host frames of each cell, slot 0.
  std::vector<int64_t> saved, host;
  /// Activation k is what cell k takes and cell k - 1 gives, slot 0.
  std::vector<int64_t> activations;
  std::vector<int64_t> activationBytes;
  /// Gradients of activations: inside the stage two take turns; at its ends
  /// two for each, by micro-batch.
  int64_t innerGradients = 0, firstGradients = 0, lastGradients = 0;
  int64_t gradientBytes = 0;
  /// Temporaries of forward and backward calls: two of each take turns.
  int64_t forwardTemp = 0, backwardTemp = 0;
  int64_t forwardTempBytes = 0, backwardTempBytes = 0;
  /// Scratch of the optimizer, over what micro-batches used.
  int64_t scratch = 0;
};

} // namespace mlir::moe::sched_lowering

#endif // MOE_LIB_SCHED_STAGEARENA_H
