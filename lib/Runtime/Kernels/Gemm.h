//===- Gemm.h - Products of matrices by tiles -----------------------------===//
//
// C[m,n] = sum over k of A[m,k] B[n,k]. The bits of an element of C depend on
// its own row of A and of B and on nothing else: k is cut at the multiples of
// kBlockK, each run is one chain of fused multiply-adds in rising k from 0, and
// the runs are added in order.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_KERNELS_GEMM_H
#define MOE_LIB_RUNTIME_KERNELS_GEMM_H

#include "Support.h"

namespace moert::kernels {

/// A or B: element (i, k) is data[i * stride + k * kStride]; one of the two
/// strides is 1.
template <typename T> struct Panel {
  const T *data = nullptr;
  int64_t stride = 0, kStride = 1;

  Panel from(int64_t i) const { return {data + i * stride, stride, kStride}; }
};

/// Rows and columns of C that are computed at once.
inline constexpr int64_t kTileM = 192, kTileN = 256, kBlockK = 256;

/// c[i * ldc + j] (+)= the product, for i < m, j < n; m <= kTileM and
/// n <= kTileN. Instantiated for f32 and bf16 operands in any mix.
template <typename TA, typename TB>
void multiply(Panel<TA> a, Panel<TB> b, int64_t m, int64_t n, int64_t k,
              float *c, int64_t ldc, bool accumulate);

} // namespace moert::kernels

#endif // MOE_LIB_RUNTIME_KERNELS_GEMM_H
