//===- Attention.cpp - Causal attention by blocks -------------------------===//
//
// Operands q [T, heads*d], k, v [T, kv_heads*d], o like q, lse [T, heads].
// Forward walks the keys of a query block in order with a running maximum and
// sum; backward makes the probabilities again from lse. Blocks start at
// multiples of kBlock of the sequence, so that a row's bits depend on its own
// sequence up to itself and on nothing else.
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"
#include "Library.h"

using namespace moert;
using namespace moert::kernels;

namespace {

constexpr int64_t kBlock = 96;
static_assert(kBlock <= kTileM && kBlock <= kTileN, "a block is one product");

struct Sizes {
  int64_t heads, kvHeads, d, sequence, tokens;
  float scale;

  Sizes(const Args &args)
      : heads(args.integer("heads")), kvHeads(args.integer("kv_heads")),
        d(args.integer("head_dim")), sequence(args.integer("sequence")),
        tokens(args.dim(0, 0)), scale(float(args.real("scale"))) {}

  int64_t blocks() const { return ceilDiv(sequence, kBlock); }
  int64_t sequences() const { return tokens / sequence; }
  int64_t width() const { return heads * d; }
  int64_t kvWidth() const { return kvHeads * d; }
};

// A head's rows [begin, ...) of a matrix of `width` columns, as a panel of
// rows (k: over d) or of columns (k: over rows).
template <typename T>
Panel<T> byRows(const T *head, int64_t width, int64_t begin) {
  return {head + begin * width, width, 1};
}
template <typename T>
Panel<T> byColumns(const T *head, int64_t width, int64_t begin) {
  return {head + begin * width, 1, width};
}

/// c = a b^T over all d columns of a head; d may exceed a tile's columns.
template <typename TA, typename TB>
void multiplyWide(Panel<TA> a, Panel<TB> b, int64_t m, int64_t n, int64_t k,
                  float *c, int64_t ldc, bool accumulate) {
  for (int64_t j = 0; j < n; j += kTileN)
    multiply(a, b.from(j), m, std::min(kTileN, n - j), k, c + j, ldc,
             accumulate);
}

//===----------------------------------------------------------------------===//
// Forward: q, k, v -> o, lse. Tiles: sequence, head, block of queries.
//===----------------------------------------------------------------------===//

int64_t attentionTiles(const Launch &launch) {
  Sizes s{Args(launch)};
  return s.sequences() * s.heads * s.blocks();
}

template <typename T> void runAttention(const Args &args, int64_t tile) {
  Sizes s(args);
  int64_t first = tile / s.blocks() / s.heads * s.sequence;
  int64_t head = tile / s.blocks() % s.heads;
  int64_t kvHead = head / (s.heads / s.kvHeads);
  Range queries = slice(s.sequence, kBlock, tile % s.blocks());
  int64_t n = queries.size(), d = s.d;
  const T *q = args.pointer<T>(0) + first * s.width() + head * d;
  const T *k = args.pointer<T>(1) + first * s.kvWidth() + kvHead * d;
  const T *v = args.pointer<T>(2) + first * s.kvWidth() + kvHead * d;

  float *p = scratch<2>(kBlock * kBlock), *sums = scratch<3>(kBlock * d);
  float largest[kBlock], total[kBlock] = {};
  std::fill_n(largest, kBlock, -INFINITY);
  std::fill_n(sums, n * d, 0.0f);
  for (int64_t begin = 0; begin < queries.end; begin += kBlock) {
    Range keys{begin, std::min(begin + kBlock, queries.end)};
    multiply(byRows(q, s.width(), queries.begin),
             byRows(k, s.kvWidth(), keys.begin), n, keys.size(), d, p, kBlock,
             false);
    for (int64_t i = 0; i < n; ++i) {
      float *row = p + i * kBlock;
      int64_t seen = std::min(keys.end, queries.begin + i + 1) - keys.begin;
      for (int64_t j = 0; j < seen; ++j)
        row[j] *= s.scale;
      float top = maxOf(seen, [&](int64_t j) { return row[j]; });
      top = top > largest[i] ? top : largest[i];
      for (int64_t j = 0; j < seen; ++j)
        row[j] = exponential(row[j] - top);
      std::fill(row + seen, row + keys.size(), 0.0f);
      float rescale = exponential(largest[i] - top);
      total[i] =
          total[i] * rescale + sumOf(seen, [&](int64_t j) { return row[j]; });
      largest[i] = top;
      for (int64_t j = 0; j < d; ++j)
        sums[i * d + j] *= rescale;
    }
    multiplyWide(byRows(p, kBlock, 0), byColumns(v, s.kvWidth(), keys.begin), n,
                 d, keys.size(), sums, d, true);
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t t = first + queries.begin + i;
    T *o = args.pointer<T>(3) + t * s.width() + head * d;
    for (int64_t j = 0; j < d; ++j)
      store(o[j], sums[i * d + j] / total[i]);
    args.pointer<float>(4)[t * s.heads + head] =
        float(double(largest[i]) + std::log(double(total[i])));
  }
}

//===----------------------------------------------------------------------===//
// Backward: q, k, v, o, lse, do -> dq, dk, dv. Tiles: sequence, key/value head;
// its heads, query blocks and key blocks come in order.
//===----------------------------------------------------------------------===//

int64_t attentionGradTiles(const Launch &launch) {
  Sizes s{Args(launch)};
  return s.sequences() * s.kvHeads;
}

template <typename T> void runAttentionGrad(const Args &args, int64_t tile) {
  Sizes s(args);
  int64_t first = tile / s.kvHeads * s.sequence, kvHead = tile % s.kvHeads;
  int64_t group = s.heads / s.kvHeads, d = s.d, width = s.width();
  int64_t kvWidth = s.kvWidth(), kvOffset = first * kvWidth + kvHead * d;
  const T *k = args.pointer<T>(1) + kvOffset,
          *v = args.pointer<T>(2) + kvOffset;

  float *dk = scratch<2>(2 * s.sequence * d), *dv = dk + s.sequence * d;
  float *p = scratch<3>(2 * kBlock * kBlock), *dp = p + kBlock * kBlock;
  float *dq = scratch<4>(kBlock * d);
  std::fill_n(dk, 2 * s.sequence * d, 0.0f);
  for (int64_t head = kvHead * group; head < (kvHead + 1) * group; ++head) {
    int64_t offset = first * width + head * d;
    const T *q = args.pointer<T>(0) + offset, *o = args.pointer<T>(3) + offset;
    const T *dO = args.pointer<T>(5) + offset;
    const float *lse = args.pointer<float>(4) + first * s.heads + head;
    for (int64_t b = 0; b < s.blocks(); ++b) {
      Range queries = slice(s.sequence, kBlock, b);
      int64_t n = queries.size();
      float dots[kBlock];
      for (int64_t i = 0; i < n; ++i) {
        const T *x = o + (queries.begin + i) * width;
        const T *y = dO + (queries.begin + i) * width;
        dots[i] = sumOf(d, [&](int64_t j) { return load(x[j]) * load(y[j]); });
      }
      std::fill_n(dq, n * d, 0.0f);
      for (int64_t begin = 0; begin < queries.end; begin += kBlock) {
        Range keys{begin, std::min(begin + kBlock, queries.end)};
        int64_t m = keys.size();
        multiply(byRows(q, width, queries.begin),
                 byRows(k, kvWidth, keys.begin), n, m, d, p, kBlock, false);
        multiply(byRows(dO, width, queries.begin),
                 byRows(v, kvWidth, keys.begin), n, m, d, dp, kBlock, false);
        for (int64_t i = 0; i < n; ++i) {
          float *row = p + i * kBlock, *grad = dp + i * kBlock;
          float shift = lse[(queries.begin + i) * s.heads];
          int64_t seen = std::min(keys.end, queries.begin + i + 1) - keys.begin;
          for (int64_t j = 0; j < seen; ++j) {
            row[j] = exponential(row[j] * s.scale - shift);
            grad[j] = row[j] * (grad[j] - dots[i]) * s.scale;
          }
          std::fill(row + seen, row + m, 0.0f);
          std::fill(grad + seen, grad + m, 0.0f);
        }
        multiplyWide(byColumns(p, kBlock, 0),
                     byColumns(dO, width, queries.begin), m, d, n,
                     dv + keys.begin * d, d, true);
        multiplyWide(byColumns(dp, kBlock, 0),
                     byColumns(q, width, queries.begin), m, d, n,
                     dk + keys.begin * d, d, true);
        multiplyWide(byRows(dp, kBlock, 0), byColumns(k, kvWidth, keys.begin),
                     n, d, m, dq, d, true);
      }
      T *out = args.pointer<T>(6) + offset + queries.begin * width;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < d; ++j)
          store(out[i * width + j], dq[i * d + j]);
    }
  }
  T *dkOut = args.pointer<T>(7) + kvOffset,
    *dvOut = args.pointer<T>(8) + kvOffset;
  for (int64_t t = 0; t < s.sequence; ++t)
    for (int64_t j = 0; j < d; ++j) {
      store(dkOut[t * kvWidth + j], dk[t * d + j]);
      store(dvOut[t * kvWidth + j], dv[t * d + j]);
    }
}

} // namespace

const HostKernel kernels::attention = {
    attentionTiles, typed<0, runAttention<float>, runAttention<BF16>>};
const HostKernel kernels::attentionGrad = {
    attentionGradTiles,
    typed<0, runAttentionGrad<float>, runAttentionGrad<BF16>>};
