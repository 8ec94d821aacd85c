//===- Profile.cpp - Rates of kernels against the machine's ---------------===//

#include "Profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace moert;
using namespace moert::cuda;

Profile::Profile(std::string path) : path(std::move(path)) {
  MOE_CHECK(cudaEventCreateWithFlags(&start, cudaEventDefault));
  MOE_CHECK(cudaEventCreateWithFlags(&stop, cudaEventDefault));
}

Profile::~Profile() {
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
}

std::unique_ptr<Profile> Profile::create(int64_t rank) {
  const char *path = std::getenv("MOE_RT_PROFILE");
  if (!path || !*path || rank != 0)
    return nullptr;
  return std::unique_ptr<Profile>(new Profile(path));
}

void Profile::begin(cudaStream_t stream) {
  // Alone on the device.
  MOE_CHECK(cudaDeviceSynchronize());
  MOE_CHECK(cudaEventRecord(start, stream));
}

double Profile::lap(cudaStream_t stream) {
  float milliseconds = 0;
  MOE_CHECK(cudaEventRecord(stop, stream));
  MOE_CHECK(cudaEventSynchronize(stop));
  MOE_CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
  return std::max(1e-9, milliseconds * 1e-3);
}

void Profile::end(const Kernel &kernel, cudaStream_t stream) {
  Entry &entry = entries[kernel.name];
  ++entry.calls;
  entry.seconds += lap(stream);
  entry.flops += kernel.flops;
  entry.bytes += kernel.bytes;
}

void Profile::write(Blas &blas, char *spare, size_t bytes, void *workspace,
                    cudaStream_t stream) {
  // The best of several, after a first one that warms up.
  auto best = [&](auto run) {
    double seconds = INFINITY;
    for (int i = 0; i < 6; ++i) {
      begin(stream);
      run();
      double lapped = lap(stream);
      if (i > 0)
        seconds = std::min(seconds, lapped);
    }
    return seconds;
  };
  size_t half = bytes / 2;
  double copied =
      2.0 * half / best([&] {
        MOE_CHECK(cudaMemcpyAsync(spare, spare + half, half,
                                  cudaMemcpyDeviceToDevice, stream));
      });
  // Three square matrices of bf16 that fit.
  int64_t n = int64_t(std::sqrt(bytes / 6.0)) / 128 * 128;
  Product product;
  product.rows = product.columns = product.depth = std::min<int64_t>(n, 8192);
  product.input = product.output = ElementType::BF16;
  MOE_CHECK(cudaMemsetAsync(spare, 0, bytes, stream));
  int64_t matrix = 2 * product.rows * product.columns;
  double multiplied =
      2.0 * product.rows * product.columns * product.depth / best([&] {
        blas.multiply(product, spare, spare + matrix, spare + 2 * matrix,
                      workspace, stream);
      });

  std::FILE *file = std::fopen(path.c_str(), "w");
  if (!file)
    fail(path + ": can't be written");
  std::fprintf(file,
               "# copy %.1f GB/s, product of %lld^3 bf16 %.1f TFLOP/s\n"
               "%-28s %8s %12s %10s %10s %6s %6s\n",
               copied / 1e9, static_cast<long long>(product.rows),
               multiplied / 1e12, "# kernel", "calls", "us a call", "TFLOP/s",
               "GB/s", "% gemm", "% copy");
  for (const auto &[name, entry] : entries)
    std::fprintf(
        file, "%-28s %8lld %12.2f %10.2f %10.1f %6.1f %6.1f\n", name.c_str(),
        static_cast<long long>(entry.calls), 1e6 * entry.seconds / entry.calls,
        entry.flops / entry.seconds / 1e12, entry.bytes / entry.seconds / 1e9,
        100 * entry.flops / entry.seconds / multiplied,
        100 * entry.bytes / entry.seconds / copied);
  if (std::fclose(file) != 0)
    fail(path + ": can't be written");
}
