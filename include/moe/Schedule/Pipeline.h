//===- Pipeline.h - The order of micro-batches on a stage -----------------===//

#ifndef MOE_SCHEDULE_PIPELINE_H
#define MOE_SCHEDULE_PIPELINE_H

#include <cstdint>
#include <vector>

namespace moert {

enum class PipelineKind : uint8_t {
  /// Forward and backward of a micro-batch before the next one.
  Serial,
  /// pp - stage - 1 forwards, then forward and backward in turn.
  OneFOneB,
  /// 2 (pp - stage - 1) + 1 forwards, then steps that pair the forward of
  /// micro-batch k + warm-up with the backward of k: with one more micro-batch
  /// in flight on every stage, no step's backward waits for its own forward.
  Paired,
};

enum class StepKind : uint8_t {
  RecvForward,
  SendForward,
  RecvBackward,
  SendBackward,
  Forward,
  Backward,
  Pair,
};

/// One step; `forward`, `backward`: micro-batches (-1: none).
struct PipelineStep {
  StepKind kind;
  int64_t forward = -1, backward = -1;
};

/// Forwards before the first backward.
int64_t warmUp(PipelineKind kind, int64_t stages, int64_t stage,
               int64_t microBatches);
/// Micro-batches of which a stage keeps the saved values at most.
int64_t inFlight(PipelineKind kind, int64_t stages, int64_t stage,
                 int64_t microBatches);

/// The steps of a stage. Transfers between neighbours come in one order on
/// both sides (activations down before gradients up), so that rendezvous on
/// one communicator can't block each other.
std::vector<PipelineStep> pipelineSteps(PipelineKind kind, int64_t stages,
                                        int64_t stage, int64_t microBatches);

} // namespace moert

#endif // MOE_SCHEDULE_PIPELINE_H
