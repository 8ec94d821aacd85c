//===- Blas.cpp - Matrix products by cuBLASLt -----------------------------===//

#include "Blas.h"
#include "Fault.h"

#include <algorithm>
#include <numeric>
#include <tuple>

using namespace moert;
using namespace moert::cuda;

bool Product::operator<(const Product &o) const {
  return std::tie(rows, columns, depth, transposeA, transposeB, accumulate,
                  input, output, alignment) <
         std::tie(o.rows, o.columns, o.depth, o.transposeA, o.transposeB,
                  o.accumulate, o.input, o.output, o.alignment);
}

static cudaDataType_t dataType(ElementType type) {
  return type == ElementType::BF16 ? CUDA_R_16BF : CUDA_R_32F;
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

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

namespace {

/// A product by a product: any version, any device.
class PerExpert : public GroupedProvider {
public:
  explicit PerExpert(Blas &blas) : blas(blas) {}

  const char *name() const override { return "cuBLASLt per expert"; }

  void launch(const std::string &op, const std::vector<Operand> &operands,
              void *const *pointers, const std::vector<int32_t> &rows,
              int64_t alignment, void *workspace,
              cudaStream_t stream) override {
    bool wgrad = op == "grouped_linear_wgrad";
    // The weights, or their gradients: [E, out, in].
    const Operand &w = operands[wgrad ? 3 : 1];
    int64_t out = w.shape[1], in = w.shape[2];
    int64_t first = 0, capacity = operands[0].shape[0];
    auto rowBytes = [&](int operand) {
      const Operand &o = operands[operand];
      return o.shape[1] * elementBytes(o.type);
    };
    // An expert's rows begin at any row.
    alignment = std::gcd(alignment, rowBytes(0));
    alignment = std::gcd(alignment, rowBytes(wgrad ? 1 : 3));
    alignment = std::gcd(alignment, out * in * elementBytes(w.type));
    for (size_t e = 0; e < rows.size(); ++e) {
      // What exceeds the capacity was not received.
      int64_t n = std::clamp<int64_t>(rows[e], 0, capacity - first);
      if (n == 0)
        continue;
      auto row = [&](int operand) {
        return static_cast<char *>(pointers[operand]) +
               first * rowBytes(operand);
      };
      char *expert = static_cast<char *>(pointers[wgrad ? 3 : 1]) +
                     int64_t(e) * out * in * elementBytes(w.type);
      Product p;
      p.input = operands[0].type;
      p.alignment = alignment;
      if (wgrad) {
        p.rows = out, p.columns = in, p.depth = n;
        p.transposeA = p.accumulate = true;
        blas.multiply(p, row(1), row(0), expert, workspace, stream);
      } else {
        bool dgrad = op == "grouped_linear_dgrad";
        p.output = p.input;
        p.rows = n, p.columns = dgrad ? in : out, p.depth = dgrad ? out : in;
        p.transposeB = !dgrad;
        blas.multiply(p, row(0), expert, row(3), workspace, stream);
      }
      first += n;
    }
  }

private:
  Blas &blas;
};

} // namespace

std::unique_ptr<GroupedProvider>
moert::cuda::chooseGroupedProvider(Blas &blas, size_t, int) {
  return std::make_unique<PerExpert>(blas);
}
