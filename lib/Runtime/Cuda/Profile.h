//===- Profile.h - Rates of kernels against the machine's -------*- C++ -*-===//
//
// With MOE_RT_PROFILE=FILE each launch is timed alone, and at the end rank 0
// writes for each kernel: calls, microseconds, TFLOP/s and GB/s, and their
// share of what the same device reached in a plain copy and a large product.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_PROFILE_H
#define MOE_LIB_RUNTIME_CUDA_PROFILE_H

#include "Blas.h"

#include <memory>

namespace moert::cuda {

class Profile {
public:
  /// Null: nobody asked.
  static std::unique_ptr<Profile> create(int64_t rank);
  ~Profile();

  void begin(cudaStream_t stream);
  void end(const Kernel &kernel, cudaStream_t stream);
  /// Measures the ceilings and writes the file; `spare` has `bytes` bytes.
  void write(Blas &blas, char *spare, size_t bytes, void *workspace,
             cudaStream_t stream);

private:
  explicit Profile(std::string path);
  /// Seconds between begin() and now.
  double lap(cudaStream_t stream);

  struct Entry {
    int64_t calls = 0;
    double seconds = 0, flops = 0, bytes = 0;
  };
  std::string path;
  cudaEvent_t start = nullptr, stop = nullptr;
  std::map<std::string, Entry> entries;
};

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_PROFILE_H
