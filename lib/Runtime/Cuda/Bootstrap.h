//===- Bootstrap.h - Which rank this is, and the first contact --*- C++ -*-===//

#ifndef MOE_LIB_RUNTIME_CUDA_BOOTSTRAP_H
#define MOE_LIB_RUNTIME_CUDA_BOOTSTRAP_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace moert::cuda {

/// This process among those of the job (CudaEngine.h).
struct World {
  int64_t rank = 0, size = 1;
  /// Number of the process on its machine, -1: not said.
  int64_t localRank = -1;
};

/// From the environment; `error` names a variable that is no number or does
/// not fit.
bool readWorld(World &world, std::string &error);

/// Copies rank 0's `data` to all ranks. `key` must be the same everywhere: it
/// says what program is run. Waits at most MOE_RT_TIMEOUT seconds (300) for the
/// others; false and `error` if they do not come or run another program.
bool shareFromRoot(const World &world, uint64_t key, void *data, size_t bytes,
                   std::string &error);

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_BOOTSTRAP_H
