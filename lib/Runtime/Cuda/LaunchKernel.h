//===- LaunchKernel.h - Launches of our own kernels -------------*- C++ -*-===//

#ifndef MOE_LIB_RUNTIME_CUDA_LAUNCHKERNEL_H
#define MOE_LIB_RUNTIME_CUDA_LAUNCHKERNEL_H

#include "Arguments.h"
#include "Check.h"

namespace moert::cuda {

inline void launchKernel(cudaKernel_t kernel, unsigned grid, void **parameters,
                         cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid);
  config.blockDim = dim3(kBlock);
  config.stream = stream;
  MOE_CHECK(cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(kernel),
                                parameters));
}

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_LAUNCHKERNEL_H
