//===- Grouped.cpp - Grouped products of a newer cuBLASLt -------*- C++ -*-===//
//
// MOE_STANDIN_CUBLASLT has to say that it is one.
//
//===----------------------------------------------------------------------===//

#include "Check.h"
#include "lib/Runtime/Cuda/GroupedLayout.h"

#include <cstring>
#include <dlfcn.h>

using namespace check;
namespace grouped = moert::cuda::grouped;

namespace {

constexpr int kGroups = 3;

/// z += x y for each group: x[2, k], y[k, n], z[2, n], where sizes and pointers
/// are in device memory.
struct Groups {
  cudaStream_t a = newStream(), b = newStream();
  float *x = upload<float>({1, 2, 3, 4, 1, 0, 0, 1, 5, 5, 5, 5});
  float *y = upload<float>({1, 1, 0, 1, 6, 7, 8, 9, 5, 5, 5, 5});
  float *z = upload(std::vector<float>(12, 10));
  float *scales = upload<float>({1, 1});
  int32_t *two = upload<int32_t>({2, 2, 2});
  /// The last group has no depth: what it adds to is to stay.
  int32_t *k = upload<int32_t>({2, 2, 0});
  int32_t *n = device<int32_t>(kGroups);
  void **parts[3] = {partsOf(x), partsOf(y), partsOf(z)};

  static void **partsOf(float *of) {
    return upload<void *>({of, of + 4, of + 8});
  }
  /// In order with what `a` has.
  void setColumns(std::vector<int32_t> columns) {
    void *pinned = nullptr;
    size_t bytes = columns.size() * sizeof(int32_t);
    OK(cudaMallocHost(&pinned, bytes));
    std::memcpy(pinned, columns.data(), bytes);
    OK(cudaMemcpyAsync(n, pinned, bytes, cudaMemcpyHostToDevice, a));
  }
  void multiply();
};

cublasLtMatrixLayout_t layoutOf(const int32_t *rows, const int32_t *columns,
                                const int32_t *leading) {
  auto *create = reinterpret_cast<grouped::LayoutCreate *>(
      dlsym(RTLD_DEFAULT, grouped::kLayoutCreate));
  CHECK(create != nullptr);
  cublasLtMatrixLayout_t layout;
  OK(create(&layout, CUDA_R_32F, kGroups, rows, columns, leading));
  for (auto width : {grouped::kSizesWidth, grouped::kLeadingWidth})
    OK(cublasLtMatrixLayoutSetAttribute(layout, width, &grouped::kWidth32,
                                        sizeof grouped::kWidth32));
  return layout;
}

void Groups::multiply() {
  cublasLtHandle_t handle;
  OK(cublasLtCreate(&handle));
  cublasLtMatmulDesc_t description;
  OK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  int32_t mode = CUBLASLT_POINTER_MODE_DEVICE;
  OK(cublasLtMatmulDescSetAttribute(
      description, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode));
  cublasLtMatrixLayout_t layouts[] = {
      layoutOf(two, k, two), layoutOf(k, n, two), layoutOf(two, n, two)};
  OK(cublasLtMatmul(handle, description, scales, parts[0], layouts[0], parts[1],
                    layouts[1], scales + 1, parts[2], layouts[2], parts[2],
                    layouts[2], nullptr, nullptr, 0, a));
  for (cublasLtMatrixLayout_t layout : layouts)
    OK(cublasLtMatrixLayoutDestroy(layout));
  OK(cublasLtMatmulDescDestroy(description));
  OK(cublasLtDestroy(handle));
}

/// Other sizes for each of two products, which are enqueued before they are
/// known, and twice more from a graph. What they leave is another stream's.
void products() {
  Groups g;
  g.setColumns({2, 0, 2});
  g.multiply();
  g.setColumns({0, 1, 1});
  g.multiply();
  scale(g.x, g.z + 6, 2, 3, g.b);
  CHECK((download(g.z, 12) ==
         std::vector<float>{14, 16, 13, 14, 16, 17, 3, 6, 10, 10, 10, 10}));

  OK(cudaStreamBeginCapture(g.a, cudaStreamCaptureModeGlobal));
  g.multiply();
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(g.a, &graph));
  cudaGraphExec_t executable;
  OK(cudaGraphInstantiate(&executable, graph, 0));
  OK(cudaGraphLaunch(executable, g.a));
  g.setColumns({1, 0, 0});
  OK(cudaGraphLaunch(executable, g.a));
  CHECK((download(g.z, 8) == std::vector<float>{18, 22, 13, 14, 22, 24, 3, 6}));
}

/// Another stream writes what the product does.
void race() {
  Groups g;
  g.setColumns({2, 0, 0});
  g.multiply();
  scale(g.x, g.z, 2, 1, g.b);
  OK(cudaDeviceSynchronize());
}

/// And before the product is issued.
void earlierRace() {
  Groups g;
  scale(g.x, g.z, 2, 1, g.b);
  g.setColumns({2, 0, 0});
  g.multiply();
  OK(cudaDeviceSynchronize());
}

/// Memory of an op that is issued after a product whose bytes are unknown.
void freed() {
  Groups g;
  float *other = device<float>(4);
  g.setColumns({2, 0, 0});
  g.multiply();
  scale(g.x, other, 4, 1, g.b);
  OK(cudaFree(other));
}

/// What the product writes is freed before it runs.
void freedBeforeRun() {
  Groups g;
  g.setColumns({2, 0, 0});
  g.multiply();
  OK(cudaFree(g.z));
  OK(cudaDeviceSynchronize());
}

/// Nothing wrote how many columns there are.
void sizes() {
  Groups g;
  g.multiply();
  OK(cudaDeviceSynchronize());
}

} // namespace

const std::vector<Named> check::groupedScenarios = {
    {"grouped", products},
    {"grouped-race", race},
    {"grouped-earlier-race", earlierRace},
    {"grouped-freed", freed},
    {"grouped-freed-before-run", freedBeforeRun},
    {"grouped-sizes", sizes}};
