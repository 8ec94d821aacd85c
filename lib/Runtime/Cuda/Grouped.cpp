//===- Grouped.cpp - Products of the experts ------------------------------===//

#include "Grouped.h"
#include "GroupedLayout.h"
#include "Kernels/Shapes.h"
#include "LaunchKernel.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <numeric>

using namespace moert;
using namespace moert::cuda;
using kernels::GroupArrays;

namespace {

/// A grouped_linear* op: which operands are x[C, in], y[C, out] and
/// w[E, out, in], or their gradients.
struct GroupedOp {
  enum Kind { Forward, DataGradient, WeightGradient };
  Kind kind = Forward;
  int x = 0, w = 1, rows = 2, y = 3;
  std::vector<Operand> operands;
  int64_t experts, in, out, capacity;
  /// Of each expert's part of an operand.
  int64_t alignment;

  GroupedOp(const std::string &op, const std::vector<Operand> &operands,
            int64_t alignment)
      : operands(operands), alignment(alignment) {
    if (op == "grouped_linear_dgrad")
      kind = DataGradient, y = 0, x = 3;
    else if (op == "grouped_linear_wgrad")
      kind = WeightGradient, y = 1, w = 3;
    const std::vector<int64_t> &shape = operands[w].shape;
    experts = shape[0], out = shape[1], in = shape[2];
    capacity = operands[0].shape[0];
    // They begin anywhere in steps of a row, or of a matrix.
    for (int64_t bytes : {in * elementBytes(type()), out * elementBytes(type()),
                          in * out * elementBytes(weightType())})
      this->alignment = std::gcd(this->alignment, bytes);
  }
  ElementType type() const { return operands[0].type; }
  ElementType weightType() const { return operands[w].type; }
};

//===----------------------------------------------------------------------===//
// A product by a product: any version, any device
//===----------------------------------------------------------------------===//

class ProductPerExpert : public GroupedProduct {
public:
  ProductPerExpert(Blas &blas, GroupedOp op) : blas(blas), op(std::move(op)) {}

  const char *name() const override { return "cuBLASLt per expert"; }
  bool needsRows() const override { return true; }

  void launch(void *const *pointers, const std::vector<int32_t> *rows,
              const Scratch &scratch, cudaStream_t stream) const override {
    int64_t first = 0;
    for (int64_t e = 0; e < op.experts; ++e) {
      // What exceeds the capacity was not received.
      int64_t n = std::clamp<int64_t>((*rows)[e], 0, op.capacity - first);
      if (n == 0)
        continue;
      auto part = [&](int operand, int64_t elements) {
        return static_cast<char *>(pointers[operand]) +
               elements * elementBytes(op.operands[operand].type);
      };
      char *x = part(op.x, first * op.in), *y = part(op.y, first * op.out);
      char *w = part(op.w, e * op.out * op.in);
      Product p;
      p.input = p.output = op.type();
      p.alignment = op.alignment;
      switch (op.kind) {
      case GroupedOp::Forward:
        p.rows = n, p.columns = op.out, p.depth = op.in;
        p.transposeB = true;
        blas.multiply(p, x, w, y, scratch.memory, stream);
        break;
      case GroupedOp::DataGradient:
        p.rows = n, p.columns = op.in, p.depth = op.out;
        blas.multiply(p, y, w, x, scratch.memory, stream);
        break;
      case GroupedOp::WeightGradient:
        p.rows = op.out, p.columns = op.in, p.depth = n;
        p.transposeA = p.accumulate = true;
        p.output = op.weightType();
        blas.multiply(p, y, x, w, scratch.memory, stream);
        break;
      }
      first += n;
    }
  }

private:
  Blas &blas;
  GroupedOp op;
};

class PerExpert : public GroupedProvider {
public:
  explicit PerExpert(Blas &blas) : blas(blas) {}

  std::unique_ptr<GroupedProduct> plan(const std::string &op,
                                       const std::vector<Operand> &operands,
                                       int64_t alignment) override {
    return std::make_unique<ProductPerExpert>(
        blas, GroupedOp(op, operands, alignment));
  }

private:
  Blas &blas;
};

//===----------------------------------------------------------------------===//
// cuBLASLt's own
//===----------------------------------------------------------------------===//

/// What a product needs of the library.
struct Native {
  cublasLtHandle_t handle;
  grouped::LayoutCreate *createLayout;
  cudaKernel_t shapes;
};

/// Of x, y and w. cuBLASLt is column-major: columns are rows here, and leading
/// dimensions are as many as the rows there.
class Layouts {
public:
  cublasLtMatrixLayout_t x = nullptr, y = nullptr, w = nullptr;

  Layouts(const Native &native, const GroupedOp &op, const GroupArrays &at) {
    make(native, x, op.type(), op.experts, at.in, at.rows);
    make(native, y, op.type(), op.experts, at.out, at.rows);
    make(native, w, op.weightType(), op.experts, at.in, at.out);
  }
  ~Layouts() {
    for (cublasLtMatrixLayout_t layout : {x, y, w})
      if (layout)
        cublasLtMatrixLayoutDestroy(layout);
  }
  Layouts(const Layouts &) = delete;

  bool valid() const { return status == CUBLAS_STATUS_SUCCESS; }

private:
  void make(const Native &native, cublasLtMatrixLayout_t &layout,
            ElementType type, int64_t experts, const int32_t *rows,
            const int32_t *columns) {
    if (valid())
      status = native.createLayout(&layout, dataType(type), int(experts), rows,
                                   columns, rows);
    for (auto width : {grouped::kSizesWidth, grouped::kLeadingWidth})
      if (valid())
        status = cublasLtMatrixLayoutSetAttribute(
            layout, width, &grouped::kWidth32, sizeof grouped::kWidth32);
  }

  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
};

class NativeProduct : public GroupedProduct {
public:
  NativeProduct(const Native &native, GroupedOp made)
      : native(native), op(std::move(made)) {
    MOE_CHECK(
        cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA,
        op.kind == GroupedOp::Forward ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB,
        op.kind == GroupedOp::WeightGradient ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
    const int operands[] = {op.rows, op.x, op.y, op.w};
    arguments.operands = 5;
    for (int i = 0; i < 4; ++i) {
      const Operand &operand = op.operands[operands[i]];
      std::fill_n(arguments.dims[i], kMaxRank, 1);
      std::copy(operand.shape.begin(), operand.shape.end(), arguments.dims[i]);
    }
    // Of x, y and w it needs addresses alone.
    arguments.bytes[0] = op.operands[op.rows].bytes();
    arguments.bytes[4] = shapesBytes();
    arguments.effects[4] = uint8_t(Effect::Write);
    arguments.numbers[0] = double(elementBytes(op.type()));
    arguments.numbers[1] = double(elementBytes(op.weightType()));
    arguments.numbers[2] = op.kind == GroupedOp::WeightGradient;
  }
  ~NativeProduct() override { cublasLtMatmulDescDestroy(product); }

  /// False: there is none.
  bool findAlgorithm();

  const char *name() const override { return "cuBLASLt grouped"; }
  bool needsRows() const override { return false; }
  int64_t shapesBytes() const override {
    return GroupArrays::bytes(op.experts);
  }
  void launch(void *const *pointers, const std::vector<int32_t> *,
              const Scratch &scratch, cudaStream_t stream) const override;

private:
  void set(cublasLtMatmulDescAttributes_t attribute, int32_t value) {
    MOE_CHECK(cublasLtMatmulDescSetAttribute(product, attribute, &value,
                                             sizeof value));
  }
  /// x, y and w in the order of cuBLASLt's a, b and c: its c is our c^T, so
  /// that our b is its first operand (as of Blas).
  template <typename T> std::array<T, 3> ordered(T x, T y, T w) const {
    switch (op.kind) {
    case GroupedOp::Forward:
      return {w, x, y};
    case GroupedOp::DataGradient:
      return {w, y, x};
    case GroupedOp::WeightGradient:
      break;
    }
    return {x, y, w};
  }

  const Native &native;
  GroupedOp op;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  Arguments arguments{};
};

bool NativeProduct::findAlgorithm() {
  // Layouts want addresses of device memory; this is that of no stream.
  void *memory = nullptr;
  MOE_CHECK(cudaMalloc(&memory, shapesBytes()));
  std::unique_ptr<void, cudaError_t (*)(void *)> owner(memory, cudaFree);
  Layouts layouts(native, op, GroupArrays(memory, op.experts));
  if (!layouts.valid())
    return false;

  cublasLtMatmulPreference_t preference;
  MOE_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  bool takes = true;
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                    auto value) {
    takes = takes && cublasLtMatmulPreferenceSetAttribute(
                         preference, attribute, &value, sizeof value) ==
                         CUBLAS_STATUS_SUCCESS;
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kBlasWorkspace);
  for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(attribute, uint32_t(op.alignment));
  auto rows = uint32_t(std::max<int64_t>(op.capacity / op.experts, 1));
  auto in = uint32_t(op.in), out = uint32_t(op.out);
  using Sizes = std::array<uint32_t, 3>; // Rows, columns, depth.
  auto [m, n, k] = op.kind == GroupedOp::Forward        ? Sizes{out, rows, in}
                   : op.kind == GroupedOp::DataGradient ? Sizes{in, rows, out}
                                                        : Sizes{in, out, rows};
  prefer(grouped::kAverageRows, m);
  prefer(grouped::kAverageColumns, n);
  prefer(grouped::kAverageDepth, k);

  auto [first, second, result] = ordered(layouts.x, layouts.y, layouts.w);
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  takes = takes && cublasLtMatmulAlgoGetHeuristic(
                       native.handle, product, first, second, result, result,
                       preference, 1, &found, &count) == CUBLAS_STATUS_SUCCESS;
  cublasLtMatmulPreferenceDestroy(preference);
  if (!takes || count == 0)
    return false;
  algorithm = found.algo;
  return true;
}

void NativeProduct::launch(void *const *pointers, const std::vector<int32_t> *,
                           const Scratch &scratch, cudaStream_t stream) const {
  Arguments launched = arguments;
  void *const operands[] = {pointers[op.rows], pointers[op.x], pointers[op.y],
                            pointers[op.w], scratch.shapes};
  std::copy(std::begin(operands), std::end(operands), launched.pointers);
  void *parameters[] = {&launched};
  launchKernel(native.shapes, 1, parameters, stream);

  GroupArrays at(scratch.shapes, op.experts);
  Layouts layouts(native, op, at);
  if (!layouts.valid())
    fail("cuBLASLt makes no layout for a grouped product any more");
  auto [a, b, c] = ordered(layouts.x, layouts.y, layouts.w);
  auto [dataA, dataB, dataC] = ordered(at.x, at.y, at.w);
  MOE_CHECK(cublasLtMatmul(native.handle, product, at.alpha, dataA, a, dataB, b,
                           at.beta, dataC, c, dataC, c, &algorithm,
                           scratch.memory, kBlasWorkspace, stream));
}

/// For bf16; what it has no algorithm for is per expert.
class NativeProvider : public GroupedProvider {
public:
  NativeProvider(Blas &blas, const Native &native)
      : perExpert(blas), native(native) {}

  std::unique_ptr<GroupedProduct> plan(const std::string &op,
                                       const std::vector<Operand> &operands,
                                       int64_t alignment) override {
    GroupedOp made(op, operands, alignment);
    if (made.type() == ElementType::BF16) {
      auto product = std::make_unique<NativeProduct>(native, std::move(made));
      if (product->findAlgorithm())
        return product;
    }
    return perExpert.plan(op, operands, alignment);
  }

private:
  PerExpert perExpert;
  Native native;
};

} // namespace

/// The first version that has grouped products of bf16 there.
static size_t firstVersion(int capability) {
  return capability >= 100 ? 130300 : 130400;
}

std::unique_ptr<GroupedProvider>
moert::cuda::chooseGroupedProvider(Blas &blas, size_t version, int capability,
                                   cudaLibrary_t library) {
  const char *asked = std::getenv("MOE_RT_GROUPED");
  if (asked && std::string(asked) != "per-expert")
    fail("MOE_RT_GROUPED is '" + std::string(asked) +
         "', but can only be 'per-expert'");
  Native native{blas.getHandle(), nullptr, nullptr};
  if (!asked && version >= firstVersion(capability))
    native.createLayout = reinterpret_cast<grouped::LayoutCreate *>(
        dlsym(RTLD_DEFAULT, grouped::kLayoutCreate));
  if (!native.createLayout)
    return std::make_unique<PerExpert>(blas);
  MOE_CHECK(
      cudaLibraryGetKernel(&native.shapes, library, "moe_group_shapes_i32"));
  return std::make_unique<NativeProvider>(blas, native);
}
