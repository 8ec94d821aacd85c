//===- GroupedLayout.h - cuBLASLt's grouped products ------------*- C++ -*-===//
//
// What newer versions of cuBLASLt declare (as experimental) and the oldest
// supported one lacks. The entry is looked up at run time.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_GROUPEDLAYOUT_H
#define MOE_LIB_RUNTIME_CUDA_GROUPEDLAYOUT_H

#include <cublasLt.h>

namespace moert::cuda::grouped {

/// Sizes and leading dimensions are read from device memory as an op runs; its
/// matrices are arrays of pointers there.
inline constexpr char kLayoutCreate[] = "cublasLtGroupedMatrixLayoutCreate";
using LayoutCreate = cublasStatus_t(cublasLtMatrixLayout_t *layout,
                                    cudaDataType type, int groups,
                                    const void *rows, const void *columns,
                                    const void *leading);

/// Of a layout: the width of its arrays' integers.
inline constexpr auto kSizesWidth = cublasLtMatrixLayoutAttribute_t(12),
                      kLeadingWidth = cublasLtMatrixLayoutAttribute_t(13);
inline constexpr int32_t kWidth32 = 0;

/// Of a preference: what sizes to expect.
inline constexpr auto kAverageDepth = cublasLtMatmulPreferenceAttributes_t(13),
                      kAverageRows = cublasLtMatmulPreferenceAttributes_t(14),
                      kAverageColumns =
                          cublasLtMatmulPreferenceAttributes_t(15);

#if CUBLAS_VERSION >= 131000
static_assert(kSizesWidth ==
                  CUBLASLT_GROUPED_MATRIX_LAYOUT_ROWS_COLS_ARRAY_INTEGER_WIDTH,
              "");
static_assert(kLeadingWidth ==
                  CUBLASLT_GROUPED_MATRIX_LAYOUT_LD_ARRAY_INTEGER_WIDTH,
              "");
static_assert(kWidth32 == CUBLASLT_INTEGER_WIDTH_32, "");
static_assert(kAverageDepth ==
                  CUBLASLT_MATMUL_PREF_GROUPED_AVERAGE_REDUCTION_DIM,
              "");
static_assert(kAverageRows == CUBLASLT_MATMUL_PREF_GROUPED_DESC_D_AVERAGE_ROWS,
              "");
static_assert(kAverageColumns ==
                  CUBLASLT_MATMUL_PREF_GROUPED_DESC_D_AVERAGE_COLS,
              "");
#endif

} // namespace moert::cuda::grouped

#endif // MOE_LIB_RUNTIME_CUDA_GROUPEDLAYOUT_H
