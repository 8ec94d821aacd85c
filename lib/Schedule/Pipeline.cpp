#include "moe/Schedule/Pipeline.h"

#include <algorithm>

namespace moert {

int64_t warmUp(PipelineKind kind, int64_t stages, int64_t stage,
               int64_t microBatches) {
  int64_t depth = stages - stage - 1;
  switch (kind) {
  case PipelineKind::Serial:
    return 0;
  case PipelineKind::OneFOneB:
    return std::min(depth, microBatches);
  case PipelineKind::Paired:
    return std::min(2 * depth + 1, microBatches);
  }
  return 0;
}

int64_t inFlight(PipelineKind kind, int64_t stages, int64_t stage,
                 int64_t microBatches) {
  return std::min(warmUp(kind, stages, stage, microBatches) + 1, microBatches);
}

std::vector<PipelineStep> pipelineSteps(PipelineKind kind, int64_t stages,
                                        int64_t stage, int64_t microBatches) {
  std::vector<PipelineStep> steps;
  bool first = stage == 0, last = stage == stages - 1;
  auto add = [&](StepKind step, int64_t forward, int64_t backward) {
    steps.push_back({step, forward, backward});
  };
  auto recvForward = [&](int64_t mb) {
    if (!first)
      add(StepKind::RecvForward, mb, -1);
  };
  auto sendForward = [&](int64_t mb) {
    if (!last)
      add(StepKind::SendForward, mb, -1);
  };
  auto recvBackward = [&](int64_t mb) {
    if (!last)
      add(StepKind::RecvBackward, -1, mb);
  };
  auto sendBackward = [&](int64_t mb) {
    if (!first && mb >= 0)
      add(StepKind::SendBackward, -1, mb);
  };

  int64_t warm = warmUp(kind, stages, stage, microBatches);
  int64_t steady = microBatches - warm;
  for (int64_t i = 0; i < warm; ++i) {
    recvForward(i);
    add(StepKind::Forward, i, -1);
    sendForward(i);
  }
  if (kind == PipelineKind::Paired) {
    for (int64_t k = 0; k < steady; ++k) {
      recvBackward(k);
      recvForward(k + warm);
      sendBackward(k - 1);
      add(StepKind::Pair, k + warm, k);
      sendForward(k + warm);
    }
    for (int64_t k = steady; k < microBatches; ++k) {
      recvBackward(k);
      sendBackward(k - 1);
      add(StepKind::Backward, -1, k);
    }
    sendBackward(microBatches - 1);
    return steps;
  }
  if (steady > 0)
    recvForward(warm);
  for (int64_t k = 0; k < steady; ++k) {
    add(StepKind::Forward, k + warm, -1);
    sendForward(k + warm);
    recvBackward(k);
    add(StepKind::Backward, -1, k);
    // Serial: the stage before is not ahead, so its next forward comes after
    // it has this gradient.
    bool behind = kind == PipelineKind::Serial;
    if (behind)
      sendBackward(k);
    if (k + 1 < steady)
      recvForward(k + 1 + warm);
    if (!behind)
      sendBackward(k);
  }
  for (int64_t k = steady; k < microBatches; ++k) {
    recvBackward(k);
    add(StepKind::Backward, -1, k);
    sendBackward(k);
  }
  return steps;
}

} // namespace moert
