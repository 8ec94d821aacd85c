//===- Grouped.h - Products of the experts ----------------------*- C++ -*-===//

#ifndef MOE_LIB_RUNTIME_CUDA_GROUPED_H
#define MOE_LIB_RUNTIME_CUDA_GROUPED_H

#include "Blas.h"

namespace moert::cuda {

/// One product for each expert, over the rows that it got. Forward, data
/// gradient: y[C, out] = x[C, in] op(w)[E, in, out]; weight gradient:
/// acc[E, out, in] += dy^T x. Operands as of grouped_linear* in Kernels.h.
class GroupedProduct {
public:
  virtual ~GroupedProduct() = default;
  virtual const char *name() const = 0;
  /// Whether launch() takes the rows of each expert from the host. Else it
  /// reads them on the device, and can be captured.
  virtual bool needsRows() const = 0;
  /// Bytes of Scratch::shapes that it uses.
  virtual int64_t shapesBytes() const { return 0; }
  virtual void launch(void *const *pointers, const std::vector<int32_t> *rows,
                      const Scratch &scratch, cudaStream_t stream) const = 0;
};

class GroupedProvider {
public:
  virtual ~GroupedProvider() = default;
  /// Chooses the algorithm, so that launch() only launches. It keeps what it
  /// needs of the operands; the provider must outlive it. `alignment`: bytes
  /// that divide the addresses of the operands.
  virtual std::unique_ptr<GroupedProduct>
  plan(const std::string &op, const std::vector<Operand> &operands,
       int64_t alignment) = 0;
};

/// The best that this cuBLASLt (cublasLtGetVersion) has on a device of that
/// compute capability (90, 100), or what MOE_RT_GROUPED asks for. `library` has
/// the device kernels.
std::unique_ptr<GroupedProvider> chooseGroupedProvider(Blas &blas,
                                                       size_t version,
                                                       int capability,
                                                       cudaLibrary_t library);

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_GROUPED_H
