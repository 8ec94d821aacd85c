//===- DeviceKernels.cu - Kernels.def for the device ------------*- C++ -*-===//

#include "Kernels/All.h"

using namespace moert::cuda;
using namespace moert::cuda::kernels;

namespace {

struct DeviceWarp {
  static constexpr int kSize = 32;
  static constexpr unsigned kAll = 0xffffffff;

  MOE_DEVICE int rank() const { return int(threadIdx.x % kSize); }
  template <typename V> MOE_DEVICE V shuffle(V v, int lane) const {
    return byWords(
        v, [&](unsigned word) { return __shfl_sync(kAll, word, lane); });
  }
  template <typename V> MOE_DEVICE V shuffleXor(V v, int mask) const {
    return byWords(
        v, [&](unsigned word) { return __shfl_xor_sync(kAll, word, mask); });
  }
  MOE_DEVICE uint32_t ballot(bool flag) const {
    return __ballot_sync(kAll, flag);
  }
  MOE_DEVICE void sync() const { __syncwarp(); }

private:
  template <typename V, typename Exchange>
  MOE_DEVICE static V byWords(V v, Exchange exchange) {
    unsigned words[sizeof(V) / 4];
    memcpy(words, &v, sizeof(V));
    MOE_UNROLL
    for (unsigned &word : words)
      word = exchange(word);
    memcpy(&v, words, sizeof(V));
    return v;
  }
};

struct DeviceBlock {
  using Warp = DeviceWarp;
  static constexpr int kWarps = kWarpsOfBlock;
  Warp warp;
  unsigned index, count;

  MOE_DEVICE DeviceBlock() : index(blockIdx.x), count(gridDim.x) {}
  MOE_DEVICE int warpIndex() const { return int(threadIdx.x / Warp::kSize); }
  MOE_DEVICE void barrier() const { __syncthreads(); }
  MOE_DEVICE bool arrive(unsigned *counter) const {
    __threadfence();
    bool isLast = atomicAdd(counter, 1u) == count - 1;
    __threadfence();
    return isLast;
  }
};

} // namespace

#define MOE_DEVICE_KERNEL(op, type, ...)                                       \
  extern "C" __global__ void __launch_bounds__(kBlock, 2)                      \
      moe_##op##_##type(const __grid_constant__ Arguments arguments) {         \
    __shared__ __VA_ARGS__::Shared shared;                                     \
    __VA_ARGS__::run(DeviceBlock(), shared, arguments);                        \
  }
#include "Kernels/Kernels.def"
