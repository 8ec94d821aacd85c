//===- Check.h - Errors of the CUDA libraries -------------------*- C++ -*-===//
//
// A call that fails throws; the engine turns it into its error.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_CHECK_H
#define MOE_LIB_RUNTIME_CUDA_CHECK_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <stdexcept>
#include <string>

namespace moert::cuda {

[[noreturn]] inline void fail(const std::string &what) {
  throw std::runtime_error(what);
}

inline void check(cudaError_t status, const char *call) {
  if (status != cudaSuccess)
    fail(std::string(call) + ": " + cudaGetErrorName(status) + ": " +
         cudaGetErrorString(status));
}

inline void check(ncclResult_t status, const char *call) {
  if (status != ncclSuccess && status != ncclInProgress)
    fail(std::string(call) + ": " + ncclGetErrorString(status) + ": " +
         ncclGetLastError(nullptr));
}

inline void check(cublasStatus_t status, const char *call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(std::string(call) + ": " + cublasLtGetStatusString(status));
}

/// Names the call in the error.
#define MOE_CHECK(call) ::moert::cuda::check(call, #call)

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_CHECK_H
