//===- Routing.cpp - The router's choice and the moves it asks for --------===//

#include "Library.h"
#include "Support.h"

using namespace moert;
using namespace moert::kernels;

namespace {

//===----------------------------------------------------------------------===//
// route: logits -> probs, indices
//===----------------------------------------------------------------------===//

/// The k largest of the row and their experts in falling order, equal ones by
/// rising expert. Softmax keeps the order, so logits are compared, which
/// rounding can't make equal. A NaN ranks below all, so that the experts are
/// always k different ones.
template <typename T>
void chooseExperts(const T *logits, int64_t experts, int64_t k, float *largest,
                   int32_t *chosen) {
  int64_t count = 0;
  for (int64_t e = 0; e < experts; ++e) {
    float z = load(logits[e]);
    z = z == z ? z : -INFINITY;
    if (count == k && !(z > largest[k - 1]))
      continue;
    int64_t at = count < k ? count++ : k - 1;
    for (; at > 0 && z > largest[at - 1]; --at) {
      largest[at] = largest[at - 1];
      chosen[at] = chosen[at - 1];
    }
    largest[at] = z;
    chosen[at] = int32_t(e);
  }
}

template <typename T> void runRoute(const Args &args, int64_t tile) {
  int64_t experts = args.dim(0, 1), k = args.dim(1, 1);
  bool normalize = args.integer("normalize");
  float *p = scratch<0>(k);
  Range rows = tileRows<0>(args, tile);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const T *logits = args.pointer<T>(0) + t * experts;
    T *probs = args.pointer<T>(1) + t * k;
    int32_t *indices = args.pointer<int32_t>(2) + t * k;
    chooseExperts(logits, experts, k, p, indices);
    float top = load(logits[indices[0]]);
    float total = sumOf(
        experts, [&](int64_t e) { return exponential(load(logits[e]) - top); });
    float selected = 0.0f;
    for (int64_t s = 0; s < k; ++s) {
      p[s] = exponential(load(logits[indices[s]]) - top) / total;
      selected += p[s];
    }
    for (int64_t s = 0; s < k; ++s)
      store(probs[s], normalize ? p[s] / selected : p[s]);
  }
}

/// Operands logits, probs, indices, dprobs -> dlogits. The probabilities are
/// computed again: the stored ones may be rounded to bf16.
template <typename T> void runRouteGrad(const Args &args, int64_t tile) {
  int64_t experts = args.dim(0, 1), k = args.dim(1, 1);
  bool normalize = args.integer("normalize");
  Range rows = tileRows<0>(args, tile);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const T *logits = args.pointer<T>(0) + t * experts;
    const int32_t *indices = args.pointer<int32_t>(2) + t * k;
    const T *dprobs = args.pointer<T>(3) + t * k;
    T *dlogits = args.pointer<T>(4) + t * experts;
    auto valid = [&](int64_t s) {
      return indices[s] >= 0 && indices[s] < experts;
    };
    float largest = maxOf(experts, [&](int64_t e) { return load(logits[e]); });
    auto weight = [&](int64_t e) {
      return exponential(load(logits[e]) - largest);
    };
    float total = 0.0f, dot = 0.0f;
    for (int64_t s = 0; s < k; ++s)
      if (valid(s)) {
        total += weight(indices[s]);
        dot += weight(indices[s]) * load(dprobs[s]);
      }
    if (!normalize)
      total = sumOf(experts, weight);
    dot /= total;
    for (int64_t e = 0; e < experts; ++e)
      store(dlogits[e], normalize ? 0.0f : -(weight(e) / total) * dot);
    for (int64_t s = 0; s < k; ++s)
      if (valid(s)) {
        float p = weight(indices[s]) / total;
        store(dlogits[indices[s]], p * (load(dprobs[s]) - dot));
      }
  }
}

//===----------------------------------------------------------------------===//
// Permutation
//===----------------------------------------------------------------------===//

/// Operands indices -> map, counts. An index out of range takes the nearest
/// expert, so that the map is a permutation whatever memory holds.
void runPermutation(const Args &args, int64_t) {
  int64_t copies = args.elements(0), experts = args.dim(2, 0);
  const int32_t *indices = args.pointer<int32_t>(0);
  int32_t *map = args.pointer<int32_t>(1), *counts = args.pointer<int32_t>(2);
  auto expert = [&](int64_t i) {
    return std::clamp<int64_t>(indices[i], 0, experts - 1);
  };
  std::fill_n(counts, experts, 0);
  for (int64_t i = 0; i < copies; ++i)
    ++counts[expert(i)];
  std::vector<int32_t> next(experts, 0);
  for (int64_t e = 1; e < experts; ++e)
    next[e] = next[e - 1] + counts[e - 1];
  for (int64_t i = 0; i < copies; ++i)
    map[i] = next[expert(i)]++;
}

/// Moves `width` elements per copy: operands x [T,w] or [T,k], map -> y.
/// A row out of range moves nothing.
template <typename T> void runPermute(const Args &args, int64_t tile) {
  int64_t k = args.dim(1, 1), width = args.dim(0, 1), total = args.dim(2, 0);
  const int32_t *map = args.pointer<int32_t>(1);
  Range rows = tileRows<0>(args, tile);
  for (int64_t t = rows.begin; t < rows.end; ++t)
    for (int64_t s = 0; s < k; ++s) {
      int64_t row = map[t * k + s];
      if (row >= 0 && row < total)
        std::copy_n(args.pointer<T>(0) + t * width, width,
                    args.pointer<T>(2) + row * width);
    }
}

/// Operands y, map -> x: the sum of the copies in slot order.
template <typename T> void runUnpermute(const Args &args, int64_t tile) {
  int64_t k = args.dim(1, 1), width = args.dim(2, 1), total = args.dim(0, 0);
  const int32_t *map = args.pointer<int32_t>(1);
  Range rows = tileRows<2>(args, tile);
  float *sums = scratch<0>(width);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    std::fill_n(sums, width, 0.0f);
    for (int64_t s = 0; s < k; ++s) {
      int64_t row = map[t * k + s];
      if (row < 0 || row >= total)
        continue;
      const T *y = args.pointer<T>(0) + row * width;
      for (int64_t j = 0; j < width; ++j)
        sums[j] += load(y[j]);
    }
    T *x = args.pointer<T>(2) + t * width;
    for (int64_t j = 0; j < width; ++j)
      store(x[j], sums[j]);
  }
}

/// Operands probs, map -> p.
template <typename T> void runPermuteProbs(const Args &args, int64_t tile) {
  const int32_t *map = args.pointer<int32_t>(1);
  int64_t total = args.dim(2, 0);
  Range r = tileElements<0>(args, tile);
  for (int64_t i = r.begin; i < r.end; ++i)
    if (map[i] >= 0 && map[i] < total)
      args.pointer<T>(2)[map[i]] = args.pointer<T>(0)[i];
}

/// Operands p, map -> probs.
template <typename T> void runUnpermuteProbs(const Args &args, int64_t tile) {
  const int32_t *map = args.pointer<int32_t>(1);
  int64_t total = args.dim(0, 0);
  Range r = tileElements<2>(args, tile);
  for (int64_t i = r.begin; i < r.end; ++i)
    if (map[i] >= 0 && map[i] < total)
      args.pointer<T>(2)[i] = args.pointer<T>(0)[map[i]];
}

//===----------------------------------------------------------------------===//
// Received rows
//===----------------------------------------------------------------------===//

/// Operands recv [R*E] -> rows [E].
void runLocalRows(const Args &args, int64_t) {
  int64_t experts = args.dim(1, 0), ranks = args.integer("ranks");
  const int32_t *recv = args.pointer<int32_t>(0);
  for (int64_t e = 0; e < experts; ++e) {
    int64_t total = 0;
    for (int64_t r = 0; r < ranks; ++r)
      total += std::max(0, recv[r * experts + e]);
    args.pointer<int32_t>(1)[e] = int32_t(std::min<int64_t>(total, INT32_MAX));
  }
}

int64_t sortChunksTiles(const Launch &launch) {
  return Args(launch).integer("ranks");
}

/// Operands x, recv -> y. A tile moves the chunks of one source rank.
template <typename T> void runSortChunks(const Args &args, int64_t tile) {
  int64_t ranks = args.integer("ranks"), chunks = args.dim(1, 0);
  int64_t experts = chunks / ranks, width = args.width(0);
  bool inverse = args.integer("inverse");
  // Where each chunk starts in [rank][expert] order, cut at the capacity.
  std::vector<int64_t> start(chunks + 1, 0);
  RaggedRows(args.pointer<int32_t>(1), chunks, args.dim(0, 0))
      .each([&](int64_t i, Range r) { return start[i + 1] = r.end, false; });
  auto size = [&](int64_t r, int64_t e) {
    return start[r * experts + e + 1] - start[r * experts + e];
  };
  const T *x = args.pointer<T>(0);
  T *y = args.pointer<T>(2);
  int64_t sorted = 0;
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t r = 0; r < ranks; ++r) {
      if (r == tile) {
        int64_t from = start[r * experts + e], to = sorted;
        if (inverse)
          std::swap(from, to);
        std::copy_n(x + from * width, size(r, e) * width, y + to * width);
      }
      sorted += size(r, e);
    }
}

} // namespace

const HostKernel kernels::route = {rowTiles<0>,
                                   typed<0, runRoute<float>, runRoute<BF16>>};
const HostKernel kernels::routeGrad = {
    rowTiles<0>, typed<0, runRouteGrad<float>, runRouteGrad<BF16>>};
const HostKernel kernels::permutation = {one, untyped<runPermutation>};
const HostKernel kernels::permute = {
    rowTiles<0>, typed<0, runPermute<float>, runPermute<BF16>>};
const HostKernel kernels::unpermute = {
    rowTiles<2>, typed<0, runUnpermute<float>, runUnpermute<BF16>>};
const HostKernel kernels::permuteProbs = {
    flatTiles<0>, typed<0, runPermuteProbs<float>, runPermuteProbs<BF16>>};
const HostKernel kernels::unpermuteProbs = {
    flatTiles<2>, typed<0, runUnpermuteProbs<float>, runUnpermuteProbs<BF16>>};
const HostKernel kernels::localRows = {one, untyped<runLocalRows>};
const HostKernel kernels::sortChunks = {
    sortChunksTiles, typed<0, runSortChunks<float>, runSortChunks<BF16>>};
