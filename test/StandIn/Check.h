//===- Check.h - A program on CUDA, cuBLASLt and NCCL -----------*- C++ -*-===//
//
// The program under test knows nothing of the stand-in: it is linked with the
// vendor's libraries. A scenario either returns, or the stand-in ends it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_STANDIN_CHECK_H
#define MOE_TEST_STANDIN_CHECK_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CHECK(condition)                                                       \
  check::expect(__FILE__, __LINE__, #condition, bool(condition), true)
#define EXPECT(expression, error)                                              \
  check::expect(__FILE__, __LINE__, #expression, int(expression), int(error))
#define OK(expression) EXPECT(expression, 0)

namespace check {

/// Ends the program if they differ.
inline void expect(const char *file, int line, const char *text, int got,
                   int expected) {
  if (got == expected)
    return;
  std::fprintf(stderr, "%s:%d: %s is %d, expected %d\n", file, line, text, got,
               expected);
  std::exit(1);
}

int rank();
int worldSize();

cudaStream_t newStream();
cudaEvent_t newEvent();
/// `to` waits for what `from` has now.
void order(cudaStream_t from, cudaStream_t to);

template <typename T> T *device(size_t count) {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, count * sizeof(T)));
  return static_cast<T *>(pointer);
}
template <typename T> T *upload(const std::vector<T> &values) {
  T *pointer = device<T>(values.size());
  OK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T),
                cudaMemcpyHostToDevice));
  return pointer;
}
/// Waits for the whole device.
template <typename T> std::vector<T> download(const T *pointer, size_t count) {
  std::vector<T> values(count);
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpy(values.data(), pointer, count * sizeof(T),
                cudaMemcpyDeviceToHost));
  return values;
}

/// Of all ranks, or more of them one after the other.
ncclComm_t world();

/// The kernel moe_test_scale: y = factor * x.
void scale(const float *x, float *y, size_t count, double factor,
           cudaStream_t stream);
/// The generated kernel moe_kernel_double: y[4] = 2 * x[4].
void twice(const float *x, float *y, cudaStream_t stream);

uint16_t toBf16(float value);
float fromBf16(uint16_t bits);

/// C = alpha * op(A) * op(B) + beta * C.
struct Matrix {
  const void *data;
  cudaDataType type;
  uint64_t rows, columns;
  int order = CUBLASLT_ORDER_COL;
  int64_t leading = 0;
};
void multiply(const Matrix &a, bool transposeA, const Matrix &b,
              bool transposeB, const Matrix &c, float alpha, float beta,
              int batch, cudaStream_t stream);

using Scenario = void (*)();
struct Named {
  const char *name;
  Scenario run;
};
extern const std::vector<Named> cleanScenarios, faultScenarios,
    groupedScenarios;

} // namespace check

#endif // MOE_TEST_STANDIN_CHECK_H
