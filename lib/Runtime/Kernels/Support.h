//===- Support.h - What the host kernels share ----------------------------===//
//
// Element types, access to a launch, tiles, ragged rows, arithmetic whose bits
// do not depend on how a loop is vectorised. Compiled without contraction and
// without fast-math: every fused multiply-add here is written as one.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_KERNELS_SUPPORT_H
#define MOE_LIB_RUNTIME_KERNELS_SUPPORT_H

#include "moe/Runtime/Kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace moert::kernels {

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

struct BF16 {
  uint16_t bits;
};

inline uint32_t floatBits(float x) {
  uint32_t u;
  std::memcpy(&u, &x, sizeof(u));
  return u;
}
inline float bitsFloat(uint32_t u) {
  float x;
  std::memcpy(&x, &u, sizeof(x));
  return x;
}

inline float load(float x) { return x; }
inline float load(BF16 x) { return bitsFloat(uint32_t(x.bits) << 16); }

/// Rounds to nearest even; a NaN stays one.
inline void store(BF16 &to, float x) {
  uint32_t u = floatBits(x);
  uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  uint32_t nan = (u >> 16) | 0x40;
  to.bits = uint16_t((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}
inline void store(float &to, float x) { to = x; }

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// A launch as a kernel reads it. checkLaunch has accepted it.
class Args {
public:
  Args(const Launch &launch) : launch(launch) {}

  const std::vector<int64_t> &shape(int operand) const {
    return (*launch.operands)[operand].shape;
  }
  int64_t dim(int operand, int axis) const { return shape(operand)[axis]; }
  /// Elements of one row (all but the first dimension).
  int64_t width(int operand) const {
    int64_t n = 1;
    for (size_t i = 1; i < shape(operand).size(); ++i)
      n *= shape(operand)[i];
    return n;
  }
  int64_t elements(int operand) const {
    return shape(operand).empty() ? 1 : dim(operand, 0) * width(operand);
  }
  template <typename T> T *pointer(int operand) const {
    return static_cast<T *>(launch.pointers[operand]);
  }
  double real(const char *name) const { return launch.attribute(name); }
  int64_t integer(const char *name) const {
    return int64_t(launch.attribute(name));
  }

private:
  const Launch &launch;
};

/// A HostKernel::run that picks the code by the type of operand `Operand`.
template <int Operand, auto F32, auto Bf16>
void typed(const Launch &launch, int64_t tile) {
  if ((*launch.operands)[Operand].type == ElementType::BF16)
    Bf16(Args(launch), tile);
  else
    F32(Args(launch), tile);
}
/// A HostKernel::run of one type.
template <auto Run> void untyped(const Launch &launch, int64_t tile) {
  Run(Args(launch), tile);
}

inline int64_t one(const Launch &) { return 1; }

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The `tile`-th run of `step` of [0, n).
inline Range slice(int64_t n, int64_t step, int64_t tile) {
  return {tile * step, std::min(n, (tile + 1) * step)};
}

/// Elements that a tile of a memory-bound kernel handles, about.
inline constexpr int64_t kTileElements = 32768;

inline int64_t rowsPerTile(int64_t width) {
  return std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, width));
}
/// Tiles of whole rows of operand `Operand`, and the rows of one of them.
template <int Operand> int64_t rowTiles(const Launch &launch) {
  Args args(launch);
  return ceilDiv(args.dim(Operand, 0), rowsPerTile(args.width(Operand)));
}
template <int Operand> Range tileRows(const Args &args, int64_t tile) {
  return slice(args.dim(Operand, 0), rowsPerTile(args.width(Operand)), tile);
}
/// Tiles of a flat run of the elements of operand `Operand`.
template <int Operand> int64_t flatTiles(const Launch &launch) {
  return ceilDiv(Args(launch).elements(Operand), kTileElements);
}
template <int Operand> Range tileElements(const Args &args, int64_t tile) {
  return slice(args.elements(Operand), kTileElements, tile);
}

//===----------------------------------------------------------------------===//
// Ragged rows
//===----------------------------------------------------------------------===//

/// Walks experts' rows. Counts come from memory that a fault may have spoiled:
/// a negative one counts as 0, and no row is at or past `capacity`.
class RaggedRows {
public:
  RaggedRows(const int32_t *rows, int64_t experts, int64_t capacity)
      : rows(rows), experts(experts), capacity(capacity) {}

  /// Calls f(expert, Range) for each expert in order until it returns true.
  template <typename F> void each(F f) const {
    int64_t begin = 0;
    for (int64_t e = 0; e < experts; ++e) {
      int64_t end = std::min(capacity, begin + std::max<int64_t>(0, rows[e]));
      if (f(e, Range{begin, end}))
        return;
      begin = end;
    }
  }
  Range of(int64_t expert) const {
    Range found;
    each([&](int64_t e, Range r) { return found = r, e == expert; });
    return found;
  }
  int64_t total() const { return experts ? of(experts - 1).end : 0; }

private:
  const int32_t *rows;
  int64_t experts, capacity;
};

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// e^x within 2 units in the last place; 0 below -104, infinity above 88.73.
/// Branch-free, so that a vectorised loop and its scalar rest agree bit by bit.
inline float exponential(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  constexpr float magic = 12582912.0f;
  float shifted = __builtin_fmaf(x, 1.44269504f, magic);
  float n = shifted - magic;
  float r = __builtin_fmaf(n, -0.693145752f, x);
  r = __builtin_fmaf(n, -1.42860677e-6f, r);
  float p = 1.98756912e-4f;
  p = __builtin_fmaf(p, r, 1.39819994e-3f);
  p = __builtin_fmaf(p, r, 8.33345205e-3f);
  p = __builtin_fmaf(p, r, 4.16657962e-2f);
  p = __builtin_fmaf(p, r, 1.66666657e-1f);
  p = __builtin_fmaf(p, r, 0.5f);
  p = __builtin_fmaf(p, r * r, r) + 1.0f;
  // 2^n in two steps, so that neither leaves the normal range.
  int32_t i = int32_t(floatBits(shifted) - floatBits(magic));
  int32_t half = i >> 1;
  float a = bitsFloat(uint32_t(half + 127) << 23);
  float b = bitsFloat(uint32_t(i - half + 127) << 23);
  return p * a * b;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

/// Lanes of a reduction: term i goes to lane i mod 16, whatever the machine.
inline constexpr int kLanes = 16;

/// Combines term(0) .. term(n-1) by `join`, lane by lane, then the lanes as a
/// tree.
template <typename Value, typename Join, typename Term>
Value reduce(int64_t n, Value neutral, Join join, Term term) {
  Value lanes[kLanes];
  for (int l = 0; l < kLanes; ++l)
    lanes[l] = neutral;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l)
      lanes[l] = join(lanes[l], term(i + l));
  for (int l = 0; i + l < n; ++l)
    lanes[l] = join(lanes[l], term(i + l));
  for (int width = kLanes / 2; width; width /= 2)
    for (int l = 0; l < width; ++l)
      lanes[l] = join(lanes[l], lanes[l + width]);
  return lanes[0];
}

template <typename Term> float sumOf(int64_t n, Term term) {
  return reduce(n, 0.0f, [](float a, float b) { return a + b; }, term);
}
/// The largest; a NaN is passed over (what is derived from it shows it).
template <typename Term> float maxOf(int64_t n, Term term) {
  return reduce(
      n, -INFINITY, [](float a, float b) { return b > a ? b : a; }, term);
}

/// Memory of this thread for the length of one tile; `Slot` tells the
/// buffers of one kernel apart.
template <int Slot> float *scratch(int64_t elements) {
  static thread_local std::vector<float> buffer;
  if (int64_t(buffer.size()) < elements)
    buffer.resize(elements);
  return buffer.data();
}

} // namespace moert::kernels

#endif // MOE_LIB_RUNTIME_KERNELS_SUPPORT_H
