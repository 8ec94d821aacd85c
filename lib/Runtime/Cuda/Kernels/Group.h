//===- Group.h - Threads that work together ---------------------*- C++ -*-===//
//
// A device kernel of the library is one source for both machines: a class with
//
//   struct Shared;                            // Memory of a block.
//   static constexpr bool kUsesScratch;       // Arguments::scratch.
//   template <typename Block>
//   static void run(Block block, Shared &, const Arguments &);
//   static int64_t blocks(const Arguments &); // For all to run at once.
//
// over a Block: its place in the grid, its warps and a barrier. On the device
// (DeviceKernels.cu) a block has kBlock threads in warps of 32, on the host one
// thread is the block and its warp. A test simulates the device's lanes.
//
// What a kernel computes must not depend on the grid, so that twins may run any
// and a schedule may leave SMs to communication. No sum goes through an atomic.
//
// A warp has `kSize` lanes, this one is `rank()`; all of them call
//   shuffle(v, lane)    v of that lane
//   shuffleXor(v, mask) v of lane rank ^ mask
//   ballot(flag)        a bit for each lane
//   sync()              what a lane wrote before is seen by all after.
// A block has `kWarps` warps, this one is `warpIndex()`, `index` of `count`;
//   barrier()           the same for a block
//   arrive(counter)     of one thread: all it wrote before is seen by the block
//                       for which this is true, the last to come.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_KERNELS_GROUP_H
#define MOE_LIB_RUNTIME_CUDA_KERNELS_GROUP_H

#include "lib/Runtime/Cuda/Arguments.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define MOE_DEVICE __device__ __forceinline__
#define MOE_HOST_DEVICE __host__ __device__ __forceinline__
/// Arrays of a lane stay in registers if no index is left.
#define MOE_UNROLL _Pragma("unroll")
/// A body that is large already: its copies would need more registers.
#define MOE_NO_UNROLL _Pragma("unroll 1")
#else
#define MOE_DEVICE inline
#define MOE_HOST_DEVICE inline
#define MOE_UNROLL
#define MOE_NO_UNROLL
#endif

namespace moert::cuda::kernels {

//===----------------------------------------------------------------------===//
// The host's group of one
//===----------------------------------------------------------------------===//

struct HostWarp {
  static constexpr int kSize = 1;
  int rank() const { return 0; }
  template <typename V> V shuffle(V v, int) const { return v; }
  template <typename V> V shuffleXor(V v, int) const { return v; }
  uint32_t ballot(bool flag) const { return flag; }
  void sync() const {}
};

struct HostBlock {
  using Warp = HostWarp;
  static constexpr int kWarps = 1;
  Warp warp;
  unsigned index, count;

  HostBlock(unsigned index, unsigned count) : index(index), count(count) {}
  int warpIndex() const { return 0; }
  void barrier() const {}
  /// Blocks run one after the other.
  bool arrive(unsigned *counter) const { return ++*counter == count; }
};

//===----------------------------------------------------------------------===//
// Work of a group
//===----------------------------------------------------------------------===//

/// Members [first, ..., n) of a loop that is dealt to groups in turn:
/// for (int64_t i = d.first; i < n; i += d.step).
struct Deal {
  int64_t first, step;
};

template <typename Block> MOE_DEVICE Deal toBlocks(const Block &b) {
  return {b.index, b.count};
}
template <typename Block> MOE_DEVICE Deal toWarps(const Block &b) {
  return {int64_t(b.index) * Block::kWarps + b.warpIndex(),
          int64_t(b.count) * Block::kWarps};
}
template <typename Block> MOE_DEVICE Deal toThreads(const Block &b) {
  Deal warps = toWarps(b);
  return {warps.first * Block::Warp::kSize + b.warp.rank(),
          warps.step * Block::Warp::kSize};
}
/// To the lanes of this warp alone.
template <typename Warp> MOE_DEVICE Deal toLanes(const Warp &w) {
  return {w.rank(), Warp::kSize};
}
/// To the threads of this block alone.
template <typename Block> MOE_DEVICE Deal within(const Block &b) {
  constexpr int kSize = Block::Warp::kSize;
  return {b.warpIndex() * kSize + b.warp.rank(), Block::kWarps * kSize};
}

/// Blocks for `n` pieces of work, of which a block does `ofBlock` at a time.
/// More would wait for a place: an SM holds at most 8, a device has at most 160
/// SMs.
inline constexpr int64_t kResident = 8 * 160, kWarpsOfBlock = kBlock / 32;
inline int64_t blocksFor(int64_t n, int64_t ofBlock) {
  int64_t blocks = (n + ofBlock - 1) / ofBlock;
  return blocks < 1 ? 1 : blocks < kResident ? blocks : kResident;
}

//===----------------------------------------------------------------------===//
// Reductions: all lanes get the same bits
//===----------------------------------------------------------------------===//

template <typename Warp, typename V> MOE_DEVICE V sum(const Warp &w, V v) {
  for (int mask = Warp::kSize / 2; mask; mask /= 2)
    v += w.shuffleXor(v, mask);
  return v;
}

/// A NaN is passed over, as on the host engine.
template <typename Warp> MOE_DEVICE float maximum(const Warp &w, float v) {
  v = v > -INFINITY ? v : -INFINITY;
  for (int mask = Warp::kSize / 2; mask; mask /= 2) {
    float other = w.shuffleXor(v, mask);
    v = other > v ? other : v;
  }
  return v;
}

/// Sum of the lanes before this one and, in `total`, of all.
template <typename Warp>
MOE_DEVICE int64_t sumBefore(const Warp &w, int64_t v, int64_t &total) {
  int64_t through = v;
  for (int delta = 1; delta < Warp::kSize; delta *= 2) {
    bool has = w.rank() >= delta;
    int64_t other = w.shuffle(through, has ? w.rank() - delta : 0);
    through += has ? other : 0;
  }
  total = w.shuffle(through, Warp::kSize - 1);
  return through - v;
}

MOE_DEVICE int bits(uint32_t flags) {
#ifdef __CUDA_ARCH__
  return __popc(flags);
#else
  return __builtin_popcount(flags);
#endif
}
/// How many lanes before this one have their bit set.
template <typename Warp>
MOE_DEVICE int bitsBefore(const Warp &w, uint32_t flags) {
  return bits(flags & ((uint32_t(1) << w.rank()) - 1));
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

struct BF16 {
  uint16_t bits;
};

MOE_DEVICE float bitsFloat(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof(x));
  return x;
}

MOE_DEVICE float load(float x) { return x; }
MOE_DEVICE float load(BF16 x) { return bitsFloat(uint32_t(x.bits) << 16); }

/// Rounds to nearest even; a NaN stays one.
MOE_DEVICE void store(BF16 &to, float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof(u));
  uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  uint32_t nan = (u >> 16) | 0x40;
  to.bits = uint16_t((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}
MOE_DEVICE void store(float &to, float x) { to = x; }

/// Memory moves in pieces of 16 bytes where rows allow it.
template <typename T, int N = 16 / sizeof(T)>
struct alignas(N * sizeof(T)) Vector {
  static constexpr int kSize = N;
  T values[N];
};

inline constexpr int64_t kPiece = 16;
MOE_DEVICE bool aligned(const void *p, int64_t to = kPiece) {
  return reinterpret_cast<uintptr_t>(p) % to == 0;
}

/// Copies `n` elements with the threads of `d`.
template <typename T>
MOE_DEVICE void copy(Deal d, T *to, const T *from, int64_t n) {
  using Piece = Vector<T>;
  if (n % Piece::kSize == 0 && aligned(to) && aligned(from)) {
    for (int64_t i = d.first; i < n / Piece::kSize; i += d.step)
      reinterpret_cast<Piece *>(to)[i] =
          reinterpret_cast<const Piece *>(from)[i];
    return;
  }
  for (int64_t i = d.first; i < n; i += d.step)
    to[i] = from[i];
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

template <typename T> MOE_DEVICE T *pointer(const Arguments &a, int operand) {
  return static_cast<T *>(a.pointers[operand]);
}
/// Elements of one row (all but the first dimension).
MOE_DEVICE int64_t widthOf(const Arguments &a, int operand) {
  return a.dims[operand][1] * a.dims[operand][2] * a.dims[operand][3];
}

struct NoShared {};

/// What most kernels say of themselves.
struct SimpleKernel {
  using Shared = NoShared;
  static constexpr bool kUsesScratch = false;
};

} // namespace moert::cuda::kernels

#endif // MOE_LIB_RUNTIME_CUDA_KERNELS_GROUP_H
