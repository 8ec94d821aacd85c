//===- Blas.cpp - cuBLASLt: matrix products ---------------------*- C++ -*-===//

#include "Calls.h"
#include "Numbers.h"

#include <cstring>

namespace standin {
namespace {

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t order = CUBLASLT_ORDER_COL;
  int32_t batch = 1;
  int64_t stride = 0;

  int64_t elementBytes() const { return type == CUDA_R_32F ? 4 : 2; }
  /// Lines of contiguous elements: columns, or rows if stored by rows.
  int64_t line() const {
    return int64_t(order == CUBLASLT_ORDER_COL ? rows : columns);
  }
  int64_t lines() const {
    return int64_t(order == CUBLASLT_ORDER_COL ? columns : rows);
  }
  int64_t offset(int64_t row, int64_t column) const {
    return order == CUBLASLT_ORDER_COL ? column * leading + row
                                       : row * leading + column;
  }
  bool valid() const { return leading >= line() && batch >= 1; }
  bool supported() const {
    return (type == CUDA_R_32F || type == CUDA_R_16BF) &&
           (order == CUBLASLT_ORDER_COL || order == CUBLASLT_ORDER_ROW);
  }
};

struct Product {
  cublasOperation_t transposeA = CUBLAS_OP_N, transposeB = CUBLAS_OP_N;
};

struct Preference {
  uint64_t workspace = 0;
  /// Of a, b, c and d.
  uint32_t alignments[4] = {256, 256, 256, 256};
};

/// What the stand-in keeps in an algorithm, which the caller only copies.
struct Algorithm {
  uint64_t workspace;
  uint32_t alignments[4];
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

/// Enough that a caller has to provide it.
constexpr uint64_t kWorkspace = 1 << 20;

template <typename T, typename Handle> T *as(Handle handle) {
  return reinterpret_cast<T *>(handle);
}

template <typename T> bool take(T &to, const void *from, size_t bytes) {
  if (!from || bytes != sizeof(T))
    return false;
  std::memcpy(&to, from, bytes);
  return true;
}

float load(cudaDataType type, const void *data, int64_t i) {
  return type == CUDA_R_32F ? static_cast<const float *>(data)[i]
                            : float(static_cast<const Bf16 *>(data)[i]);
}

void store(cudaDataType type, void *data, int64_t i, float value) {
  if (type == CUDA_R_32F)
    static_cast<float *>(data)[i] = value;
  else
    static_cast<Bf16 *>(data)[i] = Bf16(value);
}

void *at(const Layout &layout, const void *data, int64_t batch) {
  return static_cast<char *>(const_cast<void *>(data)) +
         batch * layout.stride * layout.elementBytes();
}

class Matmul : public Work {
public:
  Layout a, b, c, d;
  Product product;
  float alpha, beta;
  const void *dataA, *dataB, *dataC;
  void *dataD;

  int64_t rows() const { return int64_t(d.rows); }
  int64_t columns() const { return int64_t(d.columns); }
  int64_t depth() const {
    return int64_t(product.transposeA == CUBLAS_OP_N ? a.columns : a.rows);
  }
  bool agrees() const {
    bool plainA = product.transposeA == CUBLAS_OP_N;
    bool plainB = product.transposeB == CUBLAS_OP_N;
    return (plainA ? a.rows : a.columns) == d.rows &&
           (plainB ? b.columns : b.rows) == d.columns &&
           (plainB ? b.rows : b.columns) == uint64_t(depth()) &&
           c.rows == d.rows && c.columns == d.columns && c.type == d.type &&
           a.type == b.type && a.batch == d.batch && b.batch == d.batch &&
           c.batch == d.batch;
  }

  /// Exact: other products may write between the lines.
  void touch(const Layout &layout, const void *data, int effect) {
    int64_t size = layout.elementBytes();
    for (int64_t batch = 0; batch < layout.batch; ++batch) {
      char *begin = static_cast<char *>(at(layout, data, batch));
      if (layout.leading == layout.line()) {
        ranges.push_back(
            {begin, layout.line() * layout.lines() * size, effect});
        continue;
      }
      for (int64_t i = 0; i < layout.lines(); ++i)
        ranges.push_back(
            {begin + i * layout.leading * size, layout.line() * size, effect});
    }
  }

  void run() override {
    for (int64_t batch = 0; batch < d.batch; ++batch)
      multiply(at(a, dataA, batch), at(b, dataB, batch),
               beta != 0 ? at(c, dataC, batch) : nullptr, at(d, dataD, batch));
  }

private:
  /// Sums in f32, in the order of the depth.
  void multiply(const void *x, const void *y, const void *z, void *out) const {
    int64_t m = rows(), n = columns(), k = depth();
    std::vector<float> right(k * n), left(k), sum(n);
    bool plainA = product.transposeA == CUBLAS_OP_N;
    bool plainB = product.transposeB == CUBLAS_OP_N;
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        right[l * n + j] =
            load(b.type, y, plainB ? b.offset(l, j) : b.offset(j, l));
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t l = 0; l < k; ++l)
        left[l] = load(a.type, x, plainA ? a.offset(i, l) : a.offset(l, i));
      std::fill(sum.begin(), sum.end(), 0.f);
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j)
          sum[j] += left[l] * right[l * n + j];
      for (int64_t j = 0; j < n; ++j) {
        float value = alpha * sum[j];
        if (z)
          value += beta * load(c.type, z, c.offset(i, j));
        store(d.type, out, d.offset(i, j), value);
      }
    }
  }
};

} // namespace
} // namespace standin

using namespace standin;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  if (settings().noDriver)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete as<char>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "CUBLAS_STATUS_SUCCESS";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  default:
    return "unknown status";
  }
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "success";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "the library was not initialized";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "an unsupported value or parameter was passed to the function";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "the function failed to launch on the GPU";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "the requested functionality is not supported";
  default:
    return "unknown status";
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *result,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  bool single = compute == CUBLAS_COMPUTE_32F ||
                compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
                compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (!single || scale != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = as<cublasLtMatmulDescOpaque_t>(new Product);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  delete as<Product>(descriptor);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes) {
  Product &product = *as<Product>(descriptor);
  int32_t number = 0;
  if (!take(number, value, bytes))
    return CUBLAS_STATUS_INVALID_VALUE;
  bool known = true;
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    product.transposeA = cublasOperation_t(number);
    break;
  case CUBLASLT_MATMUL_DESC_TRANSB:
    product.transposeB = cublasOperation_t(number);
    break;
  case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    known = number == CUBLASLT_POINTER_MODE_HOST;
    break;
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    known = number == CUBLASLT_EPILOGUE_DEFAULT;
    break;
  case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
    break;
  default:
    known = false;
  }
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *result,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  *result = as<cublasLtMatrixLayoutOpaque_t>(
      new Layout{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete as<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes) {
  Layout &layout = *as<Layout>(handle);
  bool taken = false;
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_TYPE:
    taken = take(layout.type, value, bytes);
    break;
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    taken = take(layout.order, value, bytes);
    break;
  case CUBLASLT_MATRIX_LAYOUT_ROWS:
    taken = take(layout.rows, value, bytes);
    break;
  case CUBLASLT_MATRIX_LAYOUT_COLS:
    taken = take(layout.columns, value, bytes);
    break;
  case CUBLASLT_MATRIX_LAYOUT_LD:
    taken = take(layout.leading, value, bytes);
    break;
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    taken = take(layout.batch, value, bytes);
    break;
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    taken = take(layout.stride, value, bytes);
    break;
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *result) {
  *result = as<cublasLtMatmulPreferenceOpaque_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete as<Preference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t handle,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes) {
  auto &preference = *as<Preference>(handle);
  bool taken = true;
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    taken = take(preference.workspace, value, bytes);
    break;
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    taken = take(
        preference
            .alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
        value, bytes);
    break;
  default:
    // The others narrow a choice that is not made here.
    break;
  }
  return taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t descriptor, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
    int requested, cublasLtMatmulHeuristicResult_t *results, int *returned) {
  *returned = 0;
  Matmul matmul;
  matmul.a = *as<Layout>(a);
  matmul.b = *as<Layout>(b);
  matmul.c = *as<Layout>(c);
  matmul.d = *as<Layout>(d);
  matmul.product = *as<Product>(descriptor);
  if (requested < 1 || !matmul.agrees())
    return CUBLAS_STATUS_INVALID_VALUE;
  for (Layout *layout : {&matmul.a, &matmul.b, &matmul.c, &matmul.d})
    if (!layout->supported())
      return CUBLAS_STATUS_NOT_SUPPORTED;
  const Preference &wanted = *as<Preference>(preference);
  Algorithm algorithm{std::min(wanted.workspace, kWorkspace), {}};
  std::copy_n(wanted.alignments, 4, algorithm.alignments);
  results[0] = {};
  std::memcpy(&results[0].algo, &algorithm, sizeof algorithm);
  results[0].workspaceSize = algorithm.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor,
                              const void *alpha, const void *dataA,
                              cublasLtMatrixLayout_t a, const void *dataB,
                              cublasLtMatrixLayout_t b, const void *beta,
                              const void *dataC, cublasLtMatrixLayout_t c,
                              void *dataD, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspaceBytes, cudaStream_t handle) {
  auto matmul = std::make_shared<Matmul>();
  matmul->name = "cublasLtMatmul";
  matmul->a = *as<Layout>(a);
  matmul->b = *as<Layout>(b);
  matmul->c = *as<Layout>(c);
  matmul->d = *as<Layout>(d);
  matmul->product = *as<Product>(descriptor);
  matmul->alpha = *static_cast<const float *>(alpha);
  matmul->beta = *static_cast<const float *>(beta);
  matmul->dataA = dataA;
  matmul->dataB = dataB;
  matmul->dataC = dataC;
  matmul->dataD = dataD;
  Algorithm algorithm{0, {1, 1, 1, 1}};
  if (algo)
    std::memcpy(&algorithm, algo, sizeof algorithm);
  bool valid = matmul->agrees() && algorithm.workspace <= workspaceBytes;
  for (Layout *layout : {&matmul->a, &matmul->b, &matmul->c, &matmul->d}) {
    if (!layout->supported())
      return CUBLAS_STATUS_NOT_SUPPORTED;
    valid = valid && layout->valid();
  }
  // A kernel that was chosen for more may load what it should not.
  const void *pointers[] = {dataA, dataB, dataC, dataD};
  for (int i = 0; i < 4; ++i)
    if (uintptr_t(pointers[i]) % algorithm.alignments[i]) {
      note("cublasLtMatmul: operand " + std::to_string(i) +
           " is not aligned to " + std::to_string(algorithm.alignments[i]) +
           " bytes, as its algorithm was asked for");
      valid = false;
    }
  if (!valid)
    return CUBLAS_STATUS_INVALID_VALUE;
  matmul->touch(matmul->a, dataA, MOE_READ);
  matmul->touch(matmul->b, dataB, MOE_READ);
  if (matmul->beta != 0)
    matmul->touch(matmul->c, dataC, MOE_READ);
  matmul->touch(matmul->d, dataD, MOE_WRITE);
  if (workspaceBytes)
    matmul->ranges.push_back({workspace, int64_t(workspaceBytes), MOE_WRITE});
  cudaError_t error = call([&](Scheduler::Lock &) {
    Stream *stream = streamOf(handle);
    return stream ? submit(*stream, std::move(matmul))
                  : cudaErrorInvalidResourceHandle;
  });
  return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
