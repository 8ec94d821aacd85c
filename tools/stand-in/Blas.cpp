//===- Blas.cpp - cuBLASLt: matrix products ---------------------*- C++ -*-===//

#include "Calls.h"
#include "Numbers.h"
#include "lib/Runtime/Cuda/GroupedLayout.h"

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
  /// If grouped: how many, and arrays of as many sizes in device memory.
  int32_t groups = 0;
  const int32_t *sizes[3] = {};

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
  bool valid() const {
    return leading >= line() && line() >= 0 && lines() >= 0 && batch >= 1;
  }
  bool supported() const {
    return (type == CUDA_R_32F || type == CUDA_R_16BF) &&
           (order == CUBLASLT_ORDER_COL || order == CUBLASLT_ORDER_ROW);
  }
  /// Reads device memory.
  Layout ofGroup(int32_t g) const {
    Layout one{type, uint64_t(sizes[0][g]), uint64_t(sizes[1][g]), sizes[2][g]};
    one.order = order;
    return one;
  }
};

struct Product {
  cublasOperation_t transposeA = CUBLAS_OP_N, transposeB = CUBLAS_OP_N;
  /// Whether alpha and beta are in device memory.
  bool deviceScalars = false;
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
           c.batch == d.batch && a.valid() && b.valid() && c.valid() &&
           d.valid();
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

  void setScales(const float *a, const float *b) { alpha = *a, beta = *b; }
  void touchAll() {
    touch(a, dataA, MOE_READ);
    touch(b, dataB, MOE_READ);
    if (beta != 0)
      touch(c, dataC, MOE_READ);
    touch(d, dataD, MOE_WRITE);
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

/// Knows its operands when it runs: sizes and pointers may be the results of
/// ops before it.
class GroupedMatmul : public Work {
public:
  Layout a, b, c, d;
  Product product;
  const float *alpha, *beta;
  const void *dataA, *dataB, *dataC, *dataD;

  bool agrees() const {
    return a.groups == d.groups && b.groups == d.groups &&
           c.groups == d.groups && a.type == b.type && c.type == d.type;
  }
  void setScales(const float *a, const float *b) { alpha = a, beta = b; }
  /// What is known of it: the arrays.
  void touchAll() {
    const std::pair<const Layout &, const void *> operands[] = {
        {a, dataA}, {b, dataB}, {c, dataC}, {d, dataD}};
    for (auto &[layout, pointers] : operands) {
      read(pointers, layout.groups * sizeof(void *));
      for (const int32_t *sizes : layout.sizes)
        read(sizes, layout.groups * sizeof(int32_t));
    }
    read(alpha, sizeof *alpha);
    read(beta, sizeof *beta);
  }

  bool isLate() const override { return true; }
  std::vector<moe_range> lateRanges() override {
    std::vector<moe_range> result;
    for (int32_t g = 0; g < d.groups; ++g) {
      Matmul one = ofGroup(g);
      if (!one.agrees())
        fault("SIZES", name + ": those of group " + std::to_string(g) +
                           " do not fit each other");
      one.touchAll();
      result.insert(result.end(), one.ranges.begin(), one.ranges.end());
    }
    return result;
  }
  void run() override {
    for (int32_t g = 0; g < d.groups; ++g)
      ofGroup(g).run();
  }

private:
  void read(const void *begin, size_t bytes) {
    ranges.push_back({const_cast<void *>(begin), int64_t(bytes), MOE_READ});
  }
  Matmul ofGroup(int32_t g) const {
    auto pointer = [&](const void *pointers) {
      return static_cast<void *const *>(pointers)[g];
    };
    Matmul one;
    one.a = a.ofGroup(g), one.b = b.ofGroup(g);
    one.c = c.ofGroup(g), one.d = d.ofGroup(g);
    one.product = product;
    one.alpha = *alpha, one.beta = *beta;
    one.dataA = pointer(dataA), one.dataB = pointer(dataB);
    one.dataC = pointer(dataC), one.dataD = pointer(dataD);
    return one;
  }
};

template <typename M>
M matmulOf(cublasLtMatmulDesc_t descriptor, cublasLtMatrixLayout_t a,
           cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
           cublasLtMatrixLayout_t d) {
  M matmul;
  matmul.name = "cublasLtMatmul";
  matmul.a = *as<Layout>(a);
  matmul.b = *as<Layout>(b);
  matmul.c = *as<Layout>(c);
  matmul.d = *as<Layout>(d);
  matmul.product = *as<Product>(descriptor);
  return matmul;
}

/// Both kinds of product.
template <typename M> cublasStatus_t check(const M &matmul) {
  if (!matmul.agrees())
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const Layout *layout : {&matmul.a, &matmul.b, &matmul.c, &matmul.d})
    if (!layout->supported())
      return CUBLAS_STATUS_NOT_SUPPORTED;
  // What the known users of grouped products do.
  bool isGrouped = std::is_same_v<M, GroupedMatmul>;
  return matmul.product.deviceScalars == isGrouped
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_NOT_SUPPORTED;
}

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

size_t cublasLtGetVersion() {
  return settings().cublasLt ? settings().cublasLt : CUBLAS_VERSION;
}

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
    product.deviceScalars = number == CUBLASLT_POINTER_MODE_DEVICE;
    known = product.deviceScalars || number == CUBLASLT_POINTER_MODE_HOST;
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

// Not in the headers of older versions.
extern "C" __attribute__((visibility("default")))
moert::cuda::grouped::LayoutCreate cublasLtGroupedMatrixLayoutCreate;

cublasStatus_t cublasLtGroupedMatrixLayoutCreate(cublasLtMatrixLayout_t *result,
                                                 cudaDataType type, int groups,
                                                 const void *rows,
                                                 const void *columns,
                                                 const void *leading) {
  if (cublasLtGetVersion() < 130300)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (groups < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  auto *layout = new Layout{type, 0, 0, 0};
  layout->groups = groups;
  const void *const sizes[] = {rows, columns, leading};
  for (int i = 0; i < 3; ++i)
    layout->sizes[i] = static_cast<const int32_t *>(sizes[i]);
  *result = as<cublasLtMatrixLayoutOpaque_t>(layout);
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
  switch (int(attribute)) {
  case moert::cuda::grouped::kSizesWidth:
  case moert::cuda::grouped::kLeadingWidth: {
    int32_t width = 0;
    if (layout.groups && take(width, value, bytes) &&
        width != moert::cuda::grouped::kWidth32)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    taken = layout.groups && bytes == sizeof width;
    break;
  }
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
  if (requested < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status =
      as<Layout>(d)->groups
          ? check(matmulOf<GroupedMatmul>(descriptor, a, b, c, d))
          : check(matmulOf<Matmul>(descriptor, a, b, c, d));
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
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
  Algorithm algorithm{0, {1, 1, 1, 1}};
  if (algo)
    std::memcpy(&algorithm, algo, sizeof algorithm);
  auto submitOne = [&](auto matmul) {
    cublasStatus_t status = check(*matmul);
    if (status != CUBLAS_STATUS_SUCCESS)
      return status;
    if (algorithm.workspace > workspaceBytes)
      return CUBLAS_STATUS_INVALID_VALUE;
    matmul->dataA = dataA;
    matmul->dataB = dataB;
    matmul->dataC = dataC;
    matmul->dataD = dataD;
    matmul->setScales(static_cast<const float *>(alpha),
                      static_cast<const float *>(beta));
    matmul->touchAll();
    if (workspaceBytes)
      matmul->ranges.push_back({workspace, int64_t(workspaceBytes), MOE_WRITE});
    cudaError_t error = call([&](Scheduler::Lock &) {
      Stream *stream = streamOf(handle);
      return stream ? submit(*stream, std::move(matmul))
                    : cudaErrorInvalidResourceHandle;
    });
    return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
  };
  if (as<Layout>(d)->groups)
    return submitOne(std::make_shared<GroupedMatmul>(
        matmulOf<GroupedMatmul>(descriptor, a, b, c, d)));
  // A kernel that was chosen for more may load what it should not.
  const void *pointers[] = {dataA, dataB, dataC, dataD};
  for (int i = 0; i < 4; ++i)
    if (uintptr_t(pointers[i]) % algorithm.alignments[i]) {
      note("cublasLtMatmul: operand " + std::to_string(i) +
           " is not aligned to " + std::to_string(algorithm.alignments[i]) +
           " bytes, as its algorithm was asked for");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  return submitOne(
      std::make_shared<Matmul>(matmulOf<Matmul>(descriptor, a, b, c, d)));
}
