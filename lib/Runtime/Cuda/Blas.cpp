//===- Blas.cpp - Matrix products by cuBLASLt -----------------------------===//

#include "Blas.h"
#include "Fault.h"

#include <tuple>

using namespace moert;
using namespace moert::cuda;

bool Product::operator<(const Product &o) const {
  return std::tie(rows, columns, depth, transposeA, transposeB, accumulate,
                  input, output, alignment) <
         std::tie(o.rows, o.columns, o.depth, o.transposeA, o.transposeB,
                  o.accumulate, o.input, o.output, o.alignment);
}

struct Blas::Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm;

  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {a, b, c})
      if (layout)
        cublasLtMatrixLayoutDestroy(layout);
    if (product)
      cublasLtMatmulDescDestroy(product);
  }
};

Blas::Blas() { MOE_CHECK(cublasLtCreate(&handle)); }

Blas::~Blas() {
  plans.clear();
  cublasLtDestroy(handle);
}

// cuBLASLt is column-major: what is c[rows, columns] here is its c^T, so the
// operands change places: c^T = op(b)^T op(a)^T.
const Blas::Plan &Blas::planOf(const Product &p) {
  std::unique_ptr<Plan> &plan = plans[p];
  if (plan)
    return *plan;
  auto made = std::make_unique<Plan>();
  MOE_CHECK(
      cublasLtMatmulDescCreate(&made->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  cublasOperation_t first = p.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t second = p.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
  MOE_CHECK(cublasLtMatmulDescSetAttribute(
      made->product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
  MOE_CHECK(cublasLtMatmulDescSetAttribute(
      made->product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
  auto layout = [](cublasLtMatrixLayout_t &made, ElementType type, int64_t rows,
                   int64_t columns) {
    MOE_CHECK(cublasLtMatrixLayoutCreate(&made, dataType(type), columns, rows,
                                         columns));
  };
  layout(made->a, p.input, p.transposeA ? p.depth : p.rows,
         p.transposeA ? p.rows : p.depth);
  layout(made->b, p.input, p.transposeB ? p.columns : p.depth,
         p.transposeB ? p.depth : p.columns);
  layout(made->c, p.output, p.rows, p.columns);

  cublasLtMatmulPreference_t preference;
  MOE_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  MOE_CHECK(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kBlasWorkspace,
      sizeof kBlasWorkspace));
  auto alignment = uint32_t(planted("aligned") ? kMaxAlignment : p.alignment);
  for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    MOE_CHECK(cublasLtMatmulPreferenceSetAttribute(
        preference, attribute, &alignment, sizeof alignment));
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, made->product, made->b, made->a, made->c, made->c, preference, 1,
      &found, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0)
    fail("cuBLASLt has no algorithm for a product of " +
         std::to_string(p.rows) + " x " + std::to_string(p.columns) + " x " +
         std::to_string(p.depth));
  made->algorithm = found.algo;
  plan = std::move(made);
  return *plan;
}

void Blas::multiply(const Product &p, const void *a, const void *b, void *c,
                    void *workspace, cudaStream_t stream) {
  const Plan &plan = planOf(p);
  float alpha = 1, beta = p.accumulate ? 1 : 0;
  MOE_CHECK(cublasLtMatmul(handle, plan.product, &alpha, b, plan.b, a, plan.a,
                           &beta, c, plan.c, c, plan.c, &plan.algorithm,
                           workspace, kBlasWorkspace, stream));
}
