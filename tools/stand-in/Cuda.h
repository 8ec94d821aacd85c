//===- Cuda.h - Declarations that the stand-in exports ----------*- C++ -*-===//
//
// The library is built with hidden symbols; what the vendor's headers declare
// is visible.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_STAND_IN_CUDA_H
#define MOE_TOOLS_STAND_IN_CUDA_H

#pragma GCC visibility push(default)
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#pragma GCC visibility pop

#endif // MOE_TOOLS_STAND_IN_CUDA_H
