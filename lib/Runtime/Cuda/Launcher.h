//===- Launcher.h - Kernels of a table on the device ------------*- C++ -*-===//
//
// Finds what runs each kernel of a table: a generated kernel of the program's
// image, one of DeviceKernels.h, cuBLASLt or cuDNN. There is no fallback: what
// has no implementation is an error before anything runs.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_LAUNCHER_H
#define MOE_LIB_RUNTIME_CUDA_LAUNCHER_H

#include "Arguments.h"
#include "Attention.h"
#include "Blas.h"
#include "moe/Runtime/CudaEngine.h"

#include <map>
#include <memory>
#include <optional>

namespace moert::cuda {

/// Memory of a stream that its ops may use, one after the other.
struct Scratch {
  void *memory = nullptr;
  /// Zero before and after each op.
  void *zeros = nullptr;
};

/// How one op of a template is launched.
struct LaunchPlan {
  enum class Kind { Generated, Device, Product, Grouped, Attention };
  Kind kind = Kind::Device;
  cudaKernel_t kernel = nullptr;
  unsigned grid = 1;
  /// Device: all but the pointers.
  Arguments arguments{};
  /// Bytes that divide the addresses of the operands.
  int64_t alignment = kMaxAlignment;
  Product product;
  /// Product: operands a, b, c.
  int a = 0, b = 1, c = 2;
  const AttentionPlan *attention = nullptr;
};

class Launcher {
public:
  Launcher(const CudaOptions &options, int capability);
  ~Launcher();
  Launcher(const Launcher &) = delete;

  /// Throws if the kernel has no implementation. `alignment`: bytes that divide
  /// the addresses of its operands.
  LaunchPlan plan(const Kernel &kernel, const Op &op, int64_t alignment);
  /// `rows`: of each expert, for grouped kernels.
  void launch(const LaunchPlan &plan, const Kernel &kernel, const Op &op,
              void *const *pointers, const std::vector<int32_t> *rows,
              const Scratch &scratch, cudaStream_t stream);
  /// Bytes of Scratch::memory, known when all ops are planned.
  int64_t scratchBytes() const { return scratch; }
  Blas &getBlas() { return blas; }
  /// What runs it, in words.
  std::string describe(const LaunchPlan &plan) const;

private:
  const AttentionPlan &attentionOf(const Kernel &kernel, const Op &op);

  Blas blas;
  std::unique_ptr<GroupedProvider> grouped;
  CudaOptions options;
  cudaLibrary_t library = nullptr;
  /// The program's image, by stream: its kernels keep partial sums and counters
  /// in it, which two launches at once must not share.
  std::map<uint32_t, cudaLibrary_t> images;
  cudnnContext *dnn = nullptr;
  std::map<AttentionShape, std::unique_ptr<AttentionPlan>> attention;
  int64_t scratch = kBlasWorkspace;
};

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_LAUNCHER_H
