//===- Check.cpp - A program on CUDA, cuBLASLt and NCCL ---------*- C++ -*-===//
//
// usage: stand-in-check SCENARIO. run.py sets RANK, WORLD_SIZE and RENDEZVOUS.
//
//===----------------------------------------------------------------------===//

#include "Check.h"
#include "lib/Runtime/Cuda/Arguments.h"

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

namespace check {
namespace {

int environment(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

cudaKernel_t kernel(const char *name) {
  static cudaLibrary_t library = [] {
    // The stand-in takes what a kernel does from its twin.
    static const char image[16] = {};
    cudaLibrary_t result;
    OK(cudaLibraryLoadData(&result, image, nullptr, nullptr, 0, nullptr,
                           nullptr, 0));
    return result;
  }();
  cudaKernel_t result;
  OK(cudaLibraryGetKernel(&result, library, name));
  return result;
}

void launch(cudaKernel_t kernel, void **parameters, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(2);
  config.blockDim = dim3(moert::cuda::kBlock);
  config.stream = stream;
  OK(cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(kernel),
                         parameters));
}

cublasLtMatrixLayout_t layoutOf(const Matrix &m, int batch) {
  int64_t line = m.order == CUBLASLT_ORDER_COL ? m.rows : m.columns;
  int64_t stride = m.rows * m.columns;
  cublasLtMatrixLayout_t result;
  OK(cublasLtMatrixLayoutCreate(&result, m.type, m.rows, m.columns,
                                m.leading ? m.leading : line));
  OK(cublasLtMatrixLayoutSetAttribute(result, CUBLASLT_MATRIX_LAYOUT_ORDER,
                                      &m.order, sizeof m.order));
  OK(cublasLtMatrixLayoutSetAttribute(
      result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
  OK(cublasLtMatrixLayoutSetAttribute(
      result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
      sizeof stride));
  return result;
}

} // namespace

int rank() { return environment("RANK", 0); }
int worldSize() { return environment("WORLD_SIZE", 1); }

cudaStream_t newStream() {
  cudaStream_t stream;
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  return stream;
}

cudaEvent_t newEvent() {
  cudaEvent_t event;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

void order(cudaStream_t from, cudaStream_t to) {
  cudaEvent_t event = newEvent();
  OK(cudaEventRecord(event, from));
  OK(cudaStreamWaitEvent(to, event, 0));
  OK(cudaEventDestroy(event));
}

ncclComm_t world() {
  static int number = 0;
  std::string path =
      std::string(std::getenv("RENDEZVOUS")) + "/id" + std::to_string(number++);
  ncclUniqueId id;
  if (rank() == 0) {
    OK(ncclGetUniqueId(&id));
    std::ofstream(path + ".part", std::ios::binary)
        .write(reinterpret_cast<const char *>(&id), sizeof id);
    CHECK(std::rename((path + ".part").c_str(), path.c_str()) == 0);
  } else {
    std::ifstream file;
    for (;;) {
      file.open(path, std::ios::binary);
      if (file)
        break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    CHECK(file.read(reinterpret_cast<char *>(&id), sizeof id));
  }
  ncclComm_t result;
  OK(ncclCommInitRank(&result, worldSize(), id, rank()));
  return result;
}

void scale(const float *x, float *y, size_t count, double factor,
           cudaStream_t stream) {
  static cudaKernel_t function = kernel("moe_test_scale");
  moert::cuda::Arguments arguments = {};
  arguments.pointers[0] = const_cast<float *>(x);
  arguments.pointers[1] = y;
  arguments.bytes[0] = arguments.bytes[1] = int64_t(count * sizeof(float));
  arguments.numbers[0] = factor;
  arguments.operands = 2;
  arguments.effects[1] = 1;
  void *parameters[] = {&arguments};
  launch(function, parameters, stream);
}

void twice(const float *x, float *y, cudaStream_t stream) {
  static cudaKernel_t function = kernel("moe_kernel_double");
  void *parameters[] = {&x, &y};
  launch(function, parameters, stream);
}

uint16_t toBf16(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  return uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

float fromBf16(uint16_t bits) {
  uint32_t word = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

void multiply(const Matrix &a, bool transposeA, const Matrix &b,
              bool transposeB, const Matrix &c, float alpha, float beta,
              int batch, cudaStream_t stream) {
  static cublasLtHandle_t handle = [] {
    cublasLtHandle_t result;
    OK(cublasLtCreate(&result));
    return result;
  }();
  cublasLtMatmulDesc_t description;
  OK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  int32_t operation = transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
  OK(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA,
                                    &operation, sizeof operation));
  operation = transposeB ? CUBLAS_OP_T : CUBLAS_OP_N;
  OK(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSB,
                                    &operation, sizeof operation));
  cublasLtMatrixLayout_t layouts[] = {layoutOf(a, batch), layoutOf(b, batch),
                                      layoutOf(c, batch)};
  cublasLtMatmulPreference_t preference;
  OK(cublasLtMatmulPreferenceCreate(&preference));
  uint64_t limit = 64 << 10;
  OK(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit,
      sizeof limit));
  cublasLtMatmulHeuristicResult_t heuristic;
  int found = 0;
  OK(cublasLtMatmulAlgoGetHeuristic(handle, description, layouts[0], layouts[1],
                                    layouts[2], layouts[2], preference, 1,
                                    &heuristic, &found));
  CHECK(found == 1);
  static void *workspace = device<char>(64 << 10);
  CHECK(heuristic.workspaceSize <= limit);
  void *out = const_cast<void *>(c.data);
  OK(cublasLtMatmul(handle, description, &alpha, a.data, layouts[0], b.data,
                    layouts[1], &beta, out, layouts[2], out, layouts[2],
                    &heuristic.algo, workspace, heuristic.workspaceSize,
                    stream));
  for (cublasLtMatrixLayout_t layout : layouts)
    OK(cublasLtMatrixLayoutDestroy(layout));
  OK(cublasLtMatmulPreferenceDestroy(preference));
  OK(cublasLtMatmulDescDestroy(description));
}

} // namespace check

int main(int argc, char **argv) {
  for (auto *list : {&check::cleanScenarios, &check::faultScenarios,
                     &check::groupedScenarios})
    for (const check::Named &scenario : *list)
      if (argc == 2 && std::string(argv[1]) == scenario.name) {
        scenario.run();
        return 0;
      }
  std::fprintf(stderr, "usage: stand-in-check SCENARIO\n");
  return 2;
}
