//===- Routing.h - The router's choice and the moves it asks for -*- C++ -*-==//

#ifndef MOE_LIB_RUNTIME_CUDA_KERNELS_ROUTING_H
#define MOE_LIB_RUNTIME_CUDA_KERNELS_ROUTING_H

#include "Group.h"

namespace moert::cuda::kernels {

//===----------------------------------------------------------------------===//
// route: logits -> probs, indices. A warp for each token.
//===----------------------------------------------------------------------===//

/// An expert and its logit, ordered: the larger first, of equal ones the lower
/// expert. A NaN ranks below all.
struct Ranked {
  float logit;
  int32_t expert;

  MOE_DEVICE bool before(const Ranked &other) const {
    return logit > other.logit ||
           (logit == other.logit && expert < other.expert);
  }
};

template <typename Warp> MOE_DEVICE Ranked first(const Warp &w, Ranked r) {
  for (int mask = Warp::kSize / 2; mask; mask /= 2) {
    Ranked other = w.shuffleXor(r, mask);
    r = other.before(r) ? other : r;
  }
  return r;
}

template <typename T> struct Route : SimpleKernel {
  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &, const Arguments &a) {
    int64_t experts = a.dims[0][1], k = a.dims[1][1];
    Deal rows = toWarps(block);
    for (int64_t t = rows.first; t < a.dims[0][0]; t += rows.step)
      runRow(block.warp, pointer<T>(a, 0) + t * experts, experts,
             pointer<T>(a, 1) + t * k, pointer<int32_t>(a, 2) + t * k, k,
             a.numbers[0] != 0.0);
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.dims[0][0], kWarpsOfBlock);
  }

private:
  template <typename Warp>
  MOE_DEVICE static void runRow(const Warp &warp, const T *logits,
                                int64_t experts, T *probs, int32_t *indices,
                                int64_t k, bool normalize) {
    Deal lanes = toLanes(warp);
    // One round for each choice: the first behind the last round's.
    Ranked last = {INFINITY, -1};
    for (int64_t s = 0; s < k; ++s) {
      Ranked best = {-INFINITY, INT32_MAX};
      for (int64_t e = lanes.first; e < experts; e += lanes.step) {
        float z = load(logits[e]);
        Ranked candidate = {z == z ? z : -INFINITY, int32_t(e)};
        if (last.before(candidate) && candidate.before(best))
          best = candidate;
      }
      last = first(warp, best);
      if (warp.rank() == 0)
        indices[s] = last.expert;
    }
    warp.sync();
    float top = load(logits[indices[0]]), total = 0.0f, selected = 0.0f;
    for (int64_t e = lanes.first; e < experts; e += lanes.step)
      total += expf(load(logits[e]) - top);
    total = sum(warp, total);
    auto probability = [&](int64_t s) {
      return expf(load(logits[indices[s]]) - top) / total;
    };
    for (int64_t s = 0; s < k; ++s)
      selected += probability(s);
    for (int64_t s = lanes.first; s < k; s += lanes.step)
      store(probs[s], normalize ? probability(s) / selected : probability(s));
  }
};

//===----------------------------------------------------------------------===//
// route_grad: logits, probs, indices, dprobs -> dlogits. A warp for each token.
//===----------------------------------------------------------------------===//

template <typename T> struct RouteGrad : SimpleKernel {
  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &, const Arguments &a) {
    int64_t experts = a.dims[0][1], k = a.dims[1][1];
    Deal rows = toWarps(block);
    for (int64_t t = rows.first; t < a.dims[0][0]; t += rows.step)
      runRow(block.warp, pointer<T>(a, 0) + t * experts, experts,
             pointer<int32_t>(a, 2) + t * k, pointer<T>(a, 3) + t * k, k,
             pointer<T>(a, 4) + t * experts, a.numbers[0] != 0.0);
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.dims[0][0], kWarpsOfBlock);
  }

private:
  template <typename Warp>
  MOE_DEVICE static void runRow(const Warp &warp, const T *logits,
                                int64_t experts, const int32_t *indices,
                                const T *dprobs, int64_t k, T *dlogits,
                                bool normalize) {
    Deal lanes = toLanes(warp);
    float largest = -INFINITY;
    for (int64_t e = lanes.first; e < experts; e += lanes.step) {
      float z = load(logits[e]);
      largest = z > largest ? z : largest;
    }
    largest = maximum(warp, largest);
    auto weight = [&](int64_t e) { return expf(load(logits[e]) - largest); };
    float total = 0.0f, dot = 0.0f;
    for (int64_t s = lanes.first; s < k; s += lanes.step)
      if (indices[s] >= 0 && indices[s] < experts) {
        float w = weight(indices[s]);
        total += normalize ? w : 0.0f;
        dot += w * load(dprobs[s]);
      }
    if (!normalize)
      for (int64_t e = lanes.first; e < experts; e += lanes.step)
        total += weight(e);
    total = sum(warp, total);
    dot = sum(warp, dot) / total;
    for (int64_t e = lanes.first; e < experts; e += lanes.step) {
      float p = weight(e) / total, d = normalize ? 0.0f : -p * dot;
      // The last, should spoiled memory name an expert twice.
      for (int64_t s = 0; s < k; ++s)
        if (indices[s] == e)
          d = p * (load(dprobs[s]) - dot);
      store(dlogits[e], d);
    }
  }
};

//===----------------------------------------------------------------------===//
// permutation: indices -> map, counts. A block for each expert reads all
// indices twice: how many copies go before its own, and in which order its own.
//===----------------------------------------------------------------------===//

struct Permutation : SimpleKernel {
  /// Copies of a warp's part that go to an expert before this one, to this one.
  struct Shared {
    int64_t before[kWarpsOfBlock], own[kWarpsOfBlock];
  };

  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &shared, const Arguments &a) {
    constexpr int kSize = Block::Warp::kSize;
    const auto &warp = block.warp;
    int64_t copies = a.dims[0][0] * a.dims[0][1], experts = a.dims[2][0];
    // A part of whole warps for each warp.
    int64_t part = (copies + Block::kWarps - 1) / Block::kWarps;
    part = (part + kSize - 1) / kSize * kSize;
    int64_t begin = block.warpIndex() * part, end = begin + part;
    end = end < copies ? end : copies;
    Deal work = toBlocks(block);
    for (int64_t expert = work.first; expert < experts; expert += work.step) {
      int64_t before = 0, own = 0;
      for (int64_t i = begin + warp.rank(); i < end; i += kSize) {
        int64_t e = expertOf(a, i);
        before += e < expert;
        own += e == expert;
      }
      before = sum(warp, before);
      own = sum(warp, own);
      if (warp.rank() == 0) {
        shared.before[block.warpIndex()] = before;
        shared.own[block.warpIndex()] = own;
      }
      block.barrier();
      int64_t row = 0, total = 0;
      for (int w = 0; w < Block::kWarps; ++w) {
        row += shared.before[w] + (w < block.warpIndex() ? shared.own[w] : 0);
        total += shared.own[w];
      }
      for (int64_t i = begin; i < end; i += kSize) {
        int64_t mine = i + warp.rank();
        bool isOwn = mine < end && expertOf(a, mine) == expert;
        uint32_t flags = warp.ballot(isOwn);
        if (isOwn)
          pointer<int32_t>(a, 1)[mine] = int32_t(row + bitsBefore(warp, flags));
        row += bits(flags);
      }
      if (within(block).first == 0)
        pointer<int32_t>(a, 2)[expert] = int32_t(total);
      block.barrier();
    }
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.dims[2][0], 1);
  }

private:
  /// An index out of range takes the nearest expert, so that the map is a
  /// permutation whatever memory holds.
  MOE_DEVICE static int64_t expertOf(const Arguments &a, int64_t i) {
    int64_t e = pointer<int32_t>(a, 0)[i], last = a.dims[2][0] - 1;
    return e < 0 ? 0 : e > last ? last : e;
  }
};

//===----------------------------------------------------------------------===//
// local_rows: recv -> rows
//===----------------------------------------------------------------------===//

/// Counts come from memory that a fault may have spoiled.
MOE_DEVICE int64_t countOf(const int32_t *counts, int64_t i) {
  return counts[i] < 0 ? 0 : counts[i];
}

struct LocalRows : SimpleKernel {
  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &, const Arguments &a) {
    int64_t experts = a.dims[1][0], ranks = int64_t(a.numbers[0]);
    Deal work = toThreads(block);
    for (int64_t e = work.first; e < experts; e += work.step) {
      int64_t total = 0;
      for (int64_t r = 0; r < ranks; ++r)
        total += countOf(pointer<int32_t>(a, 0), r * experts + e);
      pointer<int32_t>(a, 1)[e] =
          int32_t(total < INT32_MAX ? total : INT32_MAX);
    }
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.dims[1][0], kBlock);
  }
};

//===----------------------------------------------------------------------===//
// sort_chunks: x, recv -> y. The rows of a chunk are dealt to some warps.
//===----------------------------------------------------------------------===//

template <typename T> struct SortChunks : SimpleKernel {
  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &, const Arguments &a) {
    int64_t chunks = a.dims[1][0], width = widthOf(a, 0);
    bool inverse = a.numbers[0] != 0.0;
    Deal work = toWarps(block), lanes = toLanes(block.warp);
    int64_t parts = work.step / chunks > 1 ? work.step / chunks : 1;
    for (int64_t i = work.first; i < chunks * parts; i += work.step) {
      Chunk c = find(block.warp, a, i % chunks);
      int64_t from = inverse ? c.sorted : c.received;
      int64_t to = inverse ? c.received : c.sorted;
      const T *x = pointer<T>(a, 0) + from * width;
      T *y = pointer<T>(a, 2) + to * width;
      if (width == 1) {
        int64_t step = parts * lanes.step;
        copy({i / chunks * lanes.step + lanes.first, step}, y, x, c.size);
        continue;
      }
      for (int64_t row = i / chunks; row < c.size; row += parts)
        copy(lanes, y + row * width, x + row * width, width);
    }
  }
  static int64_t blocks(const Arguments &a) {
    int64_t rows = widthOf(a, 0) > 1 ? 1 : 32;
    return blocksFor(a.dims[0][0], rows * kWarpsOfBlock);
  }

private:
  /// Rows of a chunk, cut at the capacity, and where they start in [rank]
  /// [expert] and in [expert][rank] order.
  struct Chunk {
    int64_t size, received, sorted;
  };

  template <typename Warp>
  MOE_DEVICE static Chunk find(const Warp &warp, const Arguments &a,
                               int64_t chunk) {
    const int32_t *recv = pointer<int32_t>(a, 1);
    int64_t chunks = a.dims[1][0], capacity = a.dims[0][0];
    int64_t experts = chunks / int64_t(a.numbers[1]);
    Chunk found = {0, 0, 0};
    int64_t through = 0;
    for (int64_t begin = 0; begin < chunks; begin += Warp::kSize) {
      int64_t i = begin + warp.rank(), total;
      int64_t size = i < chunks ? countOf(recv, i) : 0;
      int64_t start = through + sumBefore(warp, size, total);
      int64_t left = capacity > start ? capacity - start : 0;
      size = size < left ? size : left;
      if (i == chunk)
        found.size = size;
      found.received += i < chunk ? size : 0;
      bool isSortedBefore = i % experts < chunk % experts ||
                            (i % experts == chunk % experts && i < chunk);
      found.sorted += isSortedBefore ? size : 0;
      through += total;
    }
    return {sum(warp, found.size), sum(warp, found.received),
            sum(warp, found.sorted)};
  }
};

} // namespace moert::cuda::kernels

#endif // MOE_LIB_RUNTIME_CUDA_KERNELS_ROUTING_H
