//===- Calls.h - What the calls of the runtime share ------------*- C++ -*-===//

#ifndef MOE_TOOLS_STAND_IN_CALLS_H
#define MOE_TOOLS_STAND_IN_CALLS_H

#include "Capture.h"
#include "Report.h"

namespace standin {

/// For cudaGetLastError; returns the error.
cudaError_t keepError(cudaError_t error);

/// The stream of a handle (null: the default stream); null: there is none.
/// Streams are created and used under the scheduler's lock.
Stream *streamOf(cudaStream_t handle);

/// A call of the runtime, with the scheduler locked.
template <typename Body> cudaError_t call(Body body) {
  if (settings().noDriver)
    return keepError(cudaErrorInsufficientDriver);
  Scheduler::Lock lock = scheduler().enter();
  return keepError(body(lock));
}

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_CALLS_H
