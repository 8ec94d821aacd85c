//===- Gemm.cpp - Products of matrices by tiles ---------------------------===//
//
// Operands are packed to f32 panels, rows of A by six and rows of B by sixteen,
// and an inner kernel keeps 6 x 16 sums in registers (AVX2 has sixteen of
// eight floats: twelve sums, two of B, one of A).
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"

using namespace moert;
using namespace moert::kernels;

namespace {

typedef float Vec __attribute__((vector_size(32)));
typedef float LooseVec __attribute__((vector_size(32), aligned(4)));
typedef uint16_t Half __attribute__((vector_size(16)));
typedef uint16_t LooseHalf __attribute__((vector_size(16), aligned(2)));
typedef uint32_t Word __attribute__((vector_size(32)));

constexpr int64_t kRows = 6, kColumns = 16;

Vec load8(const float *p) { return *reinterpret_cast<const LooseVec *>(p); }
Vec load8(const BF16 *p) {
  Half half = *reinterpret_cast<const LooseHalf *>(p);
  return Vec(__builtin_convertvector(half, Word) << 16);
}
Vec splat(float x) { return Vec{x, x, x, x, x, x, x, x}; }
void store8(float *p, Vec v) { *reinterpret_cast<LooseVec *>(p) = v; }

void transpose8(Vec (&r)[8]) {
  Vec a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4,
                                       12, 5, 13);
    a[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11,
                                           6, 14, 7, 15);
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      Vec x = a[4 * i + j], y = a[4 * i + 2 + j];
      b[4 * i + 2 * j] =
          __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13);
      b[4 * i + 2 * j + 1] =
          __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    r[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    r[i + 4] =
        __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// Packs a panel whose k runs along memory, by transposing squares of eight.
template <int64_t Width, typename T>
void packAlong(Panel<T> from, int64_t n, int64_t k, float *to) {
  for (int64_t i = 0; i < n; i += Width, to += Width * k) {
    int64_t rows = std::min(Width, n - i);
    const T *data = from.data + i * from.stride;
    int64_t kk = 0;
    for (; kk + 8 <= k; kk += 8)
      for (int64_t j = 0; j < Width; j += 8) {
        Vec block[8];
        for (int64_t l = 0; l < 8; ++l)
          block[l] =
              j + l < rows ? load8(data + (j + l) * from.stride + kk) : Vec{};
        transpose8(block);
        // If Width is no multiple of 8 a store spills onto the next k, which
        // is written after it.
        for (int64_t l = 0; l < 8; ++l)
          store8(to + (kk + l) * Width + j, block[l]);
      }
    for (; kk < k; ++kk)
      for (int64_t j = 0; j < Width; ++j)
        to[kk * Width + j] = j < rows ? load(data[j * from.stride + kk]) : 0.0f;
  }
}

/// Packs a panel whose rows run along memory. Eight k at a time over all rows:
/// each line of memory is used up before many others that share its place in
/// the cache.
template <int64_t Width, typename T>
void packAcross(Panel<T> from, int64_t n, int64_t k, float *to) {
  for (int64_t begin = 0; begin < k; begin += 8)
    for (int64_t i = 0; i < n; i += Width)
      for (int64_t kk = begin; kk < std::min(k, begin + 8); ++kk) {
        const T *data = from.data + kk * from.kStride + i;
        float *out = to + i * k + kk * Width;
        // Whole vectors where what they spill is written after them.
        if (n - i >= ceilDiv(Width, 8) * 8 && (Width % 8 == 0 || kk + 1 < k))
          for (int64_t j = 0; j < Width; j += 8)
            store8(out + j, load8(data + j));
        else
          for (int64_t j = 0; j < Width; ++j)
            out[j] = i + j < n ? load(data[j]) : 0.0f;
      }
}

/// Packs rows [0, n) of a panel for k of them: Width rows at a time, k-major,
/// missing rows as zeros. May write up to 8 floats past the end.
template <int64_t Width, typename T>
void pack(Panel<T> from, int64_t n, int64_t k, float *to) {
  if (from.kStride == 1)
    packAlong<Width>(from, n, k, to);
  else
    packAcross<Width>(from, n, k, to);
}

/// c[i * ldc + j] (+)= sum over k of a[k * 6 + i] b[k * 16 + j] for i < Rows.
template <int64_t Rows>
void inner(const float *a, const float *b, int64_t k, float *c, int64_t ldc,
           bool accumulate) {
  Vec sums[Rows][2] = {};
  for (int64_t kk = 0; kk < k; ++kk, a += kRows, b += kColumns) {
    Vec b0 = load8(b), b1 = load8(b + 8);
    for (int64_t i = 0; i < Rows; ++i) {
      Vec ai = splat(a[i]);
      sums[i][0] = __builtin_elementwise_fma(ai, b0, sums[i][0]);
      sums[i][1] = __builtin_elementwise_fma(ai, b1, sums[i][1]);
    }
  }
  for (int64_t i = 0; i < Rows; ++i)
    for (int64_t j = 0; j < 2; ++j) {
      float *to = c + i * ldc + 8 * j;
      store8(to, accumulate ? load8(to) + sums[i][j] : sums[i][j]);
    }
}

using Inner = void (*)(const float *, const float *, int64_t, float *, int64_t,
                       bool);
constexpr Inner kInner[kRows] = {inner<1>, inner<2>, inner<3>,
                                 inner<4>, inner<5>, inner<6>};

} // namespace

template <typename TA, typename TB>
void kernels::multiply(Panel<TA> a, Panel<TB> b, int64_t m, int64_t n,
                       int64_t k, float *c, int64_t ldc, bool accumulate) {
  if (k == 0 && !accumulate)
    for (int64_t i = 0; i < m; ++i)
      std::fill_n(c + i * ldc, n, 0.0f);
  constexpr int64_t sizeA = kTileM * kBlockK + 8;
  float *packed = scratch<0>(sizeA + kTileN * kBlockK + 8);
  float *packedB = packed + sizeA;
  for (int64_t kk = 0; kk < k; kk += kBlockK) {
    int64_t block = std::min(kBlockK, k - kk);
    bool add = accumulate || kk > 0;
    pack<kRows>(Panel<TA>{a.data + kk * a.kStride, a.stride, a.kStride}, m,
                block, packed);
    pack<kColumns>(Panel<TB>{b.data + kk * b.kStride, b.stride, b.kStride}, n,
                   block, packedB);
    for (int64_t j = 0; j < n; j += kColumns)
      for (int64_t i = 0; i < m; i += kRows) {
        int64_t rows = std::min(kRows, m - i), columns = n - j;
        float *to = c + i * ldc + j;
        const float *pa = packed + i * block, *pb = packedB + j * block;
        if (columns >= kColumns) {
          kInner[rows - 1](pa, pb, block, to, ldc, add);
          continue;
        }
        float edge[kRows * kColumns];
        kInner[rows - 1](pa, pb, block, edge, kColumns, false);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t l = 0; l < columns; ++l) {
            float &out = to[r * ldc + l];
            out = add ? out + edge[r * kColumns + l] : edge[r * kColumns + l];
          }
      }
  }
}

namespace moert::kernels {
#define INSTANTIATE(A, B)                                                      \
  template void multiply(Panel<A>, Panel<B>, int64_t, int64_t, int64_t,        \
                         float *, int64_t, bool);
INSTANTIATE(float, float)
INSTANTIATE(float, BF16)
INSTANTIATE(BF16, float)
INSTANTIATE(BF16, BF16)
#undef INSTANTIATE
} // namespace moert::kernels
