//===- Blas.h - Matrix products by cuBLASLt ---------------------*- C++ -*-===//

#ifndef MOE_LIB_RUNTIME_CUDA_BLAS_H
#define MOE_LIB_RUNTIME_CUDA_BLAS_H

#include "Check.h"
#include "moe/Table/Table.h"

#include <map>
#include <memory>

namespace moert::cuda {

/// Bytes of scratch memory that a product may use on its stream.
inline constexpr size_t kBlasWorkspace = 32 << 20;

/// More is of no use to a product: what cuBLASLt takes for granted.
inline constexpr int64_t kMaxAlignment = 256;

/// Memory of a stream that its ops may use, one after the other.
struct Scratch {
  void *memory = nullptr;
  /// Zero before and after each op.
  void *zeros = nullptr;
  /// Of grouped products: their sizes, where the device computes them.
  void *shapes = nullptr;
};

/// Row-major c[rows, columns] = op(a) op(b) (+ c). a is [rows, depth], or
/// [depth, rows] if transposed; b is [depth, columns], or [columns, depth] if
/// transposed. Sums in f32.
struct Product {
  int64_t rows = 0, columns = 0, depth = 0;
  bool transposeA = false, transposeB = false;
  /// Adds to c.
  bool accumulate = false;
  /// Of a and b, and of c.
  ElementType input = ElementType::F32, output = ElementType::F32;
  /// Bytes that divide the addresses of a, b and c.
  int64_t alignment = kMaxAlignment;

  bool operator<(const Product &other) const;
};

inline cudaDataType_t dataType(ElementType type) {
  return type == ElementType::BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

class Blas {
public:
  Blas();
  ~Blas();
  Blas(const Blas &) = delete;

  /// `workspace` has kBlasWorkspace bytes and belongs to the stream.
  void multiply(const Product &product, const void *a, const void *b, void *c,
                void *workspace, cudaStream_t stream);
  /// Chooses the algorithm, so that multiply() only launches.
  void prepare(const Product &product) { planOf(product); }

  cublasLtHandle_t getHandle() const { return handle; }

private:
  struct Plan;
  const Plan &planOf(const Product &product);

  cublasLtHandle_t handle = nullptr;
  std::map<Product, std::unique_ptr<Plan>> plans;
};

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_BLAS_H
