//===- Enqueue.h - How other parts put work on a stream ---------*- C++ -*-===//

#ifndef MOE_TOOLS_STAND_IN_ENQUEUE_H
#define MOE_TOOLS_STAND_IN_ENQUEUE_H

#include "lib/Runtime/Cuda/Twin.h"

/// Puts an op on a stream, or into the graph that the stream captures. `ranges`
/// are the bytes it touches, of device or pinned memory. `run` does its work,
/// later and on any thread, once for each launch of a graph; `destroy` (may be
/// null) frees `state` after that, also if this fails. Returns a cudaError_t.
extern "C" __attribute__((visibility("default"))) int
moe_standin_enqueue(void *stream, const char *name, const moe_range *ranges,
                    int count, void (*run)(void *state), void *state,
                    void (*destroy)(void *state));

#endif // MOE_TOOLS_STAND_IN_ENQUEUE_H
