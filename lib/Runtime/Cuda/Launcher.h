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
#include "Grouped.h"
#include "moe/Runtime/CudaEngine.h"

#include <map>
#include <memory>
#include <optional>

namespace moert::cuda {

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
  std::shared_ptr<const GroupedProduct> grouped;
  const AttentionPlan *attention = nullptr;

  /// Whether the host must know the rows of each expert.
  bool needsRows() const { return grouped && grouped->needsRows(); }
};

class Launcher {
public:
  Launcher(const CudaOptions &options, int capability);
  ~Launcher();
  Launcher(const Launcher &) = delete;

  /// Throws if the kernel has no implementation. `alignment`: bytes that divide
  /// the addresses of its operands.
  LaunchPlan plan(const Kernel &kernel, const Op &op, int64_t alignment);
  /// `rows`: of each expert, if the plan needs them.
  void launch(const LaunchPlan &plan, const Kernel &kernel, const Op &op,
              void *const *pointers, const std::vector<int32_t> *rows,
              const Scratch &scratch, cudaStream_t stream);
  /// Bytes of Scratch::memory, known when all ops are planned.
  int64_t scratchBytes() const { return scratch; }
  /// The same of Scratch::shapes; 0: none is needed.
  int64_t shapesBytes() const { return shapes; }
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
  int64_t scratch = kBlasWorkspace, shapes = 0;
};

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_LAUNCHER_H
